/*
 * slow_disk.c - a library that is preloaded into Postgres, and delays each flush of the WAL as a
 * network disk does.
 *
 * SLOW_DISK names a file that contains the delay in microseconds, as an int64_t. It may be changed
 * at any time. Postgres flushes the WAL by fdatasync(), and other files by fsync(), which has no
 * delay.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *delay_us; /* NULL: no delay */

static __attribute__((constructor)) void map_delay(void)
{
    const char *path =
        getenv("SLOW_DISK"); // NOLINT(concurrency-mt-unsafe): no threads yet
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    void *map;

    if (fd < 0)
        return;
    map = mmap(NULL, sizeof(*delay_us), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (map != MAP_FAILED)
        delay_us = map;
}

int fdatasync(int fildes)
{
    int64_t us = delay_us == NULL ? 0 : *delay_us;
    struct timespec left = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};

    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
    return (int)syscall(SYS_fdatasync, fildes);
}
