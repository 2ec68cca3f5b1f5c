/* test_idmap.c - the hash table compared with an array, and the number of its probes. */
#include "app/core/idmap.h"
#include "app/core/siphash.h"
#include "base/random.h"
#include "test/case_list.h"
#include "test/torture.h"

#include <stdlib.h>

#define IDS 5000

UNIT_CASE(test_idmap__agrees_with_an_array)
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

UNIT_CASE(test_idmap_put__fails_without_memory)
{
    struct idmap map = {0};

    torture_fail(1, 0);
    assert_false(idmap_put(&map, 7, &map));
    assert_true(torture_stop());
    assert_null(idmap_get(&map, 7));
}

UNIT_CASE(test_idmap_next__returns_every_value_once)
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

/* Looks up absent ids from each slot, and returns how many taken slots the look-ups visit. A run of
   n taken slots costs n + (n - 1) + ... + 1 visits. */
static uint64_t count_probes(const int64_t *ids)
{
    static char value;
    struct idmap map = {0};
    uint64_t probes = 0, run = 0;
    size_t at = 0, last = 0;

    for (size_t i = 0; i < IDS; i++)
        assert_true(idmap_put(&map, ids[i], &value));
    while (idmap_next(&map, &at) != NULL) {
        run = at == last + 1 ? run + 1 : 1;
        probes += run;
        last = at;
    }
    idmap_clear(&map);
    return probes;
}

/* An attacker could choose ids that a hash without a key puts into one slot. Fibonacci hashing
   would put the ids of this test into one slot, because the high half of their product with the
   golden ratio is 0. With the key of the map these ids must cost no more than random ids. */
UNIT_CASE(test_idmap_get__chosen_ids_cost_as_much_as_random_ones)
{
    static const uint64_t golden_inverse = UINT64_C(0xf1de83e19937733d);
    static int64_t random_ids[IDS], chosen[IDS];
    uint64_t random_probes = 0, chosen_probes = 0, product = 0;

    for (int round = 0; round < 100; round++) {
        for (size_t i = 0; i < IDS; i++) {
            random_ids[i] = (int64_t)(random_u64() >> 1 | 1);
            do
                chosen[i] = (int64_t)(++product * golden_inverse);
            while (chosen[i] <= 0);
        }
        random_probes += count_probes(random_ids);
        chosen_probes += count_probes(chosen);
    }
    assert_in_range(chosen_probes, random_probes / 10 * 9, random_probes / 10 * 11);
}

/* The expected result is the authors' test vector for 8 bytes. */
UNIT_CASE(test_siphash__has_the_published_result)
{
    static const uint64_t key[2] = {UINT64_C(0x0706050403020100),
                                    UINT64_C(0x0f0e0d0c0b0a0908)};

    assert_int_equal(siphash(key, UINT64_C(0x0706050403020100)),
                     UINT64_C(0x93f5f5799a932462));
}

int main(void)
{
    return cases_run(NULL, NULL);
}
