/* reply.c - struct redis_reply is the redisReply of hiredis. */
#include "redis/reply.h"

#include <hiredis/hiredis.h>
#include <string.h>

static const redisReply *inside(const struct redis_reply *reply)
{
    return (const redisReply *)(const void *)reply;
}

bool redis_reply_int(const struct redis_reply *reply, int64_t *ret_value)
{
    if (reply == NULL || inside(reply)->type != REDIS_REPLY_INTEGER)
        return false;
    *ret_value = inside(reply)->integer;
    return true;
}

const char *redis_reply_text(const struct redis_reply *reply, size_t *ret_len)
{
    int type = reply == NULL ? REDIS_REPLY_NIL : inside(reply)->type;

    if (type != REDIS_REPLY_STRING && type != REDIS_REPLY_STATUS &&
        type != REDIS_REPLY_ERROR)
        return NULL;
    if (ret_len != NULL)
        *ret_len = inside(reply)->len;
    return inside(reply)->str;
}

const struct redis_reply *redis_reply_at(const struct redis_reply *reply, size_t index)
{
    if (reply == NULL || inside(reply)->type != REDIS_REPLY_ARRAY ||
        index >= inside(reply)->elements)
        return NULL;
    return (const struct redis_reply *)(const void *)inside(reply)->element[index];
}

const char *redis_reply_field(const struct redis_reply *reply, const char *key)
{
    for (size_t i = 0; redis_reply_at(reply, i + 1) != NULL; i += 2) {
        const char *name = redis_reply_text(redis_reply_at(reply, i), NULL);

        if (name != NULL && strcmp(name, key) == 0)
            return redis_reply_text(redis_reply_at(reply, i + 1), NULL);
    }
    return NULL;
}

static bool begins_error(const char *text, const char *at)
{
    if (at > text && at[-1] == '-')
        at--;
    return at == text || (at - text >= 2 && at[-1] == ' ' && at[-2] == ':');
}

bool redis_error_has_code(const char *text, const char *code)
{
    size_t len = strlen(code);

    for (const char *at = strstr(text, code); at != NULL; at = strstr(at + len, code)) {
        if (begins_error(text, at) && (at[len] == ' ' || at[len] == '\0'))
            return true;
    }
    return false;
}
