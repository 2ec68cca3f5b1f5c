/*
 * async.c - locks on the caller's loop: calls return at once, and callbacks get the results.
 *
 *   async [REDIS_URL]
 */
#include "lock/rlock.h"

#include <stdio.h>

#define LOCKS 3

struct program {
    struct rlock_client *client;
    uv_prepare_t prepare;
    struct rlock locks[LOCKS];
    unsigned done;
    bool is_over;
    int code;
};

static void finish(struct program *program, int code)
{
    if (program->is_over)
        return; /* closing the client ends the other calls */
    program->is_over = true;
    program->code = code;
    rlock_client_close(program->client, NULL, NULL);
    uv_close((uv_handle_t *)&program->prepare, NULL);
}

static void on_released(struct rlock *lock, enum rlock_status status, void *arg)
{
    struct program *program = arg;

    printf("%.*s: %s\n", lock->name_len, lock->name, rlock_status_name(status));
    if (++program->done == LOCKS)
        finish(program, 0);
}

static void on_acquired(struct rlock *lock, enum rlock_status status, void *arg)
{
    struct program *program = arg;

    if (status == RLOCK_OK)
        rlock_release(program->client, lock, on_released, program);
    else
        on_released(lock, status, program);
}

/* All three acquires leave in one write, and their releases in another. */
static void on_state(bool is_up, const struct rlock_err *why, void *arg)
{
    struct program *program = arg;
    struct rlock_acquire_options options = {.lease_ms = 5000};
    const char *names[LOCKS] = {"item:1", "item:2", "item:3"};

    if (!is_up) {
        fprintf(stderr, "async: %s\n", why->text);
        finish(program, 1);
        return;
    }
    for (int i = 0; i < LOCKS; i++)
        rlock_acquire(program->client, &program->locks[i], names[i], 6, &options,
                      on_acquired, program);
}

/* Called once per turn, before the loop sleeps. */
static void on_prepare(uv_prepare_t *prepare)
{
    rlock_flush(((struct program *)prepare->data)->client);
}

int main(int argc, char **argv)
{
    static struct program program;
    uv_loop_t *loop = uv_default_loop();
    struct rlock_client_options options = {
        .loop = loop,
        .redis_url = argc > 1 ? argv[1] : "redis://127.0.0.1",
        .timeout_ms = 5000,
        .on_state = on_state,
        .arg = &program,
    };
    struct rlock_err err = {0};

    if (rlock_client_open(&options, &program.client, &err) != RLOCK_OK) {
        fprintf(stderr, "async: %s\n", err.text);
        return 1;
    }
    uv_prepare_init(loop, &program.prepare);
    program.prepare.data = &program;
    uv_prepare_start(&program.prepare, on_prepare);
    uv_run(loop, UV_RUN_DEFAULT);
    return uv_loop_close(loop) == 0 ? program.code : 1;
}
