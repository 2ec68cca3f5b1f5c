/*
 * address.h - IP addresses and networks, and who is behind a proxy.
 *
 * An address is 16 bytes: IPv6, or IPv4 mapped into it (::ffff:a.b.c.d).
 */
#ifndef ADDRESS_H
#define ADDRESS_H

#include "base/attributes.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ADDRESS_NETWORKS_MAX 64

struct address_networks {
    size_t count;
    struct {
        uint8_t address[16];
        unsigned bits; /* of the 128 */
    } rows[ADDRESS_NETWORKS_MAX];
};

/** "192.0.2.1", "2001:db8::1"; as proxies write it also with a port, "192.0.2.1:80",
 *  "[2001:db8::1]:80", or in brackets alone. */
MUST_CHECK bool address_parse(const char *text, size_t len, uint8_t ret_address[16]);

/**
 * Networks separated by commas, each an address or one with a length of its prefix,
 * "10.0.0.0/8, ::1"; "" for none.
 *
 * Returns  STATUS_OK; STATUS_INVALID: `reterr` says what is not one, or that they are too
 *          many
 */
MUST_CHECK enum status address_networks_parse(const char *text,
                                              struct address_networks *ret_networks,
                                              struct err *reterr);

bool address_is_in(const struct address_networks *networks, const uint8_t address[16]);

/**
 * Follow a list as in X-Forwarded-For back to the client: as long as `address` is a
 * trusted proxy's, the last entry of the list is where it had the request from. An entry
 * that is no address ends the way: then the proxy itself is asked for.
 *
 * @list     "client, proxy, proxy"; need not end with a NUL
 * @address  the peer's, made the client's
 */
void address_walk_back(const struct address_networks *trusted, const char *list,
                       size_t len, uint8_t address[16]);

/** What limits count by: the IPv6 network of 64 bits, or the whole IPv4 address. */
uint64_t address_key(const uint8_t address[16]);

#endif
