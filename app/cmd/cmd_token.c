/* cmd_token.c - `seckill token`: makes bearer tokens for development and load tests. */
#include "app/auth/auth.h"
#include "app/cmd/cmd.h"
#include "app/core/text.h"
#include "base/clock.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define TTL_S_DEFAULT 86400

struct token_options {
    struct identity first;
    int64_t ttl_s;
    int64_t count;
};

static bool parse_options(int argc, char **argv, struct token_options *options)
{
    static const struct option known[] = {
        {"user", required_argument, NULL, 'u'}, {"role", required_argument, NULL, 'r'},
        {"ttl", required_argument, NULL, 't'},  {"count", required_argument, NULL, 'c'},
        {"jti", required_argument, NULL, 'j'},  {0}};
    bool ok = true;
    int option;

    // NOLINTNEXTLINE(concurrency-mt-unsafe): no threads in this command
    while (ok && (option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        struct text value = {optarg, optarg != NULL ? strlen(optarg) : 0};

        if (option == 'u')
            ok = text_parse_id(value, &options->first.user_id);
        else if (option == 'r')
            ok = auth_parse_role(value, &options->first.role);
        else if (option == 't')
            ok = text_parse_id(value, &options->ttl_s) && options->ttl_s < INT32_MAX;
        else if (option == 'c')
            ok = text_parse_id(value, &options->count);
        else
            ok = value.len > 0 && value.len <= AUTH_ID_BYTES_MAX &&
                 stpcpy(options->first.jti, optarg) != NULL;
        if (!ok && option != '?')
            fprintf(stderr, "seckill token: invalid value \"%s\"\n", optarg);
    }
    return ok && optind == argc && options->first.user_id != 0 &&
           options->count <= INT64_MAX - options->first.user_id;
}

static enum rlock_status print_tokens(const struct auth *auth,
                                      const struct token_options *options,
                                      struct rlock_err *reterr)
{
    struct identity identity = options->first;
    int64_t now_s = clock_real_us() / 1000000;

    for (int64_t i = 0; i < options->count; i++, identity.user_id++) {
        enum rlock_status status;
        char *token;

        status = auth_make(auth, &identity, now_s, options->ttl_s, &token, reterr);
        if (status != RLOCK_OK)
            return status;
        puts(token);
        free(token);
    }
    if (fflush(stdout) != 0)
        return err_set(reterr, RLOCK_IO, "standard output: %m");
    return RLOCK_OK;
}

static int cmd_token(int argc, char **argv, const struct config *config,
                     struct rlock_err *reterr)
{
    struct token_options options = {.ttl_s = TTL_S_DEFAULT, .count = 1};
    struct auth *auth = NULL;
    enum rlock_status status;

    if (!parse_options(argc, argv, &options))
        return EXIT_USAGE;
    status = auth_create(config, &auth, reterr);
    if (status != RLOCK_OK)
        return exit_code_of(status);
    status = print_tokens(auth, &options, reterr);
    auth_free(auth);
    return status == RLOCK_OK ? EXIT_FINE : EXIT_FAILED;
}

const struct command command_token = {
    "token", "make bearer tokens for development and load tests", cmd_token, true, false};
