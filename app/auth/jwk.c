/* jwk.c - reads the members of a JSON Web Key (RFC 7517, section 4; RFC 7518, section 6). */
#include "app/auth/jwk.h"

#include "app/auth/base64.h"

#include <string.h>

#define NUMBER_BYTES_MAX 1024 /* RSA with 8192 bits */

/* How a JWK describes a key of each algorithm, except of HS256. */
static const struct {
    const char *kty, *crv; /* crv NULL: none */
    const char *first, *second;
} forms[] = {
    [CONFIG_RS256] = {"RSA", NULL, "n", "e"},
    [CONFIG_ES256] = {"EC", "P-256", "x", "y"},
};

static bool is_member(const json_t *jwk, const char *name, const char *wanted)
{
    const char *value = json_string_value(json_object_get(jwk, name));

    return value != NULL && strcmp(value, wanted) == 0;
}

static bool is_absent_or(const json_t *jwk, const char *name, const char *wanted)
{
    return json_object_get(jwk, name) == NULL || is_member(jwk, name, wanted);
}

/* `key_ops` is a list. Without the list, all operations are allowed. */
static bool allows_verify(const json_t *jwk)
{
    const json_t *operations = json_object_get(jwk, "key_ops"), *operation;
    size_t i;

    json_array_foreach(operations, i, operation)
    {
        if (json_is_string(operation) &&
            strcmp(json_string_value(operation), "verify") == 0)
            return true;
    }
    return operations == NULL;
}

bool jwk_is_for(const json_t *jwk, enum config_alg alg)
{
    return is_member(jwk, "kty", forms[alg].kty) &&
           (forms[alg].crv == NULL || is_member(jwk, "crv", forms[alg].crv)) &&
           is_absent_or(jwk, "use", "sig") &&
           is_absent_or(jwk, "alg", jws_alg_names[alg]) && allows_verify(jwk);
}

static bool read_number(const json_t *jwk, const char *name, char *bytes,
                        struct text *ret_number)
{
    const json_t *text = json_object_get(jwk, name);

    *ret_number = (struct text){bytes, 0};
    return json_is_string(text) &&
           base64_decode(json_string_value(text), json_string_length(text), bytes,
                         NUMBER_BYTES_MAX, &ret_number->len) &&
           ret_number->len > 0;
}

struct jws_key *jwk_create_key(const json_t *jwk, enum config_alg alg)
{
    char first_bytes[NUMBER_BYTES_MAX], second_bytes[NUMBER_BYTES_MAX];
    struct text first, second;

    if (!read_number(jwk, forms[alg].first, first_bytes, &first) ||
        !read_number(jwk, forms[alg].second, second_bytes, &second))
        return NULL;
    return jws_key_create_numbers(alg, first, second);
}
