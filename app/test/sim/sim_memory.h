/*
 * sim_memory.h - counts the memory that a schedule allocates.
 *
 * The linker replaces malloc(), calloc(), realloc() and free() with functions in sim_memory.c. So
 * the simulator finds each block that is not free at the end of a schedule.
 */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/** Allocate memory for the simulator. This memory is not counted, and is freed at the end of the
 *  schedule. Never returns NULL. */
void *sim_alloc(size_t size);
void *sim_calloc(size_t size);
void sim_free(void *bytes); /* accepts NULL */

size_t sim_memory_blocks(void);

void sim_memory_print_blocks(void);

void sim_memory_keep(bool keep);

void sim_memory_reset(void);

#endif
