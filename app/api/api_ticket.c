/*
 * api_ticket.c - issues purchase tickets while a sale is open, and checks them for orders.
 *
 * Like an order, a request for a ticket passes admission first. To issue a ticket costs a few
 * hashes. If the voucher requires a proof of work, the answer to a request without a body is a
 * challenge, and a request with the solution gets a ticket. Shoppers may solve the challenge while
 * they wait for the sale to open.
 */
#include "app/api/api_routes.h"
#include "app/core/rfc3339.h"
#include "app/sale/admission.h"
#include "base/clock.h"

#include <stdio.h>
#include <string.h>

static int64_t now_s(void)
{
    return clock_real_us() / 1000000;
}

static struct ticket_subject subject_of(const struct api_request *request,
                                        enum ticket_kind kind)
{
    return (struct ticket_subject){kind, request->identity.user_id, request->id};
}

bool api_has_ticket(struct api_request *request)
{
    const struct ticket_subject subject = subject_of(request, TICKET_PURCHASE);
    bool is_repeated;
    struct text ticket = http_header(request->http, "Purchase-Ticket", &is_repeated);

    return !is_repeated &&
           ticket_is_good(&request->api->options.tickets, &subject, ticket, now_s());
}

/* @bits  the proof of work that a challenge requires; unused for a ticket */
static void answer_issued(struct api_request *request, enum ticket_kind kind,
                          unsigned bits)
{
    const struct ticket_subject subject = subject_of(request, kind);
    bool is_ticket = kind == TICKET_PURCHASE;
    char text[TICKET_BYTES], expires[RFC3339_BYTES], work[48] = "", body[200];
    int64_t expires_s =
        ticket_make(&request->api->options.tickets, &subject, now_s(), text);

    rfc3339_print(expires_s * 1000000, expires);
    if (!is_ticket)
        snprintf(work, sizeof(work), "\"algorithm\":\"sha256\",\"bits\":%u,", bits);
    snprintf(body, sizeof(body), "{\"%s\":\"%s\",%s\"expires_at\":\"%s\"}",
             is_ticket ? "ticket" : "challenge", text, work, expires);
    api_answer_json(request, is_ticket ? 201 : 200, strdup(body), NULL);
}

struct proof {
    struct text challenge, nonce;
};

static void check_proof(struct api_request *request, const struct proof *proof,
                        unsigned bits)
{
    const struct ticket_subject subject = subject_of(request, TICKET_CHALLENGE);

    if (!ticket_is_good(&request->api->options.tickets, &subject, proof->challenge,
                        now_s()))
        api_answer_invalid_field(
            request, "challenge",
            "must be an unexpired challenge of this shopper for this voucher");
    else if (!ticket_is_proof(proof->challenge, proof->nonce, bits))
        api_answer_invalid_field(request, "nonce", "does not solve the challenge");
    else
        answer_issued(request, TICKET_PURCHASE, 0);
}

/* Called when the request is admitted and the caller is identified. */
static void issue(struct api_request *request)
{
    static const struct json_field fields[] = {
        {"challenge", JSON_FIELD_TEXT, true, 1, TICKET_BYTES - 1,
         offsetof(struct proof, challenge)},
        {"nonce", JSON_FIELD_TEXT, true, 1, TICKET_NONCE_MAX,
         offsetof(struct proof, nonce)},
        {0}};
    unsigned bits = request->place.pow_bits;
    bool has_body = request->http->body.len > 0;
    struct proof proof = {0};

    if (request->api->options.tickets.secret[0] == '\0')
        api_answer_problem(request, PROBLEM_NOT_FOUND);
    else if (has_body && !api_read_body(request, fields, &proof))
        return;
    else if (bits == 0)
        answer_issued(request, TICKET_PURCHASE, 0);
    else if (!has_body)
        answer_issued(request, TICKET_CHALLENGE, bits);
    else if (request->place.is_early)
        api_answer_outcome(request, OUTCOME_NOT_STARTED, NULL);
    else
        check_proof(request, &proof, bits);
}

/* Whether a challenge that is issued now is still valid when the sale opens. */
static bool has_useful_challenge(const struct api_request *request,
                                 const struct catalogue_entry *entry)
{
    int64_t expires_s = now_s() + request->api->options.tickets.ttl_s;

    return entry->pow_bits > 0 && entry->begin_us < expires_s * 1000000;
}

static void admit(struct api_request *request, const struct catalogue_entry *entry)
{
    enum outcome refusal;
    bool is_open = admission_check(request->api->options.catalogue, entry, &refusal);

    request->place.pow_bits = (unsigned)entry->pow_bits;
    request->place.is_early = !is_open && refusal == OUTCOME_NOT_STARTED &&
                              has_useful_challenge(request, entry);
    if (is_open || request->place.is_early)
        api_identify(request, issue);
    else
        api_answer_outcome(request, refusal, NULL);
}

void api_make_ticket(struct api_request *request)
{
    api_find_entry(request, admit);
}
