/* test_address.c - addresses, networks, and the header X-Forwarded-For. */
#include "app/http/address.h"
#include "test/case_list.h"

#include <stdio.h>

static bool parse(const char *text, uint8_t ret_address[16])
{
    return address_parse(text, strlen(text), ret_address);
}

UNIT_CASE(test_address_parse__takes_what_proxies_write)
{
    static const struct {
        const char *text, *same;
    } rows[] = {
        {"192.0.2.1", "::ffff:192.0.2.1"},
        {"192.0.2.1:8080", "192.0.2.1"},
        {"192.0.2.1:9", "192.0.2.1"},
        {"192.0.2.1:65535", "192.0.2.1"},
        {"[2001:db8::1]:443", "2001:db8:0::1"},
        {"[2001:db8::1]", "2001:db8::1"},
        {"::1", "0:0:0:0:0:0:0:1"},
        {"2001:db8::255.255.255.255", "2001:db8::ffff:ffff"},
        {"0000:0000:0000:0000:0000:ffff:255.255.255.255", "255.255.255.255"},
    };
    uint8_t one[16], other[16];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (!parse(rows[i].text, one))
            fail_msg("%s: expected that it is an address", rows[i].text);
        assert_true(parse(rows[i].same, other));
        assert_memory_equal(one, other, 16);
    }
}

/* The last row is one byte longer than the buffer of the parser. */
UNIT_CASE(test_address_parse__refuses_invalid_text)
{
    static const char *const rows[] = {"",
                                       "unknown",
                                       "192.0.2",
                                       "192.0.2.1:",
                                       "192.0.2.1:port",
                                       "192.0.2.1:x80",
                                       "192.0.2.1:8/",
                                       "192.0.2.1:8:",
                                       "192.0.2.1:123456",
                                       "[192.0.2.1]x80",
                                       "x::1]",
                                       "192.0.2.256",
                                       "[::1",
                                       "[::1]x",
                                       "[]",
                                       "::1::2",
                                       "192.0.2.1 ",
                                       "_hidden",
                                       "192.0.2.1:1234567",
                                       "1111:2222:3333:4444:5555:6666:7777:8888:9999",
                                       "1111:2222:3333:4444:5555:6666:777.888.999.000.1"};
    uint8_t address[16];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (parse(rows[i], address))
            fail_msg("%s: expected that it is no address", rows[i]);
    }
    assert_false(address_parse("::1\0", 4, address));
}

static bool is_in(const char *networks_text, const char *address_text)
{
    struct address_networks networks;
    uint8_t address[16];

    assert_int_equal(address_networks_parse(networks_text, &networks, NULL), RLOCK_OK);
    assert_true(parse(address_text, address));
    return address_is_in(&networks, address);
}

UNIT_CASE(test_address_is_in__compares_the_prefix)
{
    assert_true(is_in("10.0.0.0/8", "10.255.0.1"));
    assert_false(is_in("10.0.0.0/8", "11.0.0.0"));
    assert_true(is_in("192.0.2.128/25", "192.0.2.129"));
    assert_false(is_in("192.0.2.128/25", "192.0.2.127"));
    assert_true(is_in("192.0.2.7", "192.0.2.7"));
    assert_false(is_in("192.0.2.7", "192.0.2.6"));
    assert_true(is_in("0.0.0.0/0", "1.2.3.4"));
    assert_false(is_in("0.0.0.0/0", "2001:db8::1"));
    assert_true(is_in("::/0", "1.2.3.4"));
    assert_true(is_in(" 10.0.0.0/8 , 2001:db8::/33", "2001:db8:7fff::1"));
    assert_false(is_in("10.0.0.0/8,2001:db8::/33", "2001:db8:8000::1"));
    assert_true(is_in("::1/128", "::1"));
    assert_false(is_in("::1/128", "::2"));
    assert_true(is_in("255.255.255.254/32", "255.255.255.254"));
    assert_false(is_in("", "127.0.0.1"));
}

UNIT_CASE(test_address_networks_parse__says_what_is_wrong)
{
    static const char *const rows[] = {"10.0.0.0/33",   "::/129",
                                       "10.0.0.0/",     "10.0.0.0/-1",
                                       "localhost",     "10.0.0.0/8/8",
                                       "10.0.0.0/999",  "10.0.0.0/08x",
                                       "10.0.0.0/0008", "10.0.0.0/4294967304"};
    struct address_networks networks = {.count = 99}, most;
    struct rlock_err err;
    char many[ADDRESS_NETWORKS_MAX * 4 + 8] = "";

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        err = (struct rlock_err){0};
        if (address_networks_parse(rows[i], &networks, &err) != RLOCK_INVALID ||
            strstr(err.text, rows[i]) == NULL)
            fail_msg("%s: %s", rows[i], err.text);
    }
    for (int i = 0; i <= ADDRESS_NETWORKS_MAX; i++)
        snprintf(many + (size_t)i * 4, 5, "::1,");
    ASSERT_STATUS(address_networks_parse(many + 4, &most, NULL), RLOCK_OK);
    ASSERT_NUMBER(most.count, ==, ADDRESS_NETWORKS_MAX);
    assert_int_equal(address_networks_parse(many, &networks, &err), RLOCK_INVALID);
    assert_int_equal(networks.count, 99); /* unchanged after a failure */
}

UNIT_CASE(test_address_walk_back__trusts_configured_proxies_only)
{
    static const struct {
        const char *peer, *list, *client;
    } rows[] = {
        {"10.0.0.1", "203.0.113.9", "203.0.113.9"},
        {"10.0.0.1", "203.0.113.9, 10.0.0.2", "203.0.113.9"},
        {"10.0.0.1", "1.1.1.1, 203.0.113.9 ,10.0.0.2", "203.0.113.9"},
        {"10.0.0.1", "10.0.0.3,10.0.0.2", "10.0.0.3"},
        {"10.0.0.1", "", "10.0.0.1"},
        {"10.0.0.1", "203.0.113.9, unknown", "10.0.0.1"},
        {"10.0.0.1", "203.0.113.9, unknown, 10.0.0.2", "10.0.0.2"},
        {"10.0.0.1", ",,,", "10.0.0.1"},
        {"10.0.0.1", " , 10.0.0.2", "10.0.0.2"},
        {"10.0.0.1", "203.0.113.9\t , \t10.0.0.2 ", "203.0.113.9"},
        {"10.0.0.1", "[2001:db8::7]:1234", "2001:db8::7"},
        {"203.0.113.1", "198.51.100.1", "203.0.113.1"},
    };
    struct address_networks trusted;

    assert_int_equal(address_networks_parse("10.0.0.0/8", &trusted, NULL), RLOCK_OK);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint8_t address[16], client[16];

        assert_true(parse(rows[i].peer, address));
        assert_true(parse(rows[i].client, client));
        address_walk_back(&trusted, rows[i].list, strlen(rows[i].list), address);
        if (memcmp(address, client, 16) != 0)
            fail_msg("%s by %s", rows[i].list, rows[i].peer);
    }
}

UNIT_CASE(test_address_key__one_ipv6_network_is_one)
{
    const uint8_t one[16] = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 1};
    const uint8_t same[16] = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 2};
    const uint8_t other[16] = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 2, 1};
    const uint8_t ipv4[16] = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1};
    const uint8_t ipv4_next[16] = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2};
    const uint8_t ipv4_net[16] = {[10] = 0xff, [11] = 0xff, [12] = 11, [15] = 1};
    const uint8_t ipv4_copy[17] = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1, 1};

    assert_true(address_key(one) == address_key(same));
    assert_true(address_key(one) != address_key(other));
    assert_true(address_key(ipv4) != address_key(ipv4_next));
    assert_true(address_key(ipv4) != address_key(ipv4_net));
    assert_true(address_key(ipv4) == address_key(ipv4_copy));
}

int main(void)
{
    return cases_run(NULL, NULL);
}
