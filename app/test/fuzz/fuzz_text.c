/*
 * fuzz_text.c - the small parsers. The first byte of an input chooses the parser:
 *
 *   a  an address      n  networks        f  X-Forwarded-For, after a line break
 *   b  base64          t  a time          i  X-Request-Id       p  traceparent
 *   k  a file of keys  v  a ticket        w  a proof of work: challenge, line break, nonce
 */
#include "app/auth/auth.h"
#include "app/auth/base64.h"
#include "app/auth/ticket.h"
#include "app/core/rfc3339.h"
#include "app/http/address.h"
#include "app/http/http_impl.h"
#include "app/test/fuzz/fuzz.h"
#include "app/test/jwt_config.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_MAX         4096
#define YEAR_9999_END_US INT64_C(253402300799999999)

static void demand(bool holds)
{
    if (!holds)
        abort();
}

static void try_networks(const char *text)
{
    struct address_networks networks = {0};
    struct rlock_err err = {0};

    if (address_networks_parse(text, &networks, &err) != RLOCK_OK) {
        demand(err.text[0] != '\0' && networks.count == 0);
        return;
    }
    for (size_t i = 0; i < networks.count; i++)
        demand(address_is_in(&networks, networks.rows[i].address));
}

static void try_forwarded(const char *list, size_t len)
{
    struct address_networks trusted;
    uint8_t proxy[16] = {[10] = 0xff, [11] = 0xff, [12] = 10};
    uint8_t stranger[16] = {[0] = 0x20}, kept[16] = {[0] = 0x20};

    demand(address_networks_parse("10.0.0.0/8", &trusted, NULL) == RLOCK_OK);
    address_walk_back(&trusted, list, len, proxy);
    address_walk_back(&trusted, list, len, stranger);
    demand(memcmp(stranger, kept, 16) == 0);
}

static void try_base64(const char *text, size_t len)
{
    char bytes[TEXT_MAX], again[BASE64_TEXT_BYTES(TEXT_MAX)];
    size_t bytes_len = 0;

    if (base64_decode(text, len, bytes, sizeof(bytes), &bytes_len))
        demand(base64_encode(bytes, bytes_len, again) == len &&
               memcmp(text, again, len) == 0);
}

static void try_time(const char *text, size_t len)
{
    int64_t us = 0, again = 0;
    char printed[RFC3339_BYTES];

    /* A leap second or an offset may give a time outside of the years that can be printed. The
       bounds of the fields refuse this time later. */
    if (!rfc3339_parse(text, len, &us) || us < 0 || us > YEAR_9999_END_US)
        return;
    rfc3339_print(us, printed);
    demand(rfc3339_parse(printed, strlen(printed), &again));
}

static void try_keys(const char *text)
{
    struct config config = jwt_config("", text);
    struct auth *auth = NULL;
    struct rlock_err err = {0};

    if (auth_create(&config, &auth, &err) != RLOCK_OK)
        demand(auth == NULL && err.text[0] != '\0');
    auth_free(auth);
}

static void try_ticket(const char *text, size_t len)
{
    static const struct tickets tickets = {
        .secret = "a secret of the fuzzer, 32 bytes or more of it", .ttl_s = 100};
    static const struct ticket_subject subject = {TICKET_PURCHASE, 7, 8};

    demand(!ticket_is_good(&tickets, &subject, (struct text){text, len}, 0));
}

static void try_proof(const char *text, size_t len)
{
    const char *mark = memchr(text, '\n', len);
    size_t challenge_len = mark != NULL ? (size_t)(mark - text) : len;
    struct text challenge = {text, challenge_len};
    struct text nonce = {text + challenge_len, len - challenge_len};

    demand(ticket_is_proof(challenge, nonce, 0));
    demand(!ticket_is_proof(challenge, nonce, 200));
}

static void try_one(char which, const char *text, size_t len)
{
    uint8_t address[16];

    if (which == 'a' && address_parse(text, len, address))
        demand(memchr(text, '\0', len) == NULL);
    else if (which == 'n')
        try_networks(text);
    else if (which == 'f')
        try_forwarded(text, len);
    else if (which == 'b')
        try_base64(text, len);
    else if (which == 't')
        try_time(text, len);
    else if (which == 'i' && http_is_request_id(text, len))
        demand(strcspn(text, " \"\\\n\r") == len);
    else if (which == 'p' && http_is_traceparent(text, len))
        demand(len == 55);
    else if (which == 'k')
        try_keys(text);
    else if (which == 'v')
        try_ticket(text, len);
    else if (which == 'w')
        try_proof(text, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text; /* has the exact length, so ASan finds a read beyond its end */

    if (size == 0 || size > TEXT_MAX)
        return 0;
    text = malloc(size);
    if (text == NULL)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    try_one((char)data[0], text, size - 1);
    free(text);
    return 0;
}
