/*
 * frozen_clock.h - defines clock_gettime(), so that only the test changes the time. Only one source
 * file of a test program may include this header.
 */
#ifndef TEST_FROZEN_CLOCK_H
#define TEST_FROZEN_CLOCK_H

#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int64_t frozen_us;

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
int clock_gettime(clockid_t id, struct timespec *ret_time)
{
    if (id != CLOCK_BOOTTIME)
        return (int)syscall(SYS_clock_gettime, id, ret_time);
    *ret_time = (struct timespec){.tv_sec = frozen_us / 1000000,
                                  .tv_nsec = frozen_us % 1000000 * 1000};
    return 0;
}

#endif
