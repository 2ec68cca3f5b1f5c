/* torture.c - replaces malloc() in all objects of a program, by the option --wrap of ld. */
#include "test/torture.h"
#include "test/asserts.h"

#include <stdatomic.h>
#include <stdlib.h>

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void __real_free(void *block);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
void __wrap_free(void *block);
char *__wrap_strdup(const char *text);
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

static struct {
    atomic_long blocks;
    /* Each allocation counts down. The allocation that finds 1 fails, and so do the next `more`
       allocations. */
    atomic_int countdown;
    atomic_int more;
    atomic_bool is_armed, has_failed;
} torture;

static bool fails(void)
{
    int left;

    if (!torture.is_armed)
        return false;
    left = atomic_fetch_sub(&torture.countdown, 1);
    if (left > 1 || left < 1 - torture.more)
        return false;
    torture.has_failed = true;
    return true;
}

static void *counted(void *block)
{
    if (block != NULL)
        torture.blocks++;
    return block;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : counted(__real_calloc(count, size));
}

void *__wrap_realloc(void *block, size_t size)
{
    void *grown = fails() ? NULL : __real_realloc(block, size);

    return block == NULL ? counted(grown) : grown;
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : counted(__real_strdup(text));
}

void __wrap_free(void *block)
{
    if (block != NULL)
        torture.blocks--;
    __real_free(block);
}

long torture_blocks(void)
{
    return torture.blocks;
}

void torture_expect_blocks(long before)
{
    if (torture.blocks != before)
        fail_msg("%ld allocated blocks of memory are not freed", torture.blocks - before);
}

void torture_fail(unsigned number, unsigned more)
{
    torture.countdown = (int)number;
    torture.more = (int)more;
    torture.has_failed = false;
    torture.is_armed = true;
}

bool torture_stop(void)
{
    torture.is_armed = false;
    return torture.has_failed;
}

static unsigned pass(void (*scenario)(void *arg), void *arg, unsigned more)
{
    unsigned number = 0;
    bool has_failed;

    do {
        long before = torture_blocks();

        torture_fail(++number, more);
        scenario(arg);
        has_failed = torture_stop();
        asserts_about("a run in which allocation %u and %u more failed", number, more);
        torture_expect_blocks(before);
    } while (has_failed);
    return number;
}

unsigned torture_each(void (*scenario)(void *arg), void *arg)
{
    return pass(scenario, arg, 0) + pass(scenario, arg, 2);
}
