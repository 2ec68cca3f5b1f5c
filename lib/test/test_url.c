/* test_url.c - Redis URLs, good and bad. */
#include "redis/url.h"
#include "test/cases.h"

#include <stdio.h>
#include <string.h>

static struct redis_url parse(const char *text)
{
    struct redis_url url;
    struct rlock_err err = {0};

    if (redis_url_parse(text, &url, &err) != RLOCK_OK)
        fail_msg("%s: %s", text, err.text);
    return url;
}

static void assert_invalid(const char *text, const char *word)
{
    struct redis_url url = {.db = 7};
    struct rlock_err err = {0};

    ASSERT_STATUS(redis_url_parse(text, &url, &err), RLOCK_INVALID);
    if (strstr(err.text, word) == NULL)
        fail_msg("%s: '%s' does not say '%s'", text, err.text, word);
    assert_int_equal(url.db, 7);
}

UNIT_CASE(test_redis_url_parse__host_alone_has_defaults)
{
    struct redis_url url = parse("redis://cache.example");

    assert_string_equal(url.hosts[0].name, "cache.example");
    assert_int_equal(url.hosts[0].port, 6379);
    assert_int_equal(url.db, 0);
    assert_string_equal(url.user, "");
    assert_string_equal(url.password, "");
    assert_false(url.is_tls);
    assert_false(url.is_unix);
}

UNIT_CASE(test_redis_url_parse__every_part)
{
    struct redis_url url = parse("rediss://shop:s%40cret@10.0.0.1:7000/12");

    assert_true(url.is_tls);
    assert_string_equal(url.user, "shop");
    assert_string_equal(url.password, "s@cret");
    assert_string_equal(url.hosts[0].name, "10.0.0.1");
    assert_int_equal(url.hosts[0].port, 7000);
    assert_int_equal(url.db, 12);
}

UNIT_CASE(test_redis_url_parse__password_without_user)
{
    struct redis_url url = parse("redis://:a@b:c@host:1/");

    assert_string_equal(url.user, "");
    assert_string_equal(url.password, "a@b:c"); /* the login ends at the last @ */
    assert_string_equal(parse("redis://:%01@h").password, "\x01");
    assert_string_equal(url.hosts[0].name, "host");
    assert_int_equal(url.hosts[0].port, 1);
    assert_int_equal(url.db, 0);
}

UNIT_CASE(test_redis_url_parse__ipv6_in_brackets)
{
    struct redis_url url = parse("redis://[::1]:6380/3");

    assert_string_equal(url.hosts[0].name, "::1");
    assert_int_equal(url.hosts[0].port, 6380);
    assert_int_equal(parse("redis://[::1]:65535").hosts[0].port, 65535);
    assert_int_equal(url.db, 3);
    assert_string_equal(parse("redis://[fe80::2]").hosts[0].name, "fe80::2");
}

UNIT_CASE(test_redis_url_parse__unix_socket)
{
    struct redis_url url = parse("unix:/run/redis/redis.sock");

    assert_true(url.is_unix);
    assert_string_equal(url.hosts[0].name, "/run/redis/redis.sock");
    assert_string_equal(parse("unix:///tmp/s").hosts[0].name, "/tmp/s");
}

UNIT_CASE(test_redis_url_parse__refuses_what_it_does_not_understand)
{
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
    assert_invalid("redis://:a%4z@host", "password");
    assert_invalid("redis://:a%00b@host", "password");
    assert_invalid("unix:relative", "absolute");
    assert_invalid("unix://host/path", "absolute");
}

UNIT_CASE(test_redis_url_parse__several_hosts)
{
    struct redis_url url = parse("rediss://shop:s,cret@a,b:7000,[::1]:7001/3");

    assert_int_equal(url.topology, REDIS_HOSTS);
    assert_true(url.is_tls);
    assert_string_equal(url.password, "s,cret");
    assert_int_equal(url.host_count, 3);
    assert_string_equal(url.hosts[0].name, "a");
    assert_int_equal(url.hosts[0].port, 6379);
    assert_string_equal(url.hosts[1].name, "b");
    assert_int_equal(url.hosts[1].port, 7000);
    assert_string_equal(url.hosts[2].name, "::1");
    assert_int_equal(url.hosts[2].port, 7001);
    assert_int_equal(url.db, 3);
    assert_int_equal(parse("redis://a,b,c,d,e,f,g,h").host_count, 8);
}

UNIT_CASE(test_redis_url_parse__sentinels)
{
    struct redis_url url =
        parse("redis-sentinel://shop:secret@s1,s2:7000/2?master=sale%20one");

    assert_int_equal(url.topology, REDIS_SENTINEL);
    assert_false(url.is_tls);
    assert_string_equal(url.user, "shop");
    assert_string_equal(url.password, "secret");
    assert_int_equal(url.host_count, 2);
    assert_string_equal(url.hosts[0].name, "s1");
    assert_int_equal(url.hosts[0].port, 26379);
    assert_int_equal(url.hosts[1].port, 7000);
    assert_int_equal(url.db, 2);
    assert_string_equal(url.master, "sale one");
    assert_string_equal(url.sentinel_password, "");
    url = parse("redis-sentinel://s?sentinel_password=a%40b&master=m");
    assert_string_equal(url.sentinel_password, "a@b");
    assert_string_equal(url.password, "");
    url = parse("rediss-sentinel://s1?master=m");
    assert_true(url.is_tls);
    assert_int_equal(url.db, 0);
    assert_string_equal(url.master, "m");
}

UNIT_CASE(test_redis_url_parse__files_of_tls)
{
    struct redis_url url = parse("rediss://u:p@h/2?key=/k%40%26&cacert=/c%20a&cert=c?/d");

    assert_string_equal(url.hosts[0].name, "h");
    assert_int_equal(url.db, 2);
    assert_string_equal(url.cacert, "/c a");
    assert_string_equal(url.cert, "c?/d");
    assert_string_equal(url.key, "/k@&");
    url = parse("rediss://h?cert=c&key=k");
    assert_string_equal(url.cert, "c");
    assert_string_equal(url.key, "k");
    url = parse("rediss-sentinel://s?cacert=/c&master=m");
    assert_string_equal(url.master, "m");
    assert_string_equal(url.cacert, "/c");
    assert_string_equal(url.cert, "");
}

UNIT_CASE(test_redis_url_parse__nodes_of_a_cluster)
{
    struct redis_url url = parse("rediss-cluster://:secret@n1,n2:7000/0");

    assert_int_equal(url.topology, REDIS_CLUSTER);
    assert_true(url.is_tls);
    assert_int_equal(url.host_count, 2);
    assert_int_equal(url.hosts[0].port, 6379);
    assert_int_equal(url.hosts[1].port, 7000);
    assert_string_equal(url.password, "secret");
}

/* NOLINTNEXTLINE(readability-function-size): a table */
UNIT_CASE(test_redis_url_parse__names_the_position_and_the_reason)
{
    static const struct {
        const char *text;
        unsigned at;
        const char *reason;
    } cases[] = {
        {"redis:///0", 9, "host"},
        {"redis://a,", 11, "host"},
        {"redis://,a", 9, "host"},
        {"redis://a,,b", 11, "host"},
        {"redis://a, b", 11, "host"},
        {"redis://a:1,b:", 15, "port"},
        {"redis://a:1,b:0", 15, "port"},
        {"redis://a:1,b:65536", 15, "port"},
        {"redis://a:1,b:-1", 15, "port"},
        {"redis://a:1,b: 1", 15, "port"},
        {"redis://a:1;b:2", 11, "port"},
        {"redis://a,b/x", 13, "database"},
        {"redis://a,b/-1", 13, "database"},
        {"redis://a,b/1,2", 13, "database"},
        {"redis://a,b/1000001", 13, "database"},
        {"redis://a/0,b", 11, "database"},
        {"redis://a,a", 11, "twice"},
        {"redis://a:1,b:2,a:1", 17, "twice"},
        {"redis://a,a:6379", 11, "twice"},
        {"redis://[::1],[::1]", 15, "twice"},
        {"redis://a,b,c,d,e,f,g,h,i", 25, "more than 8 hosts"},
        {"redis://a,[::1", 11, "]"},
        {"redis://a,[::1]x", 16, "address"},
        {"redis://a,[]", 11, "host"},
        {"redis://a,b%", 11, "host"},
        {"redis://a,b%00", 11, "host"},
        {"redis://a,b%20c", 11, "host"},
        {"redis://a,b\\c", 11, "host"},
        {"redis://a,b?master=m", 13, "unknown parameter"},
        {"redis://a,b?", 13, "unknown parameter"},
        {"redis://u@a,b", 9, "[user]:password"},
        {"redis://u:@a,b", 11, "password"},
        {"redis://u%:p@a,b", 9, "user"},
        {"redis-sentinel://", 18, "host"},
        {"redis-sentinel://?master=m", 18, "host"},
        {"redis-sentinel://s", 19, "?master=NAME is missing"},
        {"redis-sentinel://s/0", 21, "?master=NAME is missing"},
        {"redis-sentinel://s?", 20, "unknown parameter"},
        {"redis-sentinel://s?master", 20, "unknown parameter"},
        {"redis-sentinel://s?Master=m", 20, "unknown parameter"},
        {"redis-sentinel://s?masters=m", 20, "unknown parameter"},
        {"redis-sentinel://s?db=1&master=m", 20, "unknown parameter"},
        {"redis-sentinel://s?master=", 27, "parameter is empty"},
        {"redis-sentinel://s?master=m%", 27, "parameter is empty, malformed"},
        {"redis-sentinel://s?master=%00", 27, "parameter is empty, malformed"},
        {"redis-sentinel://s?master=m&master=n", 36, "given twice"},
        {"redis-sentinel://s?master=m&", 29, "unknown parameter"},
        {"redis-sentinel://s?master=m&cert=c", 29, "unknown parameter"},
        {"redis-sentinel://s?sentinel_password=", 38, "parameter is empty"},
        {"redis://s?sentinel_password=a", 11, "unknown parameter"},
        {"redis://s?cacert=/c", 11, "unknown parameter for this scheme"},
        {"rediss://s?master=m", 12, "unknown parameter"},
        {"rediss://s?ca=/c", 12, "unknown parameter"},
        {"rediss://s?cacert=", 19, "parameter is empty"},
        {"rediss://s?cacert=%0", 19, "parameter is empty, malformed"},
        {"rediss://s?cert=/c", 19, "cert and key must be given together"},
        {"rediss://s?key=/c", 18, "cert and key must be given together"},
        {"rediss://s?cert=/c&key=/k&key=/k", 31, "given twice"},
        {"rediss-sentinel://s?cacert=/c", 30, "?master=NAME is missing"},
        {"redis-sentinel://s,s?master=m", 20, "twice"},
        {"redis-sentinel://s:26379,s?master=m", 26, "twice"},
        {"redis-sentinel://s:x?master=m", 20, "port"},
        {"redis-sentinel://:p@s/m?master=m", 23, "database"},
        {"redis-sentinel://user@s?master=m", 18, "[user]:password"},
        {"redis-cluster://", 17, "host"},
        {"redis-cluster://n/1", 19, "a cluster has database 0 only"},
        {"redis-cluster://n/x", 19, "database"},
        {"redis-cluster://n?master=m", 19, "unknown parameter"},
        {"redis-cluster://n,n", 19, "twice"},
        {"redis-cluster://n,", 19, "host"},
        {"redis-cluster:n", 1, "must begin with"},
        {"rediss-sentinel:/s?master=m", 1, "must begin with"},
        {"sentinel://s?master=m", 1, "must begin with"},
        {"redis-sentinel:s?master=m", 1, "must begin with"},
        {"REDIS://a,b", 1, "must begin with"},
        {" redis://a", 1, "must begin with"},
        {"redis-hosts://a,b", 1, "must begin with"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char at[32];

        snprintf(at, sizeof(at), "at byte %u: ", cases[i].at);
        assert_invalid(cases[i].text, at);
        assert_invalid(cases[i].text, cases[i].reason);
    }
}

UNIT_CASE(test_redis_url_parse__refuses_what_is_too_long)
{
    char text[1200];
    char many[601] = {0};

    memset(many, 'x', 600);
    snprintf(text, sizeof(text), "redis://:%s@host", many);
    assert_invalid(text, "password is empty, malformed or too long");
    snprintf(text, sizeof(text), "redis://%s:p@host", many);
    assert_invalid(text, "user is malformed or too long");
    snprintf(text, sizeof(text), "rediss://host?cacert=/%.255s", many);
    assert_invalid(text, "malformed, too long");
    snprintf(text, sizeof(text), "redis://%s", many);
    assert_invalid(text, "host");
    snprintf(text, sizeof(text), "unix:/%.107s", many);
    assert_invalid(text, "107");
    snprintf(text, sizeof(text), "unix:/%.106s", many);
    assert_int_equal(strlen(parse(text).hosts[0].name), 107);
}

UNIT_CASE(test_redis_url_parse__words_never_tell_the_password)
{
    static const char *const urls[] = {"redis://:topsecret@host:0", "redis://:topsecret@",
                                       "redis:/:topsecret@host", "redis://:topsecret@h/x",
                                       "redis://topsecret@host"};
    struct redis_url url;

    for (size_t i = 0; i < sizeof(urls) / sizeof(*urls); i++) {
        struct rlock_err err = {0};

        ASSERT_STATUS(redis_url_parse(urls[i], &url, &err), RLOCK_INVALID);
        assert_null(strstr(err.text, "topsecret"));
    }
}

int main(void)
{
    return cases_run(NULL, NULL);
}
