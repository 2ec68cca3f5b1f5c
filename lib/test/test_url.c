/* test_url.c - Redis URLs, good and bad. */
#include "redis/url.h"
#include "test/asserts.h"

#include <stdio.h>
#include <string.h>

static struct redis_url parse(const char *text)
{
    struct redis_url url;
    struct err err = {0};

    if (redis_url_parse(text, &url, &err) != STATUS_OK)
        fail_msg("%s: %s", text, err.text);
    return url;
}

static void assert_invalid(const char *text, const char *word)
{
    struct redis_url url = {.port = 7};
    struct err err = {0};

    assert_int_equal(redis_url_parse(text, &url, &err), STATUS_INVALID);
    if (strstr(err.text, word) == NULL)
        fail_msg("%s: '%s' does not say '%s'", text, err.text, word);
    assert_int_equal(url.port, 7); /* untouched */
}

static void test_redis_url_parse__host_alone_has_defaults(void **state)
{
    struct redis_url url = parse("redis://cache.example");

    (void)state;
    assert_string_equal(url.host, "cache.example");
    assert_int_equal(url.port, 6379);
    assert_int_equal(url.db, 0);
    assert_string_equal(url.user, "");
    assert_string_equal(url.password, "");
    assert_false(url.is_tls);
    assert_false(url.is_unix);
}

static void test_redis_url_parse__every_part(void **state)
{
    struct redis_url url = parse("rediss://shop:s%40cret@10.0.0.1:7000/12");

    (void)state;
    assert_true(url.is_tls);
    assert_string_equal(url.user, "shop");
    assert_string_equal(url.password, "s@cret");
    assert_string_equal(url.host, "10.0.0.1");
    assert_int_equal(url.port, 7000);
    assert_int_equal(url.db, 12);
}

static void test_redis_url_parse__password_without_user(void **state)
{
    struct redis_url url = parse("redis://:a@b:c@host:1/");

    (void)state;
    assert_string_equal(url.user, "");
    assert_string_equal(url.password, "a@b:c"); /* the last @ ends it */
    assert_string_equal(url.host, "host");
    assert_int_equal(url.port, 1);
    assert_int_equal(url.db, 0);
}

static void test_redis_url_parse__ipv6_in_brackets(void **state)
{
    struct redis_url url = parse("redis://[::1]:6380/3");

    (void)state;
    assert_string_equal(url.host, "::1");
    assert_int_equal(url.port, 6380);
    assert_int_equal(url.db, 3);
    assert_string_equal(parse("redis://[fe80::2]").host, "fe80::2");
}

static void test_redis_url_parse__unix_socket(void **state)
{
    struct redis_url url = parse("unix:/run/redis/redis.sock");

    (void)state;
    assert_true(url.is_unix);
    assert_string_equal(url.host, "/run/redis/redis.sock");
    assert_string_equal(parse("unix:///tmp/s").host, "/tmp/s");
}

static void test_redis_url_parse__refuses_what_it_does_not_understand(void **state)
{
    (void)state;
    assert_invalid("", "redis://");
    assert_invalid("http://host", "redis://");
    assert_invalid("redis:/host", "redis://");
    assert_invalid("redis://", "host");
    assert_invalid("redis://:6379", "host");
    assert_invalid("redis://host:", "port");
    assert_invalid("redis://host:0", "port");
    assert_invalid("redis://host:65536", "port");
    assert_invalid("redis://host:6379x", "port");
    assert_invalid("redis://host/x", "database");
    assert_invalid("redis://host/1/2", "database");
    assert_invalid("redis://host/99999999999999999999", "database");
    assert_invalid("redis://[::1", "]");
    assert_invalid("redis://[::1]6379", "address");
    assert_invalid("redis://secret@host", "[user]:password");
    assert_invalid("redis://user:@host", "password");
    assert_invalid("redis://:a%4@host", "password");
    assert_invalid("redis://:a%zz@host", "password");
    assert_invalid("redis://:a%00b@host", "password");
    assert_invalid("unix:relative", "absolute");
    assert_invalid("unix://host/path", "absolute");
}

static void test_redis_url_parse__refuses_what_is_too_long(void **state)
{
    char text[1200];
    char many[601] = {0};

    (void)state;
    memset(many, 'x', 600);
    snprintf(text, sizeof(text), "redis://:%s@host", many);
    assert_invalid(text, "password is empty, malformed or too long");
    snprintf(text, sizeof(text), "redis://%s:p@host", many);
    assert_invalid(text, "user is malformed or too long");
    snprintf(text, sizeof(text), "redis://%s", many);
    assert_invalid(text, "host");
    snprintf(text, sizeof(text), "unix:/%.107s", many);
    assert_invalid(text, "107");
    snprintf(text, sizeof(text), "unix:/%.106s", many);
    assert_int_equal(strlen(parse(text).host), 107);
}

static void test_redis_url_parse__words_never_tell_the_password(void **state)
{
    static const char *const urls[] = {"redis://:topsecret@host:0", "redis://:topsecret@",
                                       "redis:/:topsecret@host", "redis://:topsecret@h/x",
                                       "redis://topsecret@host"};
    struct redis_url url;

    (void)state;
    for (size_t i = 0; i < sizeof(urls) / sizeof(*urls); i++) {
        struct err err = {0};

        assert_int_equal(redis_url_parse(urls[i], &url, &err), STATUS_INVALID);
        assert_null(strstr(err.text, "topsecret"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_redis_url_parse__host_alone_has_defaults),
        cmocka_unit_test(test_redis_url_parse__every_part),
        cmocka_unit_test(test_redis_url_parse__password_without_user),
        cmocka_unit_test(test_redis_url_parse__ipv6_in_brackets),
        cmocka_unit_test(test_redis_url_parse__unix_socket),
        cmocka_unit_test(test_redis_url_parse__refuses_what_it_does_not_understand),
        cmocka_unit_test(test_redis_url_parse__refuses_what_is_too_long),
        cmocka_unit_test(test_redis_url_parse__words_never_tell_the_password),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
