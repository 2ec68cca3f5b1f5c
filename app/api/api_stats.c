/* api_stats.c - the stats of the dashboard. */
#include "app/api/api_routes.h"

#include <string.h>

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

static void stats_on_read(struct stats_read *read, char *text)
{
    api_answer_json(list_item(read, struct api_request, stats), 200, text, NULL);
}

void api_read_stats(struct api_request *request)
{
    struct stats *stats = request->api->options.stats;
    char after[STATS_ID_BYTES] = "";
    bool is_repeated;
    struct text id = http_query(request->http, "after", &is_repeated);

    if (is_repeated || (id.bytes != NULL && !parse_after(id, after)))
        api_answer_bad_request(request, "after must be the id of an item.");
    else if (stats_read(stats, after, &request->stats, stats_on_read) != STATUS_OK)
        api_answer_json(request, 200, stats_print_own(stats), NULL);
}
