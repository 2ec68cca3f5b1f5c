/* handshake.c - sends the commands together, and checks their replies one by one. */
#include "redis/handshake.h"

#include <stdio.h>
#include <string.h>

static void add(struct redis_handshake *handshake, struct redis_wire *wire,
                const char *const *words, size_t count)
{
    redis_wire_array(wire, count);
    for (size_t i = 0; i < count; i++)
        redis_wire_bulk(wire, words[i], strlen(words[i]));
    handshake->verbs[handshake->count++] = words[0];
}

#define ADD(...)                                                                         \
    add(handshake, wire, (const char *const[]){__VA_ARGS__},                             \
        sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

void redis_handshake_start(struct redis_handshake *handshake, const struct redis_url *url,
                           const char *key, const struct redis_rights *rights,
                           struct redis_wire *wire)
{
    char db[REDIS_DIGITS_MAX + 1];

    *handshake = (struct redis_handshake){.wanted = url->topology};
    snprintf(db, sizeof(db), "%u", url->db);
    if (url->password[0] != '\0' && url->user[0] != '\0')
        ADD("AUTH", url->user, url->password);
    else if (url->password[0] != '\0')
        ADD("AUTH", url->password);
    if (url->db != 0)
        ADD("SELECT", db);
    ADD("PING");
    if (rights->script != NULL) {
        ADD("EVALSHA", rights->sha, "0", rights->arg);
        ADD("EVAL", rights->script, "0", rights->arg);
    }
    ADD("HELLO");
    if (url->topology == REDIS_CLUSTER)
        ADD("EXISTS", key);
}

static enum rlock_status refuse(const char *verb, const char *text,
                                struct rlock_err *reterr)
{
    return err_set(reterr, RLOCK_REFUSED, "reply to %s: %s", verb,
                   text == NULL ? "not a status" : text);
}

static enum rlock_status read_hello(struct redis_handshake *handshake,
                                    const struct redis_reply *reply,
                                    struct rlock_err *reterr)
{
    if (redis_discovery_check(reply, handshake->wanted, reterr) != RLOCK_OK)
        return RLOCK_REFUSED;
    handshake->has_shards = strverscmp(redis_reply_field(reply, "version"), "7") > 0;
    return RLOCK_OK;
}

/** Read the reply to the script that checks the rights. Errors other than NOPERM are ignored,
 *  because the script may be unknown to the server. */
static enum rlock_status read_rights(struct redis_handshake *handshake, const char *text,
                                     bool is_error, struct rlock_err *reterr)
{
    if (is_error && redis_error_has_code(text, "NOPERM"))
        return err_set(reterr, RLOCK_REFUSED, "%s", text);
    if (!is_error && text != NULL)
        snprintf(handshake->lacks, sizeof(handshake->lacks), "%s", text);
    return RLOCK_OK;
}

enum rlock_status redis_handshake_read(struct redis_handshake *handshake,
                                       const struct redis_reply *reply, bool is_error,
                                       struct rlock_err *reterr)
{
    const char *verb = handshake->verbs[handshake->replied++];
    const char *text = redis_reply_text(reply, NULL);

    if (strncmp(verb, "EVAL", 4) == 0)
        return read_rights(handshake, text, is_error, reterr);
    if (is_error) {
        /* The error ASK says that the slot of the key is moving, but that this node still has
           it. */
        bool is_moving = strcmp(verb, "EXISTS") == 0 && redis_error_has_code(text, "ASK");

        return is_moving ? RLOCK_OK : refuse(verb, text, reterr);
    }
    if (strcmp(verb, "HELLO") == 0)
        return read_hello(handshake, reply, reterr);
    if (strcmp(verb, "EXISTS") == 0)
        return RLOCK_OK;
    if (text == NULL || (strcmp(verb, "PING") == 0 && strcmp(text, "PONG") != 0))
        return refuse(verb, text, reterr);
    return RLOCK_OK;
}

bool redis_handshake_is_done(const struct redis_handshake *handshake)
{
    return handshake->replied == handshake->count;
}
