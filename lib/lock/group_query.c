/* group_query.c - inspects the members of a group, or forces their release. */
#include "lock/group_round.h"

#include <assert.h>
#include <stdlib.h>

/** A query of all members. The group may be freed meanwhile, so the query does not refer to it. */
struct query {
    bool (*each)(const struct rlock_info *info, void *arg); /* NULL: release by force */
    void (*callback)(enum rlock_status status, void *arg);
    void *arg;
    unsigned unanswered; /* calls without an answer, plus 1 until all have begun */
    enum rlock_status status;
};

static void count_answer(struct query *query)
{
    if (--query->unanswered > 0)
        return;
    query->callback(query->status, query->arg);
    free(query);
}

static bool query_on_owner(const struct rlock_info *info, void *arg)
{
    const struct query *query = arg;

    return query->each(info, query->arg);
}

static void query_on_end(enum rlock_status status, void *arg)
{
    struct query *query = arg;

    if (query->status == RLOCK_NOT_FOUND ||
        (query->status == RLOCK_OK && status != RLOCK_NOT_FOUND))
        query->status = status;
    count_answer(query);
}

static void start(const struct rlock_group *group, const struct query *request)
{
    struct query *query = malloc(sizeof(*query));

    if (query == NULL) {
        request->callback(RLOCK_NO_MEMORY, request->arg);
        return;
    }
    *query = *request;
    query->status = RLOCK_NOT_FOUND;
    query->unanswered = group->count + 1;
    for (unsigned i = 0; i < group->count; i++) {
        const struct group_member *member = &group->members[i];

        if (query->each == NULL)
            rlock_force_release(member->client, member->name, member->name_len,
                                query_on_end, query);
        else
            rlock_list(member->client, member->name, member->name_len, query_on_owner,
                       query_on_end, query);
        rlock_flush(member->client);
    }
    count_answer(query);
}

void rlock_group_inspect(const struct rlock_group *group,
                         bool (*each)(const struct rlock_info *info, void *arg),
                         void (*callback)(enum rlock_status status, void *arg), void *arg)
{
    assert(each != NULL);
    start(group, &(struct query){.each = each, .callback = callback, .arg = arg});
}

void rlock_group_force_release(const struct rlock_group *group,
                               void (*callback)(enum rlock_status status, void *arg),
                               void *arg)
{
    start(group, &(struct query){.callback = callback, .arg = arg});
}
