/*
 * sim_schedule.h - one schedule, from the start of the services to the check of their memory.
 */
#ifndef SIM_SCHEDULE_H
#define SIM_SCHEDULE_H

#include <stdint.h>

void sim_schedule_run(uint64_t seed);

#endif
