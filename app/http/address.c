/* address.c - parses addresses by inet_pton(), and compares them bit by bit. */
#include "app/http/address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

static bool parse_plain(const char *text, size_t len, uint8_t ret_address[16])
{
    char copy[INET6_ADDRSTRLEN];
    uint8_t address[16];

    snprintf(copy, sizeof(copy), "%.*s", (int)len, text);
    if (strlen(copy) != len) /* the text is too long, or has a NUL */
        return false;
    if (inet_pton(AF_INET, copy, address + sizeof(mapped)) == 1)
        memcpy(address, mapped, sizeof(mapped));
    else if (inet_pton(AF_INET6, copy, address) != 1)
        return false;
    memcpy(ret_address, address, sizeof(address));
    return true;
}

static bool is_port(const char *text, size_t len)
{
    if (len < 2 || len > 6 || text[0] != ':')
        return false;
    for (size_t i = 1; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
    }
    return true;
}

bool address_parse(const char *text, size_t len, uint8_t ret_address[16])
{
    const char *end = memchr(text, ']', len);
    const char *colon = memchr(text, ':', len);
    size_t host_len = colon != NULL ? (size_t)(colon - text) : len;

    if (end != NULL && text[0] == '[') {
        size_t rest = len - (size_t)(end + 1 - text);

        return (rest == 0 || is_port(end + 1, rest)) &&
               parse_plain(text + 1, (size_t)(end - text) - 1, ret_address);
    }
    /* An IPv4 address may have a port. In an IPv6 address, the text after the first colon has
       another colon, so is_port() is false. */
    if (is_port(text + host_len, len - host_len))
        len = host_len;
    return parse_plain(text, len, ret_address);
}

/* -- networks -- */

static bool parse_network(const char *text, size_t len, struct address_networks *networks)
{
    const char *slash = memchr(text, '/', len);
    size_t address_len = slash != NULL ? (size_t)(slash - text) : len;
    uint8_t *address = networks->rows[networks->count].address;
    unsigned offset, bits;

    if (!parse_plain(text, address_len, address))
        return false;
    offset = memchr(text, ':', address_len) == NULL ? 96 : 0;
    bits = 128 - offset;
    if (slash != NULL) {
        size_t digits = len - address_len - 1;

        if (digits == 0 || digits > 3 || strspn(slash + 1, "0123456789") < digits)
            return false;
        bits = (unsigned)strtoul(slash + 1, NULL, 10);
    }
    networks->rows[networks->count].bits = bits + offset;
    return bits <= 128 - offset;
}

enum rlock_status address_networks_parse(const char *text,
                                         struct address_networks *ret_networks,
                                         struct rlock_err *reterr)
{
    struct address_networks networks = {0};

    while (*(text += strspn(text, " ,")) != '\0') {
        size_t len = strcspn(text, " ,");

        if (networks.count == ADDRESS_NETWORKS_MAX)
            return err_set(reterr, RLOCK_INVALID, "more than %d networks",
                           ADDRESS_NETWORKS_MAX);
        if (!parse_network(text, len, &networks))
            return err_set(reterr, RLOCK_INVALID,
                           "\"%.*s\" is not a network: must be addresses and prefixes, "
                           "10.0.0.0/8,::1",
                           len < 60 ? (int)len : 60, text);
        networks.count++;
        text += len;
    }
    *ret_networks = networks;
    return RLOCK_OK;
}

static bool have_same_prefix(const uint8_t *a, const uint8_t *b, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;

    return memcmp(a, b, whole) == 0 &&
           (rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0);
}

bool address_is_in(const struct address_networks *networks, const uint8_t address[16])
{
    for (size_t i = 0; i < networks->count; i++) {
        if (have_same_prefix(networks->rows[i].address, address, networks->rows[i].bits))
            return true;
    }
    return false;
}

void address_walk_back(const struct address_networks *trusted, const char *list,
                       size_t len, uint8_t address[16])
{
    while (address_is_in(trusted, address)) {
        const char *comma = memrchr(list, ',', len);
        const char *from = comma != NULL ? comma + 1 : list;
        const char *to = list + len;

        while (from != to && isblank((unsigned char)*from))
            from++;
        while (from != to && isblank((unsigned char)to[-1]))
            to--;
        if (!address_parse(from, (size_t)(to - from), address) || comma == NULL)
            return;
        len = (size_t)(comma - list);
    }
}

uint64_t address_key(const uint8_t address[16])
{
    bool is_ipv4 = memcmp(address, mapped, sizeof(mapped)) == 0;
    uint64_t key;

    memcpy(&key, is_ipv4 ? address + 8 : address, sizeof(key));
    return key;
}
