/*
 * torture.h - fails each allocation of a scenario in turn.
 *
 * A program that is linked with torture.c and the option --wrap of the linker for malloc,
 * calloc, realloc, free and strdup counts the blocks of its own objects; the shared
 * libraries keep theirs. Any thread may allocate.
 */
#ifndef TEST_TORTURE_H
#define TEST_TORTURE_H

#include <stdbool.h>

/**
 * Run `scenario(arg)` again and again. In run n allocation number n fails; then, in a
 * second pass, with the two after it. A pass ends with the first run that has too few
 * allocations. Asserts that each run frees what it allocates. Returns the number of runs.
 */
unsigned torture_each(void (*scenario)(void *arg), void *arg);

/** Fail allocation number `number` from now, counted from 1, and `more` after it. */
void torture_fail(unsigned number, unsigned more);

/** Fail none from now on. Returns whether one has failed. */
bool torture_stop(void);

/** Blocks that are allocated now. */
long torture_blocks(void);

/** Assert that all blocks allocated since there were `before` of them are freed. */
void torture_expect_blocks(long before);

#endif
