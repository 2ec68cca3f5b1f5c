/* status.c - the names of enum status. */
#include "base/status.h"

#include <stddef.h>

const char *status_name(enum status status)
{
    static const char *const names[] = {
        [STATUS_OK] = "ok",
        [STATUS_BUSY] = "busy",
        [STATUS_LOST] = "lost",
        [STATUS_NOT_OWNER] = "not_owner",
        [STATUS_NOT_FOUND] = "not_found",
        [STATUS_INVALID] = "invalid",
        [STATUS_TIMEOUT] = "timeout",
        [STATUS_IO] = "io",
        [STATUS_DOWN] = "down",
        [STATUS_REFUSED] = "refused",
        [STATUS_UNSAFE] = "unsafe",
        [STATUS_CANCELLED] = "cancelled",
        [STATUS_NO_MEMORY] = "no_memory",
    };

    return (size_t)status < sizeof(names) / sizeof(names[0]) ? names[status] : "unknown";
}
