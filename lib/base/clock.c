/* clock.c - clock_gettime plus the shift that tests ask for. */
#include "base/clock.h"

#include <stdatomic.h>
#include <time.h>

static _Atomic int64_t shift_us;

static int64_t read_us(clockid_t id)
{
    struct timespec now;

    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 +
           atomic_load_explicit(&shift_us, memory_order_relaxed);
}

int64_t clock_mono_us(void)
{
    return read_us(CLOCK_MONOTONIC);
}

int64_t clock_real_us(void)
{
    return read_us(CLOCK_REALTIME);
}

int64_t clock_shift_us(int64_t add_us)
{
    return atomic_fetch_add(&shift_us, add_us);
}
