/* process.c - counts the forks that led to this process. */
#include "base/process.h"

#include <pthread.h>
#include <stdatomic.h>

static _Atomic unsigned generation;

static void process_on_fork(void)
{
    generation++;
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, process_on_fork);
}

unsigned process_generation(void)
{
    return atomic_load_explicit(&generation, memory_order_relaxed);
}
