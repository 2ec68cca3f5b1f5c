/*
 * api_readings.c - requests for the same voucher, or for the same page of vouchers, share a read.
 *
 * At most one read of the same data is under way. The requests that arrive meanwhile share the next
 * read, so an answer is never older than its request. The requests of a read also share the printed
 * answer.
 */
#include "app/api/api_routes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

struct api_reading {
    struct rlock_link link; /* in api->readings */
    struct api *api;
    struct api_reading_key key;
    struct rlock_link requests; /* wait for the read under way */
    struct rlock_link next;     /* arrived later and wait for the next read */
};

static bool is_same(const struct api_reading_key *a, const struct api_reading_key *b)
{
    return a->voucher_id == b->voucher_id && a->filter.state == b->filter.state &&
           a->filter.after_us == b->filter.after_us &&
           a->filter.after_id == b->filter.after_id && a->filter.limit == b->filter.limit;
}

static struct rlock_link *bucket_of(struct api *api, const struct api_reading_key *key)
{
    uint64_t sum = (uint64_t)key->voucher_id + (uint64_t)key->filter.after_id +
                   key->filter.limit + (uint64_t)key->filter.state;

    return &api->readings[sum % API_READINGS];
}

static char *print_list(const struct api_reading *reading, const struct voucher *vouchers,
                        size_t count, int64_t now_us)
{
    const struct voucher_filter *filter = &reading->key.filter;
    bool has_more = count >= filter->limit; /* the limit is the size of a page plus one */
    char cursor[48];

    if (has_more) {
        const struct voucher *last = &vouchers[filter->limit - 2];
        int64_t time_us = filter->state == VOUCHER_ANY        ? 0
                          : filter->state == VOUCHER_UPCOMING ? last->begin_us
                                                              : last->end_us;

        count = filter->limit - 1;
        snprintf(cursor, sizeof(cursor), "%" PRId64 "_%" PRId64, time_us, last->id);
    }
    return json_print_vouchers(vouchers, count, now_us, has_more ? cursor : NULL);
}

#define TAG_BYTES 24

/* The tag of an answer changes with the vouchers. It also changes every second. Otherwise an answer
   304 would let a cache keep an old server_time. */
static void print_tag(const struct voucher *vouchers, size_t count, int64_t now_us,
                      char ret_tag[TAG_BYTES])
{
    const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t sum = (uint64_t)(now_us / 1000000);

    for (size_t i = 0; i < count; i++)
        sum = ((sum * factor + (uint64_t)vouchers[i].id) * factor) +
              (uint64_t)vouchers[i].version;
    snprintf(ret_tag, TAG_BYTES, "W/\"%016" PRIx64 "\"", sum * factor);
}

/* Prints the answer to all requests that share the reading. NULL: out of memory. */
static struct http_page *print_page(const struct api_reading *reading,
                                    const struct voucher *vouchers, size_t count,
                                    int64_t now_us)
{
    char *text = reading->key.voucher_id != 0
                     ? json_print_voucher(&vouchers[0], now_us)
                     : print_list(reading, vouchers, count, now_us);
    struct http_reply reply = {
        .status = 200, .content_type = "application/json", .body = text};
    struct http_page *page = NULL;
    bool is_list = reading->key.voucher_id == 0;
    int64_t age_s = is_list ? store_lists_age_s(reading->api->options.store) : -1;
    char tag[TAG_BYTES], age[24], control[48];

    print_tag(vouchers, count, now_us, tag);
    http_reply_add(&reply, "ETag", tag);
    snprintf(age, sizeof(age), "%" PRId64, age_s);
    if (age_s >= 0)
        http_reply_add(&reply, "Age", age);
    /* A cache subtracts Age from max-age. The sum lets the cache keep the answer for one second. */
    snprintf(control, sizeof(control), "public, max-age=%" PRId64, MAX(age_s, 0) + 1);
    http_reply_add(&reply, "Cache-Control", control);
    if (text != NULL) {
        reply.body_len = strlen(text);
        page = http_page_create(&reply);
    }
    free(text);
    return page;
}

static void start_reading(struct api_reading *reading);

static void readings_on_read(enum rlock_status status, const struct voucher *vouchers,
                             size_t count, int64_t now_us, void *arg)
{
    struct api_reading *reading = arg;
    struct http_page *page = NULL;
    struct rlock_link answered;

    list_init(&answered);
    list_append_all(&answered, &reading->requests);
    if (status == RLOCK_OK) {
        page = print_page(reading, vouchers, count, now_us);
        if (page == NULL)
            status = RLOCK_NO_MEMORY;
    }
    if (list_is_empty(&reading->next)) {
        list_remove(&reading->link);
        free(reading);
    } else {
        start_reading(reading);
    }
    LIST_DRAIN(struct api_request, request, &answered, list.link) {
        if (page != NULL)
            http_answer_page(request->http, page);
        else
            api_answer_failure(request, status, false);
    }
    http_page_free(page);
}

static void start_reading(struct api_reading *reading)
{
    struct store *store = reading->api->options.store;

    list_append_all(&reading->requests, &reading->next);
    if (reading->key.voucher_id != 0)
        store_read_voucher(store, reading->key.voucher_id, readings_on_read, reading);
    else
        store_list_vouchers(store, &reading->key.filter, readings_on_read, reading);
}

void api_share_reading(struct api_request *request, const struct api_reading_key *key)
{
    struct rlock_link *bucket = bucket_of(request->api, key);
    struct api_reading *reading;

    LIST_EACH(struct api_reading, other, bucket, link) {
        if (is_same(&other->key, key)) {
            list_append(&other->next, &request->list.link);
            return;
        }
    }
    reading = calloc(1, sizeof(*reading));
    if (reading == NULL) {
        api_answer_problem(request, PROBLEM_OVERLOADED);
        return;
    }
    reading->api = request->api;
    reading->key = *key;
    list_init(&reading->requests);
    list_init(&reading->next);
    list_append(bucket, &reading->link);
    list_append(&reading->next, &request->list.link);
    start_reading(reading);
}
