/* discovery.c - the replies and messages by which a primary is found. */
#include "redis/discovery.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum rlock_status redis_discovery_check(const struct redis_reply *hello,
                                        enum redis_topology wanted,
                                        struct rlock_err *reterr)
{
    const char *version = redis_reply_field(hello, "version");
    const char *role = redis_reply_field(hello, "role");
    const char *mode = redis_reply_field(hello, "mode");
    bool is_sentinel = mode != NULL && strcmp(mode, "sentinel") == 0;

    if (version == NULL || (role == NULL && !is_sentinel))
        return err_set(reterr, RLOCK_REFUSED, "reply to HELLO: not from a Redis server");
    if (is_sentinel != (wanted == REDIS_ANY_SENTINEL))
        return err_set(reterr, RLOCK_REFUSED, "the server is %s sentinel",
                       is_sentinel ? "a" : "no");
    if (wanted == REDIS_CLUSTER && (mode == NULL || strcmp(mode, "cluster") != 0))
        return err_set(reterr, RLOCK_REFUSED, "the server is no node of a cluster");
    if (strverscmp(version, REDIS_VERSION_MIN) < 0)
        return err_set(reterr, RLOCK_REFUSED,
                       "Redis %s is too old: " REDIS_VERSION_MIN " is required", version);
    if (!is_sentinel && wanted != REDIS_CLUSTER && strcmp(role, "master") != 0)
        return err_set(reterr, RLOCK_REFUSED, "the server is a %s", role);
    return RLOCK_OK;
}

static bool set_host(const char *name, const char *port, struct redis_host *ret_host)
{
    char *end;
    unsigned long number = strtoul(port, &end, 10);

    if (number == 0 || number > UINT16_MAX || *end != '\0' || name[0] == '\0' ||
        strlen(name) > REDIS_HOST_MAX)
        return false;
    (void)stpcpy(ret_host->name, name);
    ret_host->port = (uint16_t)number;
    return true;
}

bool redis_discovery_address(const struct redis_reply *reply, struct redis_host *ret_host)
{
    const char *name = redis_reply_text(redis_reply_at(reply, 0), NULL);
    const char *port = redis_reply_text(redis_reply_at(reply, 1), NULL);

    return name != NULL && port != NULL && set_host(name, port, ret_host);
}

bool redis_discovery_moved(const struct redis_reply *error, const struct redis_host *from,
                           struct redis_host *ret_host)
{
    const char *text = redis_reply_text(error, NULL);
    char name[REDIS_HOST_MAX + 8], *colon;

    if (text == NULL || sscanf(text, "MOVED %*s %262s", name) != 1)
        return false;
    colon = strrchr(name, ':');
    if (colon == NULL)
        return false;
    *colon = '\0';
    return set_host(colon == name ? from->name : name, colon + 1, ret_host);
}

bool redis_discovery_promoted(const struct redis_reply *reply,
                              struct redis_host *ret_host)
{
    const struct redis_reply *replica;

    for (size_t i = 0; (replica = redis_reply_at(reply, i)) != NULL; i++) {
        const char *flags = redis_reply_field(replica, "flags");
        const char *name = redis_reply_field(replica, "ip");
        const char *port = redis_reply_field(replica, "port");

        if (flags != NULL && strstr(flags, "promoted") != NULL && name != NULL &&
            port != NULL)
            return set_host(name, port, ret_host);
    }
    return false;
}

bool redis_discovery_switch(const struct redis_reply *message, const char *master,
                            struct redis_host *ret_host)
{
    size_t master_len = strlen(master);
    const char *text = redis_reply_text(redis_reply_at(message, 2), NULL);
    char name[REDIS_HOST_MAX + 1], port[8];

    return text != NULL && strncmp(text, master, master_len) == 0 &&
           text[master_len] == ' ' &&
           sscanf(text + master_len, "%*s %*s %255s %7s", name, port) == 2 &&
           set_host(name, port, ret_host);
}
