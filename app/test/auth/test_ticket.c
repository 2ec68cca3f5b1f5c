/* test_ticket.c - tickets and proofs of work, with an injected clock and random numbers. */
#include "app/auth/ticket.h"

#include "test/case_list.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>

#define NOW_S  INT64_C(1900000000)
#define SECRET "0123456789abcdef0123456789abcdef"

static const struct tickets tickets = {.secret = SECRET, .ttl_s = 120};
static const struct ticket_subject subject = {TICKET_PURCHASE, 7, 70};

static struct text text_of(const char *text)
{
    return (struct text){text, strlen(text)};
}

static bool is_good(const struct ticket_subject *whose, const char *text, int64_t now_s)
{
    return ticket_is_good(&tickets, whose, text_of(text), now_s);
}

UNIT_CASE(test_ticket_is_good__until_it_expires)
{
    char text[TICKET_BYTES];

    assert_int_equal(ticket_make(&tickets, &subject, NOW_S, text), NOW_S + 120);
    assert_int_equal(strlen(text), TICKET_BYTES - 1);
    assert_true(is_good(&subject, text, NOW_S));
    assert_true(is_good(&subject, text, NOW_S + 119));
    assert_false(is_good(&subject, text, NOW_S + 120));
}

UNIT_CASE(test_ticket_is_good__for_its_subject_only)
{
    static const struct ticket_subject others[] = {{TICKET_PURCHASE, 8, 70},
                                                   {TICKET_PURCHASE, 7, 71},
                                                   {TICKET_PURCHASE, 70, 7},
                                                   {TICKET_CHALLENGE, 7, 70}};
    struct tickets elsewhere = {.secret = SECRET "x", .ttl_s = 120};
    struct tickets nowhere = {.secret = "", .ttl_s = 120};
    char text[TICKET_BYTES];

    ticket_make(&tickets, &subject, NOW_S, text);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(is_good(&others[i], text, NOW_S));
    assert_false(ticket_is_good(&elsewhere, &subject, text_of(text), NOW_S));
    ticket_make(&nowhere, &subject, NOW_S, text);
    assert_false(ticket_is_good(&nowhere, &subject, text_of(text), NOW_S));
}

UNIT_CASE(test_ticket_is_good__refuses_every_change)
{
    char text[TICKET_BYTES + 1] = "";

    ticket_make(&tickets, &subject, NOW_S, text);
    for (size_t i = 0; i < TICKET_BYTES - 1; i++) {
        char kept = text[i];

        text[i] = kept == 'A' ? 'B' : 'A';
        assert_false(is_good(&subject, text, NOW_S));
        text[i] = kept;
    }
    text[TICKET_BYTES - 1] = 'A';
    assert_false(is_good(&subject, text, NOW_S));
    assert_false(is_good(&subject, "", NOW_S));
}

/* The whole ticket is checked first, so its bytes may still be in memory behind the part. The part
   must be refused nevertheless. */
UNIT_CASE(test_ticket_is_good__refuses_a_part)
{
    char text[TICKET_BYTES];

    ticket_make(&tickets, &subject, NOW_S, text);
    for (size_t len = 0; len < TICKET_BYTES - 1; len += 4) {
        struct text texts[] = {{text, TICKET_BYTES - 1}, {text, len}};
        bool are_good[2];

        for (int i = 0; i < 2; i++)
            are_good[i] = ticket_is_good(&tickets, &subject, texts[i], NOW_S);
        assert_true(are_good[0]);
        assert_false(are_good[1]);
    }
}

UNIT_CASE(test_ticket_is_proof__counts_the_zero_bits)
{
    char nonce[24];
    unsigned tries = 0;

    do
        snprintf(nonce, sizeof(nonce), "%u", tries++);
    while (!ticket_is_proof(text_of("challenge"), text_of(nonce), 10));
    assert_in_range(tries, 50, 20000);
    assert_true(ticket_is_proof(text_of("challenge"), text_of(nonce), 0));
    assert_true(ticket_is_proof(text_of("challenge"), text_of(nonce), 9));
    assert_false(ticket_is_proof(text_of("challenge"), text_of(nonce), 40));
    assert_false(ticket_is_proof(text_of("challengf"), text_of(nonce), 10));
}

UNIT_CASE(test_ticket_is_proof__known_hashes)
{
    /* the nonces are found with `printf a:NONCE | sha256sum` */
    static const struct {
        const char *nonce;
        unsigned bits;
    } rows[] = {{"3", 1}, {"68", 7}, {"2071", 8}, {"63", 13}, {"105009", 16}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_true(ticket_is_proof(text_of("a"), text_of(rows[i].nonce), rows[i].bits));
        assert_false(
            ticket_is_proof(text_of("a"), text_of(rows[i].nonce), rows[i].bits + 1));
    }
}

/* The proof requires one bit, so about half of the nonces with 64 bytes are accepted. A longer
   nonce is never accepted. */
UNIT_CASE(test_ticket_is_proof__takes_64_bytes)
{
    static const char challenge[] = "12345678901234567890123456789012";
    unsigned good[2] = {0};
    char nonce[66];

    for (unsigned i = 0; i < 200; i++) {
        snprintf(nonce, sizeof(nonce), "%0*u", 64 + (int)(i % 2), i);
        good[i % 2] += ticket_is_proof(text_of(challenge), text_of(nonce), 1);
    }
    ASSERT_BETWEEN(good[0], 20, 80);
    ASSERT_NUMBER(good[1], ==, 0);
}

/* Instances of all versions must print the same tickets. */
UNIT_CASE(test_ticket_make__known_tickets)
{
    static const struct ticket_subject challenge = {TICKET_CHALLENGE, 7, 70};
    char text[TICKET_BYTES];

    ticket_make(&tickets, &subject, NOW_S, text);
    assert_string_equal(text, "AAAAAHE_s3hXOlC186J7i-w4KFTBKn1B");
    ticket_make(&tickets, &challenge, NOW_S, text);
    assert_string_equal(text, "AAAAAHE_s3iZMb-Y2mzxL0GFuzvgETP1");
}

UNIT_CASE(test_ticket_is_proof__refuses_a_long_nonce)
{
    static const char challenge[] = "0123456789abcdef0123456789abcdef";
    char nonce[TICKET_NONCE_MAX + 2];
    int good = 0;

    for (int i = 0; i < 100; i++) {
        snprintf(nonce, sizeof(nonce), "%0*d", TICKET_NONCE_MAX, i);
        good += ticket_is_proof(text_of(challenge), text_of(nonce), 1);
        snprintf(nonce, sizeof(nonce), "%0*d", TICKET_NONCE_MAX + 1, i);
        assert_false(ticket_is_proof(text_of(challenge), text_of(nonce), 1));
    }
    ASSERT_BETWEEN(good, 20, 80);
}

/* -- without memory -- */

static bool is_without_memory; /* OpenSSL gets no memory */

static void *openssl_malloc(size_t size, const char *file UNUSED, int line UNUSED)
{
    return is_without_memory ? NULL : malloc(size);
}

static void *openssl_realloc(void *memory, size_t size, const char *file UNUSED,
                             int line UNUSED)
{
    return is_without_memory ? NULL : realloc(memory, size);
}

static void openssl_free(void *memory, const char *file UNUSED, int line UNUSED)
{
    free(memory);
}

UNIT_CASE(test_ticket__accepts_nothing_without_memory)
{
    char text[TICKET_BYTES], invalid[TICKET_BYTES];
    bool is_accepted, is_proof;

    ticket_make(&tickets, &subject, NOW_S, text);
    is_without_memory = true;
    assert_int_equal(ticket_make(&tickets, &subject, NOW_S, invalid), NOW_S + 120);
    is_accepted = is_good(&subject, text, NOW_S);
    is_proof = ticket_is_proof(text_of("a"), text_of("3"), 1);
    is_without_memory = false;
    assert_string_equal(invalid, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    assert_false(is_accepted);
    assert_false(is_proof);
    assert_true(is_good(&subject, text, NOW_S));
}

UNIT_CASE(test_ticket_check_secret__refuses_short_secrets)
{
    struct rlock_err err = {0};

    assert_int_equal(ticket_check_secret("", &err), RLOCK_OK);
    assert_int_equal(ticket_check_secret(SECRET, &err), RLOCK_OK);
    assert_int_equal(ticket_check_secret("hunter2", &err), RLOCK_INVALID);
    ASSERT_CONTAINS(err.text, "SECKILL_TICKET_SECRET");
    assert_null(strstr(err.text, "hunter2"));
    ASSERT_STATUS(ticket_check_secret(&SECRET[1], &err), RLOCK_INVALID);
}

int main(void)
{
    if (CRYPTO_set_mem_functions(openssl_malloc, openssl_realloc, openssl_free) != 1)
        return 1;
    return cases_run(NULL, NULL);
}
