/* reply.c - struct redis_reply is the redisReply of hiredis. */
#include "redis/reply.h"

#include <hiredis/hiredis.h>

static const redisReply *inside(const struct redis_reply *reply)
{
    return (const redisReply *)(const void *)reply;
}

bool redis_reply_is_nil(const struct redis_reply *reply)
{
    return reply != NULL && inside(reply)->type == REDIS_REPLY_NIL;
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
