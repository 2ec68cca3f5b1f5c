/* status.c - the names of enum rlock_status. */
#include "base/status.h"

#include <stddef.h>

const char *rlock_status_name(enum rlock_status status)
{
    static const char *const names[] = {
        [RLOCK_OK] = "ok",
        [RLOCK_BUSY] = "busy",
        [RLOCK_LOST] = "lost",
        [RLOCK_NOT_OWNER] = "not_owner",
        [RLOCK_NOT_FOUND] = "not_found",
        [RLOCK_INVALID] = "invalid",
        [RLOCK_TIMEOUT] = "timeout",
        [RLOCK_IO] = "io",
        [RLOCK_DOWN] = "down",
        [RLOCK_REFUSED] = "refused",
        [RLOCK_UNSAFE] = "unsafe",
        [RLOCK_CANCELLED] = "cancelled",
        [RLOCK_NO_MEMORY] = "no_memory",
    };

    return (size_t)status < sizeof(names) / sizeof(names[0]) ? names[status] : "unknown";
}
