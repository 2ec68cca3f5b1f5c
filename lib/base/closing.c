/* closing.c - counts the open handles and parts of an owner. */
#include "base/closing.h"

void closing_start(struct closing *closing, void (*closed)(void *owner), void *owner)
{
    *closing = (struct closing){.open = 1, .closed = closed, .owner = owner};
}

static void closing_on_handle(uv_handle_t *handle)
{
    closing_done(handle->data);
}

void closing_handle(struct closing *closing, uv_handle_t *handle)
{
    handle->data = closing_part(closing);
    uv_close(handle, closing_on_handle);
}

struct closing *closing_part(struct closing *closing)
{
    closing->open++;
    return closing;
}

void closing_done(void *closing)
{
    struct closing *self = closing;

    if (--self->open == 0)
        self->closed(self->owner);
}
