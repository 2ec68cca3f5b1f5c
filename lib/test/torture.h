/*
 * torture.h - fails each allocation of a scenario in turn.
 *
 * A program is linked with torture.c, and with the option --wrap of the linker for malloc, calloc,
 * realloc, free and strdup. Then torture.c counts the blocks that the program's own objects
 * allocate. Allocations inside shared libraries do not count. Any thread may allocate.
 */
#ifndef TEST_TORTURE_H
#define TEST_TORTURE_H

#include <stdbool.h>

/** Run `scenario(arg)` again and again. In run n of the first pass, allocation number n fails. In
 *  run n of a second pass, the two allocations after it fail, too. A pass ends with the first run
 *  in which no allocation fails. Asserts that each run frees what it allocates. Returns the number
 *  of runs. */
unsigned torture_each(void (*scenario)(void *arg), void *arg);

/** Fail allocation number `number` from now, counted from 1, and the next `more` allocations. */
void torture_fail(unsigned number, unsigned more);

/** Fail no allocation from now on. Returns whether one has failed since torture_fail(). */
bool torture_stop(void);

long torture_blocks(void);

void torture_expect_blocks(long before);

#endif
