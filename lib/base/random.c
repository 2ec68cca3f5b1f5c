/* random.c - getrandom(2), with the clock as a fallback for jitter. */
#include "base/random.h"
#include "base/clock.h"

#include <sys/random.h>

bool random_fill(void *ret_bytes, size_t count)
{
    return getrandom(ret_bytes, count, 0) == (ssize_t)count;
}

uint64_t random_u64(void)
{
    uint64_t number;

    if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != (ssize_t)sizeof(number))
        number = (uint64_t)clock_mono_us();
    return number;
}
