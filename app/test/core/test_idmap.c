/* test_idmap.c - the hash table compared with an array. */
#include "app/core/idmap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define IDS 5000

static void test_idmap__agrees_with_an_array(void **state UNUSED)
{
    static char values[IDS + 1];
    static bool is_in[IDS + 1];
    struct idmap map = {0};
    size_t count = 0;

    srandom(7);
    for (int step = 0; step < 200000; step++) {
        int64_t id = random() % IDS + 1;

        if (is_in[id]) {
            assert_ptr_equal(idmap_remove(&map, id), &values[id]);
            count--;
        } else {
            assert_null(idmap_remove(&map, id));
            assert_true(idmap_put(&map, id, &values[id]));
            count++;
        }
        is_in[id] = !is_in[id];
        assert_int_equal(map.count, count);
    }
    for (int64_t id = 1; id <= IDS; id++)
        assert_ptr_equal(idmap_get(&map, id), is_in[id] ? &values[id] : NULL);
    idmap_clear(&map);
}

static void test_idmap_next__returns_every_value_once(void **state UNUSED)
{
    static char values[IDS + 1];
    struct idmap map = {0};
    size_t at = 0, met = 0;
    char *value;

    assert_null(idmap_next(&map, &at));
    for (int64_t id = 1; id <= IDS; id++)
        assert_true(idmap_put(&map, id << 20, &values[id]));
    while ((value = idmap_next(&map, &at)) != NULL) {
        assert_int_equal(*value, 0);
        *value = 1;
        met++;
    }
    assert_int_equal(met, IDS);
    idmap_clear(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idmap__agrees_with_an_array),
        cmocka_unit_test(test_idmap_next__returns_every_value_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
