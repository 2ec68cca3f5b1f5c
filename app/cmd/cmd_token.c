/* cmd_token.c - `seckill token`: makes bearer tokens for development and load tests. */
#include "app/auth/auth.h"
#include "app/cmd/cmd.h"
#include "base/clock.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define TTL_S_DEFAULT 86400

static const char help[] =
    "usage: seckill token --user N [--role shopper|payment|admin] [--ttl S]\n"
    "                     [--count N] [--jti ID]\n"
    "\n"
    "Print signed bearer tokens, one per line, for the users N, N+1, ...: --count\n"
    "tokens (default 1), valid for --ttl seconds (default 86400). A holder of the key\n"
    "can act as any user: use this for development and load tests only.\n"
    "\n"
    "A token with an ID (1 to 64 bytes) can be revoked: it is refused while Redis has\n"
    "the key \"revoked:ID\", which may expire together with the token.\n"
    "\n"
    "Reads SECKILL_JWT_ALG, _ISSUER, _AUDIENCE, and _KEYS_FILE (the first key signs)\n"
    "or _SECRET (or _SECRET_FILE), or SECKILL_JWT_PRIVATE_KEY_FILE.\n"
    "\n"
    "Exit code: 0: printed; 2: cannot sign or print; 64: invalid arguments or\n"
    "configuration.\n";

struct token_options {
    struct identity first;
    int64_t ttl_s;
    int64_t count;
};

static bool parse_number(const char *text, int64_t *ret_number)
{
    char *end;
    long long number;

    errno = 0;
    number = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < 1)
        return false;
    *ret_number = number;
    return true;
}

static bool parse_jti(const char *text, char ret_jti[AUTH_ID_BYTES_MAX + 1])
{
    if (text[0] == '\0' || strlen(text) > AUTH_ID_BYTES_MAX)
        return false;
    stpcpy(ret_jti, text);
    return true;
}

static bool parse_options(int argc, char **argv, struct token_options *ret_options)
{
    static const struct option known[] = {
        {"user", required_argument, NULL, 'u'}, {"role", required_argument, NULL, 'r'},
        {"ttl", required_argument, NULL, 't'},  {"count", required_argument, NULL, 'c'},
        {"jti", required_argument, NULL, 'j'},  {0}};
    struct token_options options = {.ttl_s = TTL_S_DEFAULT, .count = 1};
    bool ok = true;
    int option;

    // NOLINTNEXTLINE(concurrency-mt-unsafe): no threads in this command
    while (ok && (option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == 'u')
            ok = parse_number(optarg, &options.first.user_id);
        else if (option == 'r')
            ok = auth_parse_role((struct text){optarg, strlen(optarg)},
                                 &options.first.role);
        else if (option == 't')
            ok = parse_number(optarg, &options.ttl_s) && options.ttl_s < INT32_MAX;
        else if (option == 'j')
            ok = parse_jti(optarg, options.first.jti);
        else
            ok = option == 'c' && parse_number(optarg, &options.count);
        if (!ok && option != '?')
            fprintf(stderr, "seckill token: invalid value \"%s\"\n", optarg);
    }
    if (!ok || optind != argc || options.first.user_id == 0 ||
        options.count > INT64_MAX - options.first.user_id)
        return false;
    *ret_options = options;
    return true;
}

static enum status print_tokens(const struct auth *auth,
                                const struct token_options *options, struct err *reterr)
{
    struct identity identity = options->first;
    int64_t now_s = clock_real_us() / 1000000;

    for (int64_t i = 0; i < options->count; i++, identity.user_id++) {
        enum status status;
        char *token;

        status = auth_make(auth, &identity, now_s, options->ttl_s, &token, reterr);
        if (status != STATUS_OK)
            return status;
        puts(token);
        free(token);
    }
    if (fflush(stdout) != 0)
        return err_set(reterr, STATUS_IO, "standard output: %m");
    return STATUS_OK;
}

static int cmd_token(int argc, char **argv, const struct config *config,
                     struct err *reterr)
{
    struct token_options options;
    struct auth *auth = NULL;
    enum status status;

    if (!parse_options(argc, argv, &options))
        return EXIT_USAGE;
    status = auth_create(config, &auth, reterr);
    if (status != STATUS_OK)
        return exit_code_of(status);
    status = print_tokens(auth, &options, reterr);
    auth_free(auth);
    return status == STATUS_OK ? EXIT_FINE : EXIT_FAILED;
}

const struct command command_token = {
    "token", "make bearer tokens for development and load tests", help, cmd_token, true,
    false};
