/*
 * sim_memory.h - the memory of a schedule, counted.
 *
 * The linker replaces malloc() with the functions here, so the end of a schedule finds each block
 * that is not freed.
 */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/** Memory of the simulator, which is not counted; freed at the end of the schedule. Never
 *  NULL. */
void *sim_alloc(size_t size);
void *sim_calloc(size_t size);
void sim_free(void *bytes); /* accepts NULL */

/** Blocks that the service has allocated and not freed since the schedule began. */
size_t sim_memory_blocks(void);

/** Print where each of these blocks was allocated, for addr2line. */
void sim_memory_print_blocks(void);

/** While `keep`, the service gets memory that outlives the schedule. */
void sim_memory_keep(bool keep);

/** Begin a schedule: free all blocks, also those of killed processes. */
void sim_memory_reset(void);

#endif
