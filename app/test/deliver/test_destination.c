/* test_destination.c - the addresses to which webhooks may be sent. */
#include "app/deliver/destination.h"
#include "test/asserts.h"
#include "test/case_list.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

static const char *check(const char *allowed, const char *text, bool is_https)
{
    struct address_networks networks;
    struct rlock_err err;
    struct sockaddr_in ipv4 = {.sin_family = AF_INET};
    struct sockaddr_in6 ipv6 = {.sin6_family = AF_INET6};
    bool is_ipv4 = inet_pton(AF_INET, text, &ipv4.sin_addr) == 1;

    assert_int_equal(address_networks_parse(allowed, &networks, &err), RLOCK_OK);
    if (!is_ipv4)
        assert_int_equal(inet_pton(AF_INET6, text, &ipv6.sin6_addr), 1);
    return destination_check(&networks,
                             is_ipv4 ? (const struct sockaddr *)(const void *)&ipv4
                                     : (const struct sockaddr *)(const void *)&ipv6,
                             is_https);
}

UNIT_CASE(test_destination_check__allows_only_public_addresses)
{
    static const char *const public_addresses[] = {
        "1.1.1.1",        "9.255.255.255",  "11.0.0.0",           "100.63.255.255",
        "100.128.0.0",    "126.0.0.1",      "128.0.0.1",          "169.253.255.255",
        "172.15.255.255", "172.32.0.0",     "192.0.1.0",          "192.167.255.255",
        "192.169.0.0",    "198.17.255.255", "198.20.0.0",         "223.255.255.255",
        "2606:4700::1",   "2001:200::1",    "2a00:1450::8.8.8.8", "::ffff:8.8.8.8",
    };
    static const char *const others[] = {
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.0",
        "10.255.255.255",
        "100.64.0.0",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.255",
        "169.254.169.254",
        "172.16.0.0",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.0",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:10.1.2.3",
        "64:ff9b::a00:1",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fdff::1",
        "fe80::1",
        "febf::1",
        "fec0::1",
        "ff02::1",
    };

    for (size_t i = 0; i < sizeof(public_addresses) / sizeof(char *); i++) {
        if (check("", public_addresses[i], true) != NULL)
            fail_msg("%s was refused", public_addresses[i]);
        ASSERT_CONTAINS(check("", public_addresses[i], false), "plain HTTP");
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(char *); i++) {
        if (check("", others[i], true) == NULL)
            fail_msg("%s was allowed", others[i]);
        ASSERT_CONTAINS(check("", others[i], true), "is not public");
    }
}

UNIT_CASE(test_destination_check__allows_what_an_operator_allows)
{
    assert_null(check("10.1.0.0/16,::1", "10.1.2.3", true));
    assert_null(check("10.1.0.0/16,::1", "10.1.2.3", false));
    assert_null(check("10.1.0.0/16,::1", "::ffff:10.1.2.3", false));
    assert_null(check("10.1.0.0/16,::1", "::1", false));
    assert_non_null(check("10.1.0.0/16,::1", "10.2.0.1", true));
    assert_non_null(check("10.1.0.0/16,::1", "8.8.8.8", false));
}

UNIT_CASE(test_destination_check__refuses_other_families)
{
    const struct address_networks none = {0};
    const struct sockaddr local = {.sa_family = AF_UNIX};

    ASSERT_CONTAINS(destination_check(&none, &local, true), "neither");
}

int main(void)
{
    return cases_run(NULL, NULL);
}
