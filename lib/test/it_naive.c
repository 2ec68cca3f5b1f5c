/*
 * it_naive.c - older ways to lock than the plain kind. Each fails in the way it is known to fail.
 */
#include "test/lesson.h"

static void assert_outcome(struct fixture *fixture, lesson_sequence run,
                           const struct naive_stage *stage, enum outcome wanted,
                           const char *name)
{
    enum outcome outcome;

    server_do(fixture->server, "DEL " LESSON_NAME);
    outcome = run(fixture, stage);
    if (outcome != wanted)
        fail_msg("%s: expected \"%s\", got \"%s\"", name, lesson_words(wanted),
                 lesson_words(outcome));
}

FIXTURE_CASE(test_lessons__break_their_stages_and_not_plain)
{
    for (const struct lesson *lesson = lessons; lesson->name != NULL; lesson++) {
        assert_outcome(*state, lesson->run, lesson->stage, lesson->outcome, lesson->name);
        assert_outcome(*state, lesson->run, PLAIN, FINE, lesson->name);
    }
}

FIXTURE_CASE(test_stages__survive_what_breaks_the_stage_before)
{
    /* clang-format off */
    static const struct {
        lesson_sequence run;
        const struct naive_stage *stage;
        const char *name;
    } cases[] = {
        {lesson_owner_dies,             &naive_setnx_expire, "setnx_expire"},
        {lesson_owner_dies_between,     &naive_blind_del,    "blind_del"},
        {lesson_release_is_late,        &naive_get_del,      "get_del"},
        {lesson_release_is_interrupted, &naive_unfenced,     "unfenced"},
        {lesson_owner_dies,             &naive_getset,       "getset"},
    };
    /* clang-format on */

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        assert_outcome(*state, cases[i].run, cases[i].stage, FINE, cases[i].name);
}

FIXTURE_CASE(test_getset__late_release_frees_the_lock_of_another)
{
    assert_outcome(*state, lesson_release_is_late, &naive_getset, FOREIGN_UNLOCK,
                   "getset");
}

/** Two clients find a lock that has ended. The client that loses still writes its own time with
 *  GETSET. */
FIXTURE_CASE(test_getset__loser_moves_the_expiry)
{
    struct server *server = ((struct fixture *)*state)->server;
    long long alice_ms = 0, bob_ms = 0, carol_ms = 0;

    server_do(server, "SET %s 1000", LESSON_NAME);
    assert_false(naive_getset_look(server, LESSON_NAME, 2000, LEASE_MS, &alice_ms));
    assert_false(naive_getset_look(server, LESSON_NAME, 2000, 2 * LEASE_MS, &bob_ms));
    assert_int_equal(alice_ms, 1000);
    assert_int_equal(bob_ms, 1000);
    assert_true(naive_getset_take_over(server, LESSON_NAME, alice_ms, 2000, LEASE_MS));
    assert_false(naive_getset_take_over(server, LESSON_NAME, bob_ms, 2000, 2 * LEASE_MS));
    /* Alice's lease has ended, but carol has to wait for the time that bob wrote, though bob has
       no lease. */
    assert_false(
        naive_getset_look(server, LESSON_NAME, 2001 + LEASE_MS, LEASE_MS, &carol_ms));
    assert_int_equal(carol_ms, 2000 + 2 * LEASE_MS);
}

int main(void)
{
    return cases_run(fixture_start_server, fixture_stop_server);
}
