/* csv.c - prints lists as CSV. */
#include "app/api/csv.h"

#include "app/api/json.h"
#include "app/core/rfc3339.h"
#include "app/core/text.h"

#include <inttypes.h>
#include <string.h>

char *csv_print_orders(const struct order_page *page, bool has_head)
{
    struct text_document document;

    if (!text_document_begin(&document))
        return NULL;
    if (has_head)
        fputs(
            "id,voucher_id,user_id,status,price_cents,created_at,expires_at,paid_at\r\n",
            document.out);
    for (size_t i = 0; i < page->count; i++) {
        const struct order *order = &page->orders[i];
        char created[RFC3339_BYTES], expires[RFC3339_BYTES], paid[RFC3339_BYTES] = "";

        rfc3339_print(order->created_us, created);
        rfc3339_print(order->expires_us, expires);
        if (order->paid_us != 0)
            rfc3339_print(order->paid_us, paid);
        fprintf(document.out,
                "%" PRId64 ",%" PRId64 ",%" PRId64 ",%s,%" PRId64 ",%s,%s,%s\r\n",
                order->id, order->voucher_id, order->user_id,
                json_status_names[order->status], order->price_cents, created, expires,
                paid);
    }
    return text_document_end(&document);
}

/* Prints any text as a field. If a spreadsheet would take the text for a formula, an apostrophe is
   put before it. */
static void print_quoted(FILE *out, const char *text)
{
    fputs(strchr("=+-@\t\r", text[0]) != NULL && text[0] != '\0' ? "\"'" : "\"", out);
    for (; *text != '\0'; text++)
        fputs(*text == '"' ? "\"\"" : (const char[]){*text, '\0'}, out);
    fputc('"', out);
}

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

char *csv_print_events(const struct event *events, size_t count, bool has_head)
{
    struct text_document document;

    if (!text_document_begin(&document))
        return NULL;
    if (has_head)
        fputs("id,voucher_id,order_id,at,stock_change,actor,from_status,to_status,"
              "detail\r\n",
              document.out);
    for (size_t i = 0; i < count; i++) {
        const struct event *event = &events[i];
        char order_id[24] = "", at[RFC3339_BYTES];

        if (event->order_id != 0)
            snprintf(order_id, sizeof(order_id), "%" PRId64, event->order_id);
        rfc3339_print(event->at_us, at);
        fprintf(document.out, "%" PRId64 ",%" PRId64 ",%s,%s,%" PRId64 ",%s,%s,%s,",
                event->id, event->voucher_id, order_id, at, event->stock_change,
                event->actor, or_empty(event->from_status), or_empty(event->to_status));
        if (event->detail != NULL)
            print_quoted(document.out, event->detail);
        fputs("\r\n", document.out);
    }
    return text_document_end(&document);
}
