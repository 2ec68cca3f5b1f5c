/*
 * api_csv.c - lists as CSV, of any length.
 *
 * A list is read in pages of CSV_ROWS. The next page is read only when the previous one has been
 * sent to the client. So an answer needs the memory of one page, and an order waits in Postgres for
 * the rows of one page at most.
 */
#include "app/api/api_routes.h"

#include <stdlib.h>
#include <string.h>

#define CSV_ROWS 500

bool api_read_page_size(struct api_request *request, unsigned *ret_limit)
{
    request->is_csv = text_has(http_header(request->http, "Accept", NULL), "text/csv");
    if (!request->is_csv)
        return api_read_limit(request, ret_limit);
    *ret_limit = CSV_ROWS;
    if (http_query(request->http, "limit", NULL).bytes == NULL)
        return true;
    api_answer_bad_request(request, "A list as text/csv has no limit.");
    return false;
}

void api_answer_csv(struct api_request *request, char *text,
                    void (*next)(struct http_request *http))
{
    struct http_reply reply = {.status = 200,
                               .content_type = "text/csv; charset=utf-8; header=present"};

    if (request->has_part) {
        http_send_part(request->http, text, text != NULL ? strlen(text) : 0,
                       next == NULL);
        return;
    }
    if (next == NULL || text == NULL) {
        api_answer_text(request, &reply, text);
        return;
    }
    request->has_part = true;
    reply.body = text;
    reply.body_len = strlen(text);
    http_answer_parts(request->http, &reply, next);
    free(text);
}
