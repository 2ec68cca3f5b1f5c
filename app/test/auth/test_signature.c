/* test_signature.c - the secrets and signatures of webhooks. */
#include "app/auth/signature.h"
#include "base/random.h"
#include "test/asserts.h"
#include "test/case_list.h"

#include <stdlib.h>
#include <string.h>

/* 0: random_fill() fails. */
static int randoms;

bool random_fill(void *ret_bytes, size_t count)
{
    memset(ret_bytes, 0xa5, count);
    return randoms != 0;
}

static struct signature_key key_of(const char *secret)
{
    struct signature_key key;

    assert_true(signature_parse_secret(secret, &key));
    return key;
}

/* The secret, the message and the signature are of the tests of the reference libraries. */
UNIT_CASE(test_signature_sign__equals_the_published_signature)
{
    struct signature_key key = key_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    char signature[SIGNATURE_BYTES];

    assert_true(signature_sign(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330,
                               "{\"test\": 2432232314}", signature));
    assert_string_equal(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

UNIT_CASE(test_signature_make_secret__is_of_random_bytes)
{
    char secret[SIGNATURE_SECRET_BYTES];
    struct signature_key key;

    randoms = 0;
    assert_false(signature_make_secret(secret));
    randoms = 1;
    assert_true(signature_make_secret(secret));
    assert_string_equal(secret, "whsec_paWlpaWlpaWlpaWlpaWlpaWlpaWlpaWl");
    key = key_of(secret);
    for (size_t i = 0; i < sizeof(key.bytes); i++)
        assert_int_equal(key.bytes[i], 0xa5);
}

UNIT_CASE(test_signature_parse_secret__refuses_other_texts)
{
    static const char *const texts[] = {
        "",
        "whsec_",
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsex_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwx",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa*w",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS=",
    };
    struct signature_key key;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (signature_parse_secret(texts[i], &key))
            fail_msg("\"%s\" was accepted", texts[i]);
    }
}

int main(void)
{
    return cases_run(NULL, NULL);
}
