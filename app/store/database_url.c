/* database_url.c - checks the hosts and ports of a URL. libpq checks them only when it connects. */
#include "app/store/database_url.h"

#include <libpq-fe.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define SETTING      "SECKILL_DATABASE_URL"
#define DEFAULT_PORT "5432"

/* -- lists -- */

static const char *value_of(const PQconninfoOption *options, const char *keyword)
{
    while (strcmp(options->keyword, keyword) != 0)
        options++;
    return options->val == NULL ? "" : options->val;
}

static unsigned count_elements(const char *list)
{
    unsigned count = 1;

    if (list[0] == '\0')
        return 0;
    while ((list = strchr(list, ',')) != NULL) {
        list++;
        count++;
    }
    return count;
}

/* Copies element `number` of the list. A list with only one element gives this element to all
   hosts. Returns false if the element is too long, or is empty in a list of several elements. */
static bool copy_element(const char *list, unsigned number, char *ret, size_t size)
{
    bool is_alone = strchr(list, ',') == NULL;
    int len;

    for (; number > 0 && !is_alone; number--)
        list = strchr(list, ',') + 1;
    len = (int)strcspn(list, ",");
    snprintf(ret, size, "%.*s", len, list);
    return (size_t)len < size && (len > 0 || is_alone);
}

static bool take_host(const PQconninfoOption *options, unsigned number,
                      struct database_host *ret_host)
{
    struct database_host *host = ret_host;

    if (!copy_element(value_of(options, "port"), number, host->port,
                      sizeof(host->port))) {
        if (host->port[0] != '\0')
            return false;
        snprintf(host->port, sizeof(host->port), DEFAULT_PORT);
    }
    return copy_element(value_of(options, "host"), number, host->name,
                        sizeof(host->name)) &&
           copy_element(value_of(options, "hostaddr"), number, host->address,
                        sizeof(host->address));
}

/* -- checks -- */

static bool is_port(const char *text)
{
    unsigned long port = strtoul(text, NULL, 10);

    return strspn(text, "0123456789") == strlen(text) && port >= 1 && port <= UINT16_MAX;
}

static enum rlock_status check_host(const PQconninfoOption *options, unsigned number,
                                    struct rlock_err *reterr)
{
    struct database_host host;
    const char *at;

    if (!take_host(options, number, &host))
        return err_set(reterr, RLOCK_INVALID,
                       SETTING " has an element in a list that is empty or too long");
    if (host.port[0] != '\0' && !is_port(host.port))
        return err_set(reterr, RLOCK_INVALID,
                       SETTING " has a port that is not 1 to 65535");
    /* libpq ends the password at the first @, so a host with an @ may begin with the rest of the
       password. But a host that begins with @ is an abstract socket. */
    at = strrchr(host.name, '@');
    if (at != NULL && at != host.name)
        return err_set(reterr, RLOCK_INVALID,
                       SETTING " has a host with @; write @ in a password as %%40");
    return RLOCK_OK;
}

static enum rlock_status check_hosts(const PQconninfoOption *options, unsigned *ret_count,
                                     struct rlock_err *reterr)
{
    unsigned names = count_elements(value_of(options, "host"));
    unsigned addresses = count_elements(value_of(options, "hostaddr"));
    unsigned ports = count_elements(value_of(options, "port"));
    unsigned count = addresses > 0 ? addresses : names;
    enum rlock_status status = RLOCK_OK;

    if (count == 0)
        count = 1; /* the default host of libpq */
    if ((names > 0 && names != count) || (ports > 1 && ports != count))
        return err_set(reterr, RLOCK_INVALID,
                       SETTING " has lists of different lengths: %u hosts, %u hostaddrs,"
                               " %u ports",
                       names, addresses, ports);
    for (unsigned i = 0; status == RLOCK_OK && i < count; i++)
        status = check_host(options, i, reterr);
    if (status == RLOCK_OK && ret_count != NULL)
        *ret_count = count;
    return status;
}

enum rlock_status database_url_check(const char *url, unsigned *ret_host_count,
                                     struct rlock_err *reterr)
{
    char *words = NULL;
    PQconninfoOption *options = PQconninfoParse(url, &words);
    enum rlock_status status;

    if (options == NULL) /* libpq's message quotes the value, which may be secret */
        status = err_set(reterr, RLOCK_INVALID,
                         SETTING " is not a libpq URI or keyword string: %.*s...",
                         words == NULL ? 0 : (int)strcspn(words, "\""),
                         words == NULL ? "" : words);
    else
        status = check_hosts(options, ret_host_count, reterr);
    PQfreemem(words);
    PQconninfoFree(options);
    return status;
}

/* -- hosts -- */

bool database_url_host(const char *url, unsigned number, struct database_host *ret_host)
{
    PQconninfoOption *options = PQconninfoParse(url, NULL);
    bool is_taken = options != NULL && take_host(options, number, ret_host);

    PQconninfoFree(options);
    return is_taken;
}

bool database_host_is_named(const struct database_host *host)
{
    struct sockaddr_storage unused;

    return host->address[0] == '\0' && strchr("/@", host->name[0]) == NULL &&
           uv_ip4_addr(host->name, 0, (struct sockaddr_in *)&unused) != 0 &&
           uv_ip6_addr(host->name, 0, (struct sockaddr_in6 *)&unused) != 0;
}

/* -- connecting -- */

PGconn *database_connect(const char *url, const struct database_host *host)
{
    /* A later keyword overrides an earlier keyword, unless the later value is empty. So the
       URL may set the application name, but not the encoding. */
    /* clang-format off */
    const char *const keywords[] = {
        "fallback_application_name", "dbname", "host", "hostaddr", "port", "client_encoding",
        "target_session_attrs", NULL};
    const char *const values[] = {
        "seckill", url, host->name, host->address, host->port, "UTF8", "any", NULL};
    /* clang-format on */

    return PQconnectStartParams(keywords, values, 1);
}
