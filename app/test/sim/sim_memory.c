/* sim_memory.c - a list of the memory blocks that a schedule has allocated. */
#include "app/test/sim/sim_memory.h"

#include "base/list.h"

#include <execinfo.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MARK UINT64_C(0xa5c31e7790d2b46f)

struct block {
    struct rlock_link link;
    /* address of the code that called malloc(); NULL: a block of the simulator, which is not
       counted */
    void *caller;
    /* MARK; distinguishes the block from blocks that the C library allocates */
    uint64_t mark;
    char bytes[];
};

static struct rlock_link blocks = {&blocks, &blocks};
static bool is_kept;

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
void *__real_malloc(size_t size);
void __real_free(void *block);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *bytes, size_t size);
void __wrap_free(void *bytes);
char *__wrap_strdup(const char *text);
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

static void *take(size_t size, void *caller)
{
    struct block *block = __real_malloc(sizeof(*block) + size);

    if (block == NULL)
        abort();
    block->caller = caller;
    block->mark = MARK;
    list_append(&blocks, &block->link);
    return block->bytes;
}

static void give_back(struct block *block)
{
    list_remove(&block->link);
    block->mark = 0;
    __real_free(block);
}

static struct block *block_of(void *bytes)
{
    return list_item(bytes, struct block, bytes);
}

void *sim_alloc(size_t size)
{
    return take(size, NULL);
}

void *sim_calloc(size_t size)
{
    return memset(sim_alloc(size), 0, size);
}

void sim_free(void *bytes)
{
    if (bytes != NULL)
        give_back(block_of(bytes));
}

size_t sim_memory_blocks(void)
{
    size_t count = 0;

    LIST_EACH(struct block, block, &blocks, link)
        count += block->caller != NULL;
    return count;
}

void sim_memory_print_blocks(void)
{
    LIST_EACH(struct block, block, &blocks, link) {
        if (block->caller != NULL)
            backtrace_symbols_fd(&block->caller, 1, STDERR_FILENO);
    }
}

void sim_memory_keep(bool keep)
{
    is_kept = keep;
}

void sim_memory_reset(void)
{
    LIST_DRAIN(struct block, block, &blocks, link)
        give_back(block);
}

/* -- malloc() of all objects of this program, by ld --wrap -- */

static void *counted(size_t size, void *caller)
{
    return is_kept ? __real_malloc(size) : take(size, caller);
}

void *__wrap_malloc(size_t size)
{
    return counted(size, __builtin_return_address(0));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return memset(counted(count * size, __builtin_return_address(0)), 0, count * size);
}

void *__wrap_realloc(void *bytes, size_t size)
{
    void *grown = counted(size, __builtin_return_address(0));
    size_t old = 0;

    if (bytes != NULL)
        old = malloc_usable_size(block_of(bytes)) - sizeof(struct block);
    if (bytes != NULL)
        memcpy(grown, bytes, old < size ? old : size);
    __wrap_free(bytes);
    return grown;
}

/* Whether the block is in the list. Before a block of the C library there are 8 bytes with its
   size, or under ASan 8 bytes that must not be read. */
__attribute__((no_sanitize("address"))) static bool is_marked(void *bytes)
{
    return block_of(bytes)->mark == MARK;
}

void __wrap_free(void *bytes)
{
    if (bytes != NULL && is_marked(bytes))
        give_back(block_of(bytes));
    else
        __real_free(bytes);
}

char *__wrap_strdup(const char *text)
{
    size_t size = strlen(text) + 1;

    return memcpy(counted(size, __builtin_return_address(0)), text, size);
}
