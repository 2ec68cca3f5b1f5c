/* test_script.c - the digests of scripts, compared with FIPS 180 and sha1sum. */
#include "redis/script.h"
#include "test/cases.h"

#include <string.h>

static void assert_digest(const char *body, const char *expected)
{
    struct redis_script script;

    redis_script_init(&script, "name", body);
    assert_string_equal(script.sha, expected);
}

static void assert_digest_of(size_t len, const char *expected)
{
    char body[120] = "";

    memset(body, 'a', len);
    assert_digest(body, expected);
}

UNIT_CASE(test_redis_script_init__digests_of_published_examples)
{
    const char *two_blocks = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";

    assert_digest("", "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    assert_digest("abc", "a9993e364706816aba3e25717850c26c9cd0d89d");
    assert_digest(two_blocks, "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
}

UNIT_CASE(test_redis_script_init__digests_of_lengths_around_a_block)
{
    assert_digest_of(55, "c1c8bbdc22796e28c0e15163d20899b65621d65a");
    assert_digest_of(56, "c2db330f6083854c99d4b5bfb6e8f29f201be699");
    assert_digest_of(63, "03f09f5b158a7a8cdad920bddc29b81c18a551f5");
    assert_digest_of(64, "0098ba824b5c16427bd7a1122a5a442a25ec644d");
    assert_digest_of(119, "ee971065aaa017e0632a8ca6c77bb3bf8b1dfc56");
}

int main(void)
{
    return cases_run(NULL, NULL);
}
