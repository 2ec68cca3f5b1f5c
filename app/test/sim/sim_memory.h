/*
 * sim_memory.h - the memory of a schedule: fast, and counted.
 *
 * In a build without sanitizers the linker sends the malloc() of the service here, so a
 * block that a schedule has not freed is found at its end, with its seed. Under a
 * sanitizer malloc() stays what it is, and finds the misuse of single blocks.
 */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/** Memory of the simulator, which is not counted; freed at the end of the schedule. Never
 *  NULL. */
void *sim_alloc(size_t size);
void *sim_calloc(size_t size);
void sim_free(void *block); /* accepts NULL */

/** Blocks that the service has allocated and not freed since the schedule began. */
size_t sim_memory_blocks(void);

/** Print where each of them was allocated, for addr2line. */
void sim_memory_print_blocks(void);

/** While `is_kept`, the service gets memory that outlives the schedule. */
void sim_memory_keep(bool is_kept);

/** Whether a reset also frees what the service has not. */
bool sim_memory_forgets(void);

/** Begin a schedule: all blocks are gone, those of killed processes as well. */
void sim_memory_reset(void);

#endif
