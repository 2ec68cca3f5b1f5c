/* database_check.c - libpq parses a URL, but checks its ports and hosts when it connects. */
#include "app/store/database_check.h"

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SETTING "SECKILL_DATABASE_URL"

/* The words of libpq quote parts of the value. */
static enum status refuse_syntax(const char *words, struct err *reterr)
{
    return err_set(reterr, STATUS_INVALID,
                   SETTING " is not a libpq URI or keyword string: %.*s...",
                   (int)strcspn(words, "\""), words);
}

/* A list of ports; an empty one is the default. */
static bool are_ports(const char *list)
{
    for (;;) {
        size_t digits = strspn(list, "0123456789");
        unsigned long port = strtoul(list, NULL, 10);

        if (digits > 0 && (port < 1 || port > UINT16_MAX))
            return false;
        list += digits;
        if (*list == '\0')
            return true;
        if (*list++ != ',')
            return false;
    }
}

/* The rest of a password that contains @ would become a host. "@name" is an abstract socket. */
static bool has_password(const char *hosts)
{
    const char *at = strrchr(hosts, '@');

    return at != NULL && at > hosts && at[-1] != ',';
}

static enum status check_option(const PQconninfoOption *option, struct err *reterr)
{
    if (option->val != NULL && strcmp(option->keyword, "port") == 0 &&
        !are_ports(option->val))
        return err_set(reterr, STATUS_INVALID,
                       SETTING " has a port that is not 1 to 65535");
    if (option->val != NULL && strcmp(option->keyword, "host") == 0 &&
        has_password(option->val))
        return err_set(reterr, STATUS_INVALID,
                       SETTING " has a host with @; write @ in a password as %%40");
    return STATUS_OK;
}

enum status database_check_url(const char *url, struct err *reterr)
{
    char *words = NULL;
    PQconninfoOption *options = PQconninfoParse(url, &words);
    enum status status = STATUS_OK;

    if (options == NULL) {
        status = refuse_syntax(words == NULL ? "" : words, reterr);
        PQfreemem(words);
        return status;
    }
    for (const PQconninfoOption *option = options;
         status == STATUS_OK && option->keyword != NULL; option++)
        status = check_option(option, reterr);
    PQconninfoFree(options);
    return status;
}

enum status database_check_encoding(const struct pg_conn *conn, struct err *reterr)
{
    const char *encoding = PQparameterStatus(conn, "server_encoding");

    if (encoding != NULL && strcmp(encoding, "UTF8") == 0)
        return STATUS_OK;
    return err_set(reterr, STATUS_INVALID,
                   "the encoding of the database is %s; it must be UTF8",
                   encoding == NULL ? "unknown" : encoding);
}
