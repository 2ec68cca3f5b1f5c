/* test_health.c - health_of() over two loops. */
#include "app/ops/health.h"
#include "test/case_list.h"

static struct metrics first, second;
static struct metrics *loops[] = {&first, &second};
static const struct all_metrics all = {loops, 2};

UNIT_CASE(test_health_of__needs_every_loop)
{
    static const struct {
        uint64_t postgres_up, redis_up, redis_degraded;
        bool bypasses_locks;
        struct health wanted;
    } rows[] = {
        {1, 1, 0, false, {true, RLOCK_OK, true, true, true}},
        {1, 0, 1, false, {true, RLOCK_OK, false, true, true}},
        {1, 0, 0, false, {true, RLOCK_OK, false, true, true}},
        {0, 1, 0, true, {false, RLOCK_REFUSED, true, true, false}},
    };

    first.postgres_up = first.redis_up = 1;
    /* Postgres is up, so this past failure is ignored. */
    first.postgres_failure = RLOCK_TIMEOUT;
    second.postgres_failure = RLOCK_REFUSED;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct health found;

        second.postgres_up = rows[i].postgres_up;
        second.redis_up = rows[i].redis_up;
        second.redis_degraded = rows[i].redis_degraded;
        found = health_of(&all, rows[i].bypasses_locks);
        if (found.has_postgres != rows[i].wanted.has_postgres ||
            found.postgres_failure != rows[i].wanted.postgres_failure ||
            found.has_redis != rows[i].wanted.has_redis ||
            found.has_locks != rows[i].wanted.has_locks ||
            found.is_ready != rows[i].wanted.is_ready)
            fail_msg("row %zu: Postgres %d (%s), Redis %d, locks %d, ready %d", i,
                     found.has_postgres, rlock_status_name(found.postgres_failure),
                     found.has_redis, found.has_locks, found.is_ready);
    }
    second.postgres_up = second.redis_up = 1;
    assert_true(health_of(&all, false).has_postgres);
    first.redis_up = 0;
    assert_false(health_of(&all, false).has_redis);
    assert_false(health_of(&all, false).is_ready);
    assert_true(health_of(&all, true).is_ready);
    first.redis_degraded = 1;
    assert_true(health_of(&all, false).is_ready);
    first.postgres_up = 0;
    assert_false(health_of(&all, false).has_postgres);
}

int main(void)
{
    return cases_run(NULL, NULL);
}
