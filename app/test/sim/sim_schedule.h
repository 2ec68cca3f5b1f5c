/*
 * sim_schedule.h - one schedule: what its seed decides, from the start of the service to
 * the check of its memory.
 */
#ifndef SIM_SCHEDULE_H
#define SIM_SCHEDULE_H

#include <stdint.h>

/** Run the schedule of `seed`; a check that fails ends the program. */
void sim_schedule_run(uint64_t seed);

#endif
