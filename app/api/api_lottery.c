/* api_lottery.c - the entries of a lottery. Shoppers enter with api_place_order(). */
#include "app/api/api_routes.h"

#include <stdio.h>
#include <string.h>

#define PAGE_ROWS 500 /* entries that are read at a time */

static void lottery_on_entry(enum rlock_status status,
                             const struct lottery_entry *entries, size_t count, void *arg)
{
    if (status != RLOCK_OK)
        api_answer_failure(arg, status, false);
    else if (count == 0)
        api_answer_problem(arg, PROBLEM_NOT_FOUND);
    else
        api_answer_entry(arg, 200, entries);
}

void api_read_entry(struct api_request *request)
{
    store_read_entry(request->api->options.store, request->id, request->identity.user_id,
                     lottery_on_entry, request);
}

/* -- the list -- */

static void lottery_on_sent(struct http_request *http)
{
    api_list_entries(http->context);
}

static char *print_page(const struct lottery_entry *entries, size_t count, bool has_head)
{
    struct text_document document;

    if (!text_document_begin(&document))
        return NULL;
    if (has_head)
        fputs("hash,won\r\n", document.out);
    for (size_t i = 0; i < count; i++)
        fprintf(document.out, "%s,%d\r\n", entries[i].hash, entries[i].has_won);
    return text_document_end(&document);
}

static void lottery_on_page(enum rlock_status status, const struct lottery_entry *entries,
                            size_t count, void *arg)
{
    struct api_request *request = arg;
    bool has_more = count > PAGE_ROWS;

    if (status != RLOCK_OK) {
        api_answer_failure(request, status, false);
        return;
    }
    if (has_more)
        snprintf(request->next_hash, sizeof(request->next_hash), "%s",
                 entries[PAGE_ROWS].hash);
    api_answer_csv(request,
                   print_page(entries, has_more ? PAGE_ROWS : count, !request->has_part),
                   has_more ? lottery_on_sent : NULL);
}

void api_list_entries(struct api_request *request)
{
    struct text from = {request->next_hash, strlen(request->next_hash)};

    store_list_entries(request->api->options.store, request->id, from, PAGE_ROWS + 1,
                       lottery_on_page, request);
}
