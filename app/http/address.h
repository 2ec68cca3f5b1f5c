/*
 * address.h - IP addresses, networks, and clients behind proxies.
 *
 * An address is 16 bytes: an IPv6 address, or an IPv4 address mapped to IPv6 (::ffff:a.b.c.d).
 */
#ifndef ADDRESS_H
#define ADDRESS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ADDRESS_NETWORKS_MAX 64

struct address_networks {
    size_t count;
    struct {
        uint8_t address[16];
        unsigned bits; /* length of the prefix, 0..128 */
    } rows[ADDRESS_NETWORKS_MAX];
};

/** Parse "192.0.2.1", "2001:db8::1", and the forms that proxies send: "192.0.2.1:80",
 *  "[2001:db8::1]:80", "[2001:db8::1]". */
MUST_CHECK bool address_parse(const char *text, size_t len, uint8_t ret_address[16]);

/**
 * Parse a comma-separated list of addresses and prefixes, "10.0.0.0/8, ::1"; "": none.
 *
 * Returns  RLOCK_OK; RLOCK_INVALID: `reterr` names the malformed entry or the limit
 */
MUST_CHECK enum rlock_status address_networks_parse(const char *text,
                                                    struct address_networks *ret_networks,
                                                    struct rlock_err *reterr);

bool address_is_in(const struct address_networks *networks, const uint8_t address[16]);

/**
 * Find the client with a list such as X-Forwarded-For, from the last entry of the list to its
 * first. While `address` is a trusted proxy, the entry replaces `address`, and the entry before is
 * next. An entry that is not an address ends the walk.
 *
 * @list     "client, proxy, proxy"; need not be NUL-terminated
 * @address  in: address of the peer; out: address of the client
 */
void address_walk_back(const struct address_networks *trusted, const char *list,
                       size_t len, uint8_t address[16]);

/** Return the key by which limits count: an IPv4 address, or the /64 network of an IPv6 address. */
uint64_t address_key(const uint8_t address[16]);

#endif
