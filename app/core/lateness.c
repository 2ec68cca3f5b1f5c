/* lateness.c - whether the answer of a server is late although this loop is punctual. */
#include "app/core/lateness.h"

#include "base/clock.h"

#define PUNCTUAL_US 225000
#define LATE_TICKS  5

void lateness_begin(struct lateness *lateness)
{
    lateness->ticks = 0;
}

bool lateness_tick(struct lateness *lateness, bool is_awaited)
{
    int64_t now_us = clock_mono_us();
    bool is_punctual = now_us - lateness->ticked_us < PUNCTUAL_US;

    lateness->ticked_us = now_us;
    return is_awaited && is_punctual && ++lateness->ticks == LATE_TICKS;
}
