/* probe.c - see probe.h. */
#include "test/probe.h"

#include <stdio.h>
#include <string.h>

static void on_state(bool is_up, const struct rlock_err *why, void *arg)
{
    struct probe *probe = arg;

    if (is_up) {
        probe->ups++;
        return;
    }
    probe->downs++;
    probe->why = *why;
}

void probe_on_closed(void *arg)
{
    struct probe *probe = arg;

    probe->closes++;
}

static void open_with(struct probe *probe, struct fixture *fixture, const char *location,
                      struct redis_conn_options options)
{
    struct redis_url url;

    *probe = (struct probe){.fixture = fixture};
    options.loop = &fixture->loop;
    options.url = &url;
    options.on_state = on_state;
    options.arg = probe;
    ASSERT_STATUS(redis_url_parse(location, &url, NULL), RLOCK_OK);
    ASSERT_STATUS(redis_conn_open(&options, &probe->conn, NULL), RLOCK_OK);
}

void probe_open(struct probe *probe, struct fixture *fixture, const char *location,
                uint32_t timeout_ms)
{
    open_with(probe, fixture, location,
              (struct redis_conn_options){.timeout_ms = timeout_ms});
}

void probe_open_fake(struct probe *probe, struct fixture *fixture, const char *greeting)
{
    struct fake *fake = fake_start(&fixture->loop, greeting);

    probe_open(probe, fixture, fake->url, TIMEOUT_MS);
    probe->fake = fake;
}

void probe_connect(struct probe *probe, struct fixture *fixture, const char *location)
{
    probe_open(probe, fixture, location, TIMEOUT_MS);
    probe_wait(probe, &probe->ups, 1);
}

void probe_connect_fake(struct probe *probe, struct fixture *fixture)
{
    probe_open_fake(probe, fixture, NULL);
    probe_wait(probe, &probe->ups, 1);
}

void probe_open_sibling(struct probe *probe, struct fixture *fixture,
                        const char *location, const char *key,
                        const struct probe *sibling)
{
    open_with(
        probe, fixture, location,
        (struct redis_conn_options){.timeout_ms = TIMEOUT_MS,
                                    .key = key,
                                    .sibling = sibling == NULL ? NULL : sibling->conn});
}

bool probe_is_closed(void *arg)
{
    return ((struct probe *)arg)->closes == 1;
}

void probe_close(struct probe *probe)
{
    redis_conn_close(probe->conn, probe_on_closed, probe);
    FIXTURE_AWAIT(probe->fixture, probe_is_closed, probe);
    if (probe->fake != NULL)
        fake_stop(probe->fake);
    uv_run(&probe->fixture->loop, UV_RUN_NOWAIT); /* the loop frees the fake server */
}

void probe_wait(struct probe *probe, const unsigned *at, unsigned wanted)
{
    fixture_wait_count(probe->fixture, at, wanted);
}

void probe_assert_why(const struct probe *probe, const char *words)
{
    ASSERT_CONTAINS(probe->why.text, words);
}

void probe_on_done(struct redis_command *done, enum rlock_status status,
                   const struct redis_reply *reply)
{
    struct command *command = list_item(done, struct command, command);
    size_t len;
    const char *text = redis_reply_text(reply, &len);

    command->answers++;
    command->status = status;
    snprintf(command->text, sizeof(command->text), "%s", text == NULL ? "" : text);
}

enum rlock_status probe_send(struct probe *probe, struct command *command,
                             const char *word, const char *argument)
{
    enum rlock_status status = redis_conn_begin(probe->conn, argument == NULL ? 1 : 2);

    if (status != RLOCK_OK)
        return status;
    redis_conn_arg_text(probe->conn, word);
    if (argument != NULL)
        redis_conn_arg_text(probe->conn, argument);
    return redis_conn_end(probe->conn, &command->command, probe_on_done);
}

void probe_push(struct probe *probe, struct command *command, const char *word,
                const char *argument)
{
    ASSERT_STATUS(probe_send(probe, command, word, argument), RLOCK_OK);
    redis_conn_flush(probe->conn);
}

void probe_command(struct probe *probe, struct command *command, const char *word,
                   const char *argument)
{
    probe_push(probe, command, word, argument);
    probe_wait(probe, &command->answers, 1);
    assert_int_equal(command->answers, 1);
}
