/* api_stats.c - the stats of the dashboard. */
#include "app/api/api_routes.h"

#include <assert.h>
#include <string.h>

/* Lives in the request's scratch. */
struct stats_request {
    struct stats_question question; /* first: they share their address */
    struct api *api;
    struct http_request *request;
};
static_assert(sizeof(struct stats_request) <= HTTP_SCRATCH_BYTES,
              "does not fit into a request");

static void on_stats(struct stats_question *question, char *text)
{
    struct stats_request *own = (struct stats_request *)question;

    api_answer_json(own->api, own->request, 200, text, NULL);
}

/* "MILLISECONDS-NUMBER" */
static bool parse_after(struct text after, char ret_after[STATS_ID_BYTES])
{
    const char *mark = memchr(after.bytes, '-', after.len);

    if (mark == NULL || mark == after.bytes || mark == after.bytes + after.len - 1 ||
        after.len >= STATS_ID_BYTES)
        return false;
    for (size_t i = 0; i < after.len; i++) {
        char c = after.bytes[i];

        if ((c < '0' || c > '9') && &after.bytes[i] != mark)
            return false;
    }
    memcpy(ret_after, after.bytes, after.len);
    ret_after[after.len] = '\0';
    return true;
}

void api_stats(struct api *api, struct http_request *request, int64_t id)
{
    struct stats *stats = api->options.stats;
    char after[STATS_ID_BYTES] = "";
    struct identity identity;
    struct stats_request *own;
    struct text asked;
    bool is_twice;

    (void)id;
    if (!api_identify_as(api, request, AUTH_ADMIN, &identity))
        return;
    asked = http_query(request, "after", &is_twice);
    if (is_twice || (asked.bytes != NULL && !parse_after(asked, after))) {
        api_answer_bad_request(api, request, "after must be the id of an item.");
        return;
    }
    own = http_scratch(request);
    own->api = api;
    own->request = request;
    if (stats_ask(stats, after, &own->question, on_stats) != STATUS_OK)
        api_answer_json(api, request, 200, stats_own(stats), NULL);
}
