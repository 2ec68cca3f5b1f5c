/* api_stats.c - the figures of the dashboard. */
#include "app/api/api_routes.h"

#include <assert.h>
#include <string.h>

/* Lives in the request's scratch. */
struct stats {
    struct figures_question question; /* first: they share their address */
    struct api *api;
    struct http_request *request;
};
static_assert(sizeof(struct stats) <= HTTP_SCRATCH_BYTES, "does not fit into a request");

static void on_figures(struct figures_question *question, char *text)
{
    struct stats *stats = (struct stats *)question;

    api_answer_json(stats->api, stats->request, 200, text, NULL);
}

/* "MILLISECONDS-NUMBER" */
static bool parse_after(struct text after, char ret_after[FIGURES_ID_BYTES])
{
    const char *mark = memchr(after.bytes, '-', after.len);

    if (mark == NULL || mark == after.bytes || mark == after.bytes + after.len - 1 ||
        after.len >= FIGURES_ID_BYTES)
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
    struct figures *figures = api->options.figures;
    char after[FIGURES_ID_BYTES] = "";
    struct identity identity;
    struct stats *stats;
    struct text asked;
    bool is_twice;

    (void)id;
    if (!api_identify_as(api, request, AUTH_ADMIN, &identity))
        return;
    asked = http_query(request, "after", &is_twice);
    if (is_twice || (asked.bytes != NULL && !parse_after(asked, after))) {
        api_answer_bad_request(api, request, "after must be the id of one of the items.");
        return;
    }
    stats = http_scratch(request);
    stats->api = api;
    stats->request = request;
    if (figures_ask(figures, after, &stats->question, on_figures) != STATUS_OK)
        api_answer_json(api, request, 200, figures_own(figures), NULL);
}
