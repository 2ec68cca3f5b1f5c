/*
 * api_ticket.c - purchase tickets: given out once a sale is open, shown with the order.
 *
 * Like an order a request for a ticket is refused by memory first, and then costs a few
 * hashes; no server is asked. Where a voucher demands work, who brings none is given a
 * challenge, and who brings the nonce that solves it gets the ticket.
 */
#include "app/api/api_routes.h"
#include "app/core/rfc3339.h"
#include "app/sale/admission.h"
#include "base/clock.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

struct asked {
    struct api *api;
    struct http_request *request;
    struct catalogue_wait wait;
    int64_t voucher_id;
};

static int64_t now_s(void)
{
    return clock_real_us() / 1000000;
}

bool api_has_ticket(struct api *api, struct http_request *request, int64_t user_id,
                    int64_t voucher_id)
{
    const struct ticket_subject subject = {TICKET_PURCHASE, user_id, voucher_id};
    bool twice;
    struct text ticket = http_header(request, "Purchase-Ticket", &twice);

    return ticket.bytes != NULL && !twice &&
           ticket_is_good(&api->options.tickets, &subject, ticket, now_s());
}

/* -- answers -- */

static void answer_refusal(const struct asked *asked, enum outcome refusal,
                           const struct catalogue_entry *entry)
{
    int64_t error_us;

    if (refusal == OUTCOME_NOT_STARTED)
        api_answer_not_started(
            asked->api, asked->request,
            entry->begin_us - catalogue_now_us(asked->api->options.catalogue, &error_us));
    else if (refusal == OUTCOME_SALE_ENDED)
        api_answer_problem(asked->api, asked->request, PROBLEM_SALE_ENDED);
    else if (refusal == OUTCOME_SOLD_OUT)
        api_answer_problem(asked->api, asked->request, PROBLEM_SOLD_OUT);
    else
        api_answer_problem(asked->api, asked->request, PROBLEM_NOT_FOUND);
}

static void answer_made(const struct asked *asked, enum ticket_kind kind, int64_t user_id,
                        unsigned bits)
{
    const struct ticket_subject subject = {kind, user_id, asked->voucher_id};
    bool is_ticket = kind == TICKET_PURCHASE;
    char text[TICKET_BYTES], expires[RFC3339_BYTES], work[48] = "", body[200];
    int64_t expires_s =
        ticket_make(&asked->api->options.tickets, &subject, now_s(), text);

    rfc3339_print(expires_s * 1000000, expires);
    if (!is_ticket)
        snprintf(work, sizeof(work), "\"algorithm\":\"sha256\",\"bits\":%u,", bits);
    snprintf(body, sizeof(body), "{\"%s\":\"%s\",%s\"expires_at\":\"%s\"}",
             is_ticket ? "ticket" : "challenge", text, work, expires);
    api_answer_json(asked->api, asked->request, is_ticket ? 201 : 200, strdup(body),
                    NULL);
}

/* -- the proof -- */

struct proof {
    struct text challenge, nonce;
};

/* Names the field that is at fault; NULL: none is. */
static const char *find_fault(const struct asked *asked, const struct proof *proof,
                              int64_t user_id, unsigned bits)
{
    const struct ticket_subject subject = {TICKET_CHALLENGE, user_id, asked->voucher_id};

    if (!ticket_is_good(&asked->api->options.tickets, &subject, proof->challenge,
                        now_s()))
        return "challenge";
    return ticket_is_proof(proof->challenge, proof->nonce, bits) ? NULL : "nonce";
}

static void judge_proof(const struct asked *asked, int64_t user_id, unsigned bits)
{
    static const struct json_field fields[] = {
        {"challenge", JSON_FIELD_TEXT, true, 1, TICKET_BYTES - 1,
         offsetof(struct proof, challenge)},
        {"nonce", JSON_FIELD_TEXT, true, 1, TICKET_NONCE_MAX,
         offsetof(struct proof, nonce)},
        {0}};
    struct proof proof = {0};
    struct json_errors errors = {0};
    struct json_document *document;
    const char *fault;

    if (!api_read_body(asked->api, asked->request, fields, &proof, &document))
        return;
    fault = find_fault(asked, &proof, user_id, bits);
    json_document_free(document);
    if (fault == NULL) {
        answer_made(asked, TICKET_PURCHASE, user_id, 0);
        return;
    }
    json_errors_add(
        &errors, fault,
        strcmp(fault, "nonce") == 0
            ? "does not solve the challenge"
            : "must be an unexpired challenge of this shopper for this voucher");
    api_answer_invalid(asked->api, asked->request, &errors);
}

static void admit(struct asked *asked, const struct catalogue_entry *entry)
{
    unsigned bits = (unsigned)entry->pow_bits;
    struct identity identity;
    enum outcome refusal;

    if (!admission_enter(asked->api->options.catalogue, entry, &refusal))
        answer_refusal(asked, refusal, entry);
    else if (!api_identify_as(asked->api, asked->request, AUTH_SHOPPER, &identity))
        return;
    else if (asked->api->options.tickets.secret[0] == '\0')
        api_answer_problem(asked->api, asked->request, PROBLEM_NOT_FOUND);
    else if (bits == 0)
        answer_made(asked, TICKET_PURCHASE, identity.user_id, 0);
    else if (http_body(asked->request).len == 0)
        answer_made(asked, TICKET_CHALLENGE, identity.user_id, bits);
    else
        judge_proof(asked, identity.user_id, bits);
}

static void on_entry(enum status status, const struct catalogue_entry *entry, void *arg)
{
    struct asked *asked = arg;

    if (status == STATUS_OK)
        admit(asked, entry);
    else
        api_answer_failure(asked->api, asked->request, status, false);
}

void api_make_ticket(struct api *api, struct http_request *request, int64_t id)
{
    struct asked *asked = http_scratch(request);
    const struct catalogue_entry *entry = catalogue_get(api->options.catalogue, id);

    static_assert(sizeof(*asked) <= HTTP_SCRATCH_BYTES, "outgrew its place");
    *asked = (struct asked){.api = api, .request = request, .voucher_id = id};
    if (entry != NULL)
        admit(asked, entry);
    else if (api_is_full(api, request))
        api_answer_problem(api, request, PROBLEM_OVERLOADED);
    else
        catalogue_read(api->options.catalogue, id, &asked->wait, on_entry, asked);
}
