/* status.c - the names of enum status. */
#include "base/status.h"

const char *status_name(enum status status)
{
    switch (status) {
    case STATUS_OK:
        return "ok";
    case STATUS_BUSY:
        return "busy";
    case STATUS_LOST:
        return "lost";
    case STATUS_NOT_OWNER:
        return "not_owner";
    case STATUS_NOT_FOUND:
        return "not_found";
    case STATUS_INVALID:
        return "invalid";
    case STATUS_TIMEOUT:
        return "timeout";
    case STATUS_IO:
        return "io";
    case STATUS_DOWN:
        return "down";
    case STATUS_REFUSED:
        return "refused";
    case STATUS_UNSAFE:
        return "unsafe";
    case STATUS_CANCELLED:
        return "cancelled";
    case STATUS_NO_MEMORY:
        return "no_memory";
    }
    return "unknown";
}
