/*
 * sim_schedule.h - one schedule, from the start of the services to the check of their memory.
 */
#ifndef SIM_SCHEDULE_H
#define SIM_SCHEDULE_H

#include <stdint.h>

/** Run the schedule of `seed`. If a check fails, the program ends. */
void sim_schedule_run(uint64_t seed);

#endif
