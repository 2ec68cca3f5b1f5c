/* clock.c - reads clock_gettime() and adds the shift that a test has set. */
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
    return read_us(CLOCK_BOOTTIME);
}

int64_t clock_real_us(void)
{
    return read_us(CLOCK_REALTIME);
}

uint64_t clock_ms_until(int64_t at_us)
{
    int64_t now_us = clock_mono_us();

    return at_us <= now_us ? 0 : ((uint64_t)at_us - (uint64_t)now_us) / 1000 + 1;
}

int64_t clock_shift_us(int64_t add_us)
{
    return atomic_fetch_add(&shift_us, add_us);
}
