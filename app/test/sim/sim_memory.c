/* sim_memory.c - free lists by size in one arena, which a schedule starts anew. */
#include "app/test/sim/sim_memory.h"

#include "app/test/sim/sim.h"
#include "base/list.h"

#include <execinfo.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                     \
    __has_feature(address_sanitizer)
#define HAS_SANITIZER 1
#else
#define HAS_SANITIZER 0
#endif

#if HAS_SANITIZER

struct block {
    struct rlock_link link;
    char bytes[];
};

static struct rlock_link blocks = {&blocks, &blocks};

void *sim_alloc(size_t size)
{
    struct block *block = malloc(sizeof(*block) + size);

    if (block == NULL)
        abort();
    list_append(&blocks, &block->link);
    return block->bytes;
}

void *sim_calloc(size_t size)
{
    return memset(sim_alloc(size), 0, size);
}

void sim_free(void *bytes)
{
    struct block *block;

    if (bytes == NULL)
        return;
    block = list_item(bytes, struct block, bytes);
    list_remove(&block->link);
    free(block);
}

size_t sim_memory_blocks(void)
{
    return 0; /* the sanitizer finds leaks */
}

void sim_memory_print_blocks(void)
{
}

void sim_memory_keep(bool is_kept)
{
    (void)is_kept; /* all memory outlives the schedule */
}

bool sim_memory_forgets(void)
{
    return false;
}

void sim_memory_reset(void)
{
    LIST_DRAIN(struct block, block, &blocks, link)
        free(block);
}

#else

#define ARENA_BYTES  (64 << 20)
#define CLASS_BYTES  32
#define CLASSES      128 /* up to 4 KiB; larger blocks are used once */
#define HEADER_BYTES 16

struct block {
    union {
        struct block *next; /* while it is free */
        void *caller;       /* while it is in use */
    };
    uint32_t size; /* without the header */
    bool is_counted;
    char bytes[];
};

static struct {
    _Alignas(16) char arena[ARENA_BYTES];
    size_t used;
    struct block *free[CLASSES + 1];
    size_t count; /* blocks of the service */
    bool is_kept;
} memory;

static struct block *take(size_t size)
{
    size_t class = (size + CLASS_BYTES - 1) / CLASS_BYTES;
    struct block *block = class <= CLASSES ? memory.free[class] : NULL;

    if (block != NULL) {
        memory.free[class] = block->next;
        return block;
    }
    size = class * CLASS_BYTES;
    if (memory.used + HEADER_BYTES + size > ARENA_BYTES)
        sim_fail("out of simulated memory");
    block = (struct block *)(void *)(memory.arena + memory.used);
    memory.used += HEADER_BYTES + size;
    block->size = (uint32_t)size;
    block->is_counted = false;
    return block;
}

static struct block *block_of(void *bytes)
{
    return (struct block *)(void *)((char *)bytes - offsetof(struct block, bytes));
}

static void give_back(void *bytes)
{
    struct block *block = block_of(bytes);
    size_t class = block->size / CLASS_BYTES;

    if (block->is_counted)
        memory.count--;
    block->is_counted = false;
    if (class > CLASSES)
        return;
    block->next = memory.free[class];
    memory.free[class] = block;
}

static bool is_inside(const void *bytes)
{
    return (uintptr_t)bytes >= (uintptr_t)memory.arena &&
           (uintptr_t)bytes < (uintptr_t)memory.arena + ARENA_BYTES;
}

void *sim_alloc(size_t size)
{
    return take(size)->bytes;
}

void *sim_calloc(size_t size)
{
    return memset(sim_alloc(size), 0, size);
}

void sim_free(void *block)
{
    if (block != NULL)
        give_back(block);
}

size_t sim_memory_blocks(void)
{
    return memory.count;
}

void sim_memory_print_blocks(void)
{
    size_t at = 0;

    while (at < memory.used) {
        struct block *block = (struct block *)(void *)(memory.arena + at);

        if (block->is_counted)
            backtrace_symbols_fd(&block->caller, 1, STDERR_FILENO);
        at += HEADER_BYTES + block->size;
    }
}

void sim_memory_keep(bool is_kept)
{
    memory.is_kept = is_kept;
}

bool sim_memory_forgets(void)
{
    return true;
}

void sim_memory_reset(void)
{
    memory.used = 0;
    memory.count = 0;
    memset(memory.free, 0, sizeof(memory.free));
}

/* -- malloc() of all objects of this program, by ld --wrap -- */

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
void *__real_malloc(size_t size);
void __real_free(void *block);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
void __wrap_free(void *block);
char *__wrap_strdup(const char *text);
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

static void *counted(size_t size, void *caller)
{
    struct block *block;

    if (memory.is_kept)
        return __real_malloc(size);
    block = take(size);
    block->is_counted = true;
    block->caller = caller;
    memory.count++;
    return block->bytes;
}

void *__wrap_malloc(size_t size)
{
    return counted(size, __builtin_return_address(0));
}

void *__wrap_calloc(size_t count, size_t size)
{
    void *block = counted(count * size, __builtin_return_address(0));

    return block == NULL ? NULL : memset(block, 0, count * size);
}

void *__wrap_realloc(void *block, size_t size)
{
    void *grown = counted(size, __builtin_return_address(0));
    size_t old = block == NULL ? 0 : block_of(block)->size;

    if (block != NULL)
        memcpy(grown, block, old < size ? old : size);
    __wrap_free(block);
    return grown;
}

/* Also frees texts of open_memstream(), which the C library has allocated. */
void __wrap_free(void *block)
{
    if (block != NULL && !is_inside(block))
        __real_free(block);
    else if (block != NULL)
        give_back(block);
}

char *__wrap_strdup(const char *text)
{
    size_t size = strlen(text) + 1;

    return memcpy(counted(size, __builtin_return_address(0)), text, size);
}

#endif
