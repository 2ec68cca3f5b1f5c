/* destination.c - the networks that are not public. */
#include "app/deliver/destination.h"

#include "base/attributes.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <string.h>

/* The networks that IANA lists as not globally reachable, multicast, and networks whose addresses
   contain an IPv4 address (translation, 6to4, Teredo).
   Source: IANA IPv4 and IPv6 Special-Purpose Address Registries. */
static const char not_public[] =
    "0.0.0.0/8,10.0.0.0/8,100.64.0.0/10,127.0.0.0/8,169.254.0.0/16,172.16.0.0/12,"
    "192.0.0.0/24,192.0.2.0/24,192.88.99.0/24,192.168.0.0/16,198.18.0.0/15,"
    "198.51.100.0/24,203.0.113.0/24,224.0.0.0/4,240.0.0.0/4,"
    "::/96,64:ff9b::/96,64:ff9b:1::/48,100::/64,2001::/23,2001:db8::/32,2002::/16,"
    "3fff::/20,5f00::/16,fc00::/7,fe80::/10,fec0::/10,ff00::/8";

/* Returns false for a family other than IPv4 and IPv6. */
static bool read_address(const struct sockaddr *address, uint8_t ret_bytes[16])
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    const void *socket_address = address;

    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *ipv4 = socket_address;

        memcpy(ret_bytes, mapped, sizeof(mapped));
        memcpy(ret_bytes + sizeof(mapped), &ipv4->sin_addr, sizeof(ipv4->sin_addr));
        return true;
    }
    if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *ipv6 = socket_address;

        memcpy(ret_bytes, &ipv6->sin6_addr, sizeof(ipv6->sin6_addr));
        return true;
    }
    return false;
}

const char *destination_check(const struct address_networks *allowed,
                              const struct sockaddr *address, bool is_https)
{
    struct address_networks forbidden;
    struct rlock_err err;
    uint8_t bytes[16];
    enum rlock_status status = address_networks_parse(not_public, &forbidden, &err);

    assert(status == RLOCK_OK);
    if (!read_address(address, bytes))
        return "the address is neither IPv4 nor IPv6";
    if (address_is_in(allowed, bytes))
        return NULL;
    if (address_is_in(&forbidden, bytes))
        return "the address is not public, and SECKILL_WEBHOOK_NETWORKS does not allow "
               "it";
    return is_https ? NULL : "plain HTTP is only for SECKILL_WEBHOOK_NETWORKS";
}
