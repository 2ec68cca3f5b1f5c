/*
 * test_auth_mutated.c - auth_check() compared with a slow check, for mutated tokens.
 *
 * The slow check parses every header, decodes bit by bit, and computes the whole HMAC. The two
 * checks must give the same answer.
 *
 * Usage: test_auth_mutated [TOKENS]
 */
#include "app/auth/auth.c" // NOLINT(bugprone-suspicious-include)
#include "app/test/jwt_config.h"
#include "test/case_list.h"

#include <dirent.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdint.h>

#define CORPUS    "app/test/fuzz/corpus/fuzz_token/"
#define SECRET    "a secret of the test, 32 bytes or more of it"
#define NAMED     SECRET "1"
#define NOW_S     1900000000
#define PART_MAX  1000
#define SEEDS_MAX 200

struct parts {
    char header[PART_MAX], claims[PART_MAX]; /* not encoded */
    size_t header_len, claims_len;
};

static struct parts seeds[SEEDS_MAX];
static size_t seed_count;
static long token_count = 50000;

/* -- the slow check -- */

static bool slow_decode(struct text text, unsigned char *bytes, size_t *ret_len)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    size_t bit_count = 0;

    memset(bytes, 0, text.len + 1);
    for (size_t i = 0; i < text.len; i++) {
        const char *at = memchr(alphabet, text.bytes[i], sizeof(alphabet) - 1);

        if (at == NULL)
            return false;
        for (unsigned bit = 0; bit < 6; bit++, bit_count++)
            if ((at - alphabet) >> (5 - bit) & 1)
                bytes[bit_count / 8] |= (unsigned char)(0x80 >> bit_count % 8);
    }
    *ret_len = bit_count / 8;
    return bit_count % 8 < 6 && bytes[bit_count / 8] == 0;
}

static json_t *slow_read(struct text part)
{
    unsigned char bytes[AUTH_TOKEN_BYTES_MAX];
    size_t len;

    return slow_decode(part, bytes, &len)
               ? json_loadb((char *)bytes, len, JSON_REJECT_DUPLICATES, NULL)
               : NULL;
}

static bool is_signed(const char *secret, const struct token *token)
{
    unsigned char actual[AUTH_TOKEN_BYTES_MAX], expected[EVP_MAX_MD_SIZE];
    unsigned mac_len;
    size_t len;

    HMAC(EVP_sha256(), secret, (int)strlen(secret),
         (const unsigned char *)token->signed_text.bytes, token->signed_text.len,
         expected, &mac_len);
    return slow_decode(token->signature, actual, &len) && len == mac_len &&
           memcmp(actual, expected, len) == 0;
}

static bool slow_check(const struct auth *auth, struct text authorization,
                       struct identity *ret_identity)
{
    struct token token;
    const struct key *key;
    json_t *header, *claims = NULL;
    bool is_good = false;

    if (!split_token(authorization, &token))
        return false;
    header = slow_read(token.header);
    key = header != NULL ? choose_key(auth, header) : NULL;
    if (key != NULL && is_signed(key->kid != NULL ? NAMED : SECRET, &token)) {
        claims = slow_read(token.claims);
        is_good = claims != NULL && read_claims(auth, claims, NOW_S, ret_identity);
    }
    json_decref(header);
    json_decref(claims);
    return is_good;
}

/* -- tokens -- */

static size_t below(size_t limit)
{
    return limit == 0 ? 0 : (size_t)random() % limit;
}

static void mutate(char *text, size_t *len)
{
    static const char bytes[] = "\"{}:,[]019aAZ_-.= \\\n\x80";
    size_t at = below(*len + 1);

    switch (below(4)) {
    case 0:
        if (at < *len)
            text[at] = (char)(text[at] ^ 1 << below(8));
        return;
    case 1:
        if (at < *len)
            memmove(text + at, text + at + 1, --*len - at);
        return;
    case 2:
        if (at < *len)
            text[at] = bytes[below(sizeof(bytes) - 1)];
        return;
    default:
        if (*len + 1 < PART_MAX) {
            memmove(text + at + 1, text + at, (*len)++ - at);
            text[at] = bytes[below(sizeof(bytes) - 1)];
        }
    }
}

static size_t sign(const char *secret, const struct parts *parts, char *text)
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned mac_len;
    size_t len = (size_t)sprintf(text, "Bearer "), begin = len;

    len += base64_encode(parts->header, parts->header_len, text + len);
    text[len++] = '.';
    len += base64_encode(parts->claims, parts->claims_len, text + len);
    HMAC(EVP_sha256(), secret, (int)strlen(secret), (unsigned char *)text + begin,
         len - begin, mac, &mac_len);
    text[len++] = '.';
    return len + base64_encode(mac, mac_len, text + len);
}

/* Makes a token. One byte is changed before the signature is made, after the signature is made, at
   both times, or never. */
static size_t make_token(char *text)
{
    struct parts parts = seeds[below(seed_count)];
    size_t len;

    switch (below(4)) {
    case 0:
        mutate(parts.claims, &parts.claims_len);
        break;
    case 1:
        mutate(parts.header, &parts.header_len);
        break;
    default:
        break;
    }
    len = sign(below(8) == 0 ? NAMED : SECRET, &parts, text);
    switch (below(8)) {
    case 0:
    case 1:
        text[strlen("Bearer ") + below(len - strlen("Bearer "))] = "AQgw.-_=a"[below(9)];
        break;
    case 2: /* base64 does not use these bits of the last character */
        text[len - 1] = (char)(text[len - 1] ^ (int)(1 + below(7)));
        break;
    default:
        break;
    }
    return len;
}

static void read_seed(const char *name)
{
    struct parts *seed = &seeds[seed_count];
    char path[sizeof(CORPUS) + 256], bytes[2 * PART_MAX];
    const char *mark;
    FILE *file;
    size_t len;

    snprintf(path, sizeof(path), CORPUS "%s", name);
    file = fopen(path, "r");
    assert_non_null(file);
    len = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    mark = memchr(bytes, '\n', len);
    if (mark == NULL || len > PART_MAX)
        return;
    seed->header_len = (size_t)(mark - bytes);
    seed->claims_len = len - seed->header_len - 1;
    memcpy(seed->header, bytes, seed->header_len);
    memcpy(seed->claims, mark + 1, seed->claims_len);
    seed_count++;
}

static struct auth *create(const char *keys)
{
    const struct config config = jwt_config(SECRET, keys);
    struct auth *auth = NULL;

    assert_int_equal(auth_create(&config, &auth, NULL), RLOCK_OK);
    return auth;
}

static void assert_same(const struct auth *auth, struct text text, unsigned *accepted)
{
    struct identity fast = {0}, slow = {0};
    enum rlock_status status = auth_check(auth, text, NOW_S, &fast);
    bool is_good = slow_check(auth, text, &slow);

    if (status != (is_good ? RLOCK_OK : RLOCK_REFUSED) ||
        (is_good && (fast.user_id != slow.user_id || fast.role != slow.role ||
                     strcmp(fast.jti, slow.jti) != 0)))
        fail_msg("auth_check() returns %d, the slow check says %s: %.*s", (int)status,
                 is_good ? "good" : "refused", text.len < 700 ? (int)text.len : 700,
                 text.bytes);
    *accepted += is_good;
}

UNIT_CASE(test_auth_check__agrees_with_a_slow_check)
{
    struct auth *auths[] = {create(""), create("kid: one\n" NAMED)};
    char text[4 * PART_MAX];
    unsigned accepted = 0;
    struct dirent *entry;
    DIR *corpus = opendir(CORPUS);

    assert_non_null(corpus);
    // NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread
    while ((entry = readdir(corpus)) != NULL && seed_count < SEEDS_MAX) {
        if (entry->d_name[0] != '.')
            read_seed(entry->d_name);
    }
    closedir(corpus);
    if (seed_count == 0)
        fail_msg("no tokens in " CORPUS);
    srandom(13);
    for (size_t i = 0; i < seed_count; i++) {
        size_t len = sign(SECRET, &seeds[i], text);

        assert_same(auths[i % 2], (struct text){text, len}, &accepted);
        assert_same(auths[(i + 1) % 2], (struct text){text, len}, &accepted);
    }
    for (long i = 0; i < token_count; i++)
        assert_same(auths[i % 2], (struct text){text, make_token(text)}, &accepted);
    print_message("%u of %ld mutated tokens accepted\n", accepted, token_count);
    assert_in_range(accepted, token_count / 50, token_count / 2);
    auth_free(auths[0]);
    auth_free(auths[1]);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        token_count = strtol(argv[1], NULL, 10);
    return cases_run(NULL, NULL);
}
