/* test_api_orders.c - placing, tickets, changes and lists of orders, with fake backends. */
#include "app/test/api/api_fixture.h"

/* -- placing -- */

API_CASE(test_place__answers_each_outcome)
{
    /* clang-format off */
    static const char *const answers_by_outcome[] = {
        "201 Location: /v1/orders/71 " ORDER, "200 " ORDER, "409 already_ordered 71",
        "202 Location: /v1/vouchers/7/entry {\"voucher_id\":\"7\",\"user_id\":\"0\",\"status\":\"entered\"}", "409 sold_out",
        "409 Retry-After: 3 not_started", "409 sale_ended", "404 not_found", "403 ticket_required", "421 misdirected",
        "409" RETRY " order_in_progress", "503" RETRY " overloaded", "503" RETRY " unavailable",
        "503" RETRY " outcome_unknown", "500 internal"};
    /* clang-format on */

    fake.entry.begin_us = clock_real_us() + 2000001;
    fake.entry.requires_ticket = false;
    for (int i = 0; i < OUTCOME_COUNT; i++) {
        struct api_request request = {.api = api, .id = 7, .http = request_new()};

        request.route = NULL;
        request.http->context = &request;
        answer[0] = '\0';
        fake.outcome = (enum outcome)i;
        api_answer_outcome(&request, fake.outcome,
                           i <= OUTCOME_ALREADY_ORDERED ? &fake.order : NULL);
        ASSERT_TEXT(answer, answers_by_outcome[i]);
        free(request.http);
    }
}

/* The answer is rendered in advance if the sale begins in 1 to 63 s. Otherwise it is rendered for
   the request. */
API_CASE(test_place__says_when_a_sale_begins)
{
    /* clang-format off */
    static const struct {
        int64_t wait_us;
        const char *answer;
    } rows[] = {
        {2000000, "409 Retry-After: 2 not_started"},
        {2000001, "409 Retry-After: 3 not_started"},
        {63000000, "409 Retry-After: 63 not_started"},
        {63000001, "409 Retry-After: 64 not_started"},
        {86400000000, "409 Retry-After: 86400 not_started"},
        {2000000, "409 Retry-After: 2 not_started"},
    };
    /* clang-format on */

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        fake.entry.begin_us = clock_real_us() + rows[i].wait_us;
        ASSERT_TEXT(ask(PLACE, SHOPPER, NULL, NULL), rows[i].answer);
        ASSERT_TEXT(did, "");
        ASSERT_NUMBER(metrics.outcomes[OUTCOME_NOT_STARTED], ==, i + 1);
    }
    fake.outcome = OUTCOME_NOT_STARTED;
    fake.entry.begin_us = clock_real_us();
    ASSERT_TEXT(ask(PLACE, SHOPPER, NULL, NULL), "409 Retry-After: 1 not_started");
}

API_CASE(test_place__needs_a_valid_key)
{
    /* clang-format off */
    static const struct row rows[] = {
        {PLACE, SHOPPER, "Idempotency-Key: a ~\n", NULL, LIMITED "submit 7 5 key \"a ~\" sent_id=r;", "201 Location: /v1/orders/71 " ORDER},
        {PLACE, SHOPPER, "Idempotency-Key: " KEY_64 "\n", NULL, LIMITED "submit 7 5 key \"" KEY_64 "\" sent_id=r;", "201 Location: /v1/orders/71 " ORDER},
        {PLACE, SHOPPER, "Idempotency-Key: " KEY_64 "5\n", NULL, "", BAD_KEY},
        {PLACE, SHOPPER, "Idempotency-Key: a\nIdempotency-Key: a\n", NULL, "", BAD_KEY},
        {PLACE, SHOPPER, "Idempotency-Key: \n", NULL, "", BAD_KEY},
        {PLACE, SHOPPER, "Idempotency-Key: \x7f\n", NULL, "", BAD_KEY},
        {PLACE, SHOPPER, "Idempotency-Key: a\x7f\n", NULL, "", BAD_KEY},
        {PLACE, SHOPPER, "Idempotency-Key: a\tb\n", NULL, "", BAD_KEY},
        {PLACE, SHOPPER, NULL, NULL, SUBMIT, "201 Location: /v1/orders/71 " ORDER},
        {PLACE, NULL, NULL, NULL, "", UNAUTHENTICATED},
    };
    /* clang-format on */

    ASSERT_ROWS(rows);
    fake.is_checkout_full = true;
    ASSERT_TEXT(ask(PLACE, SHOPPER, NULL, NULL), "503" RETRY " overloaded");
    ASSERT_NUMBER(metrics.outcomes[OUTCOME_OVERLOADED], ==, 1);
}

API_CASE(test_place__an_unknown_voucher_is_read_for_callers_with_a_token)
{
    fake.has_entry = false;
    ASSERT_TEXT(ask(PLACE, NULL, NULL, NULL), UNAUTHENTICATED);
    ASSERT_TEXT(did, "");
    ASSERT_TEXT(ask(PLACE, SHOPPER, NULL, NULL), "201 Location: /v1/orders/71 " ORDER);
    ASSERT_TEXT(did, LIMITED "catalogue 7;submit 7 5 key \"\" sent_id=r;");
    fake.status = RLOCK_NO_MEMORY;
    ASSERT_TEXT(ask(PLACE, SHOPPER, NULL, NULL), "503" RETRY " overloaded");
    fake.status = RLOCK_DOWN;
    ASSERT_TEXT(ask(PLACE, SHOPPER, NULL, NULL), "503" RETRY " unavailable");
    ASSERT_NUMBER(metrics.outcomes[OUTCOME_UNAVAILABLE], ==, 1);
    ask("POST /v1/vouchers/7/ticket", SHOPPER, NULL, NULL);
    /* A ticket does not count as an order. */
    ASSERT_NUMBER(metrics.outcomes[OUTCOME_UNAVAILABLE], ==, 1);
}

/* The request may repeat a key with which an order was placed before. */
API_CASE(test_place__refused_by_memory_is_looked_up_by_key)
{
    static const char key[] = "Idempotency-Key: k\n";

    fake.entry.stock_left = 0;
    ASSERT_TEXT(ask(PLACE, NULL, NULL, NULL), "409 sold_out");
    ASSERT_TEXT(ask(PLACE, NULL, key, NULL), UNAUTHENTICATED);
    ASSERT_TEXT(ask(PLACE, SHOPPER, key, NULL), "409 sold_out");
    ASSERT_TEXT(did, LIMITED "find 7 5 \"k\" in 2000;");
    fake.found = VERDICT_REPEATED;
    ASSERT_TEXT(ask(PLACE, SHOPPER, key, NULL), "200 " ORDER);
    fake.found = VERDICT_ALREADY_ORDERED;
    ASSERT_TEXT(ask(PLACE, SHOPPER, key, NULL), "409 already_ordered 71");
    ASSERT_NUMBER(metrics.outcomes[OUTCOME_SOLD_OUT], ==, 2);
    fake.status = RLOCK_IO;
    ASSERT_TEXT(ask(PLACE, SHOPPER, key, NULL), "503" RETRY " unavailable");
    fake.pending = 11;
    ASSERT_TEXT(ask(PLACE, SHOPPER, key, NULL), "503" RETRY " overloaded");
    fake.entry.exists = false;
    ASSERT_TEXT(ask(PLACE, SHOPPER, key, NULL), "404 not_found");
    ASSERT_TEXT(did, "");
}

/* -- lotteries -- */

/* A key has no effect, because a repeated entry changes nothing. */
API_CASE(test_place__enters_a_lottery)
{
    static const char key[] = "Idempotency-Key: k\n";

    fake.entry.is_lottery = true;
    fake.outcome = OUTCOME_ENTERED;
    ASSERT_TEXT(ask(PLACE, SHOPPER, key, NULL),
                "202 Location: /v1/vouchers/7/entry "
                "{\"voucher_id\":\"7\",\"user_id\":\"5\",\"status\":\"entered\"}");
    ASSERT_TEXT(did, LIMITED "submit 7 5 key \"\" entry sent_id=r;");
    fake.entry.end_us = clock_real_us();
    ASSERT_TEXT(ask(PLACE, SHOPPER, key, NULL), "409 sale_ended");
    ASSERT_TEXT(did, "");
}

API_CASE(test_entry__is_entered_won_or_lost)
{
    static const char *const wanted[] = {"entered\"}", "won\",\"hash\":\"aa\"}",
                                         "lost\",\"hash\":\"bb\"}"};

    fake.count = 1;
    for (fake.entry_state = 0; fake.entry_state < 3; fake.entry_state++) {
        char text[120];

        snprintf(text, sizeof(text),
                 "200 {\"voucher_id\":\"7\",\"user_id\":\"5\",\"status\":\"%s",
                 wanted[fake.entry_state]);
        ASSERT_TEXT(ask("GET /v1/vouchers/7/entry", SHOPPER, NULL, NULL), text);
        ASSERT_TEXT(did, LIMITED "read entry 7 5;");
    }
    fake.entry_state = 0;
    fake.count = 0;
    ASSERT_TEXT(ask("GET /v1/vouchers/7/entry", SHOPPER, NULL, NULL), "404 not_found");
    fake.status = RLOCK_DOWN;
    ASSERT_TEXT(ask("GET /v1/vouchers/7/entry", SHOPPER, NULL, NULL),
                "503" RETRY " unavailable");
}

/* -- tickets -- */

API_CASE(test_tickets__are_issued_and_required)
{
    char header[100], twice[200];
    char *text;

    fake.entry.requires_ticket = true;
    ASSERT_TEXT(ask(PLACE, SHOPPER, NULL, NULL), "403 ticket_required");
    ASSERT_TEXT(did, LIMITED);
    ASSERT_CONTAINS(ask("POST /v1/vouchers/7/ticket", SHOPPER, NULL, NULL),
                    "201 {\"ticket\":\"");
    ASSERT_CONTAINS(answer, "\",\"expires_at\":\"2023-11-14T22:14:25Z\"}");
    ASSERT_NUMBER(strlen(strstr(answer, "\":\"") + 3), ==,
                  32 + strlen("\",\"expires_at\":\"2023-11-14T22:14:25Z\"}"));
    text = strstr(answer, "\":\"") + 3;
    snprintf(header, sizeof(header), "Purchase-Ticket: %.32s\n", text);
    ask(PLACE, SHOPPER, header, NULL);
    ASSERT_TEXT(did, LIMITED "submit 7 5 key \"\" ticket sent_id=r;");
    ASSERT_TEXT(ask(PLACE, "shopper 6", header, NULL), "403 ticket_required");
    snprintf(twice, sizeof(twice), "%s%s", header, header);
    ASSERT_TEXT(ask(PLACE, SHOPPER, twice, NULL), "403 ticket_required");
    ASSERT_TEXT(ask("POST /v1/vouchers/7/ticket", NULL, NULL, NULL), UNAUTHENTICATED);
    ASSERT_CONTAINS(ask("POST /v1/vouchers/7/ticket", SHOPPER, NULL, "1"), "400 ");
    fake.entry.stock_left = 0;
    ASSERT_TEXT(ask("POST /v1/vouchers/7/ticket", SHOPPER, NULL, NULL), "409 sold_out");
    fake.entry.stock_left = 1;
    api->options.tickets.secret = "";
    ASSERT_TEXT(ask("POST /v1/vouchers/7/ticket", SHOPPER, NULL, NULL), "404 not_found");
}

API_CASE(test_tickets__may_need_a_proof_of_work)
{
    static const char path[] = "POST /v1/vouchers/7/ticket";
    char challenge[TICKET_BYTES], body[200];

    fake.entry.pow_bits = 1;
    ASSERT_CONTAINS(ask(path, SHOPPER, NULL, NULL), "200 {\"challenge\":\"");
    ASSERT_CONTAINS(answer, "\",\"algorithm\":\"sha256\",\"bits\":1,\"expires_at\":"
                            "\"2023-11-14T22:14:25Z\"}");
    snprintf(challenge, sizeof(challenge), "%s", strstr(answer, "\":\"") + 3);
    for (int nonce = 0; nonce < 64; nonce++) {
        char digits[12];
        bool is_proof;

        snprintf(digits, sizeof(digits), "%d", nonce);
        is_proof = ticket_is_proof((struct text){challenge, 32},
                                   (struct text){digits, strlen(digits)}, 1);
        snprintf(body, sizeof(body), "{\"challenge\":\"%s\",\"nonce\":\"%d\"}", challenge,
                 nonce);
        ask(path, SHOPPER, NULL, body);
        if (is_proof)
            ASSERT_CONTAINS(answer, "201 {\"ticket\":\"");
        else
            ASSERT_TEXT(answer, "422 invalid: nonce does not solve the challenge");
    }
    ASSERT_TEXT(ask(path, "shopper 6", NULL, body),
                "422 invalid: challenge must be an unexpired challenge of this shopper "
                "for this voucher");
    ASSERT_TEXT(ask(path, SHOPPER, NULL,
                    "{\"challenge\":\"" KEY_64 "\",\"nonce\":\"" KEY_64 "5\"}"),
                "422 invalid: challenge must be a text of 1 to 32 characters"
                ": nonce must be a text of 1 to 64 characters");
    ASSERT_TEXT(ask(path, SHOPPER, NULL, "{\"challenge\":\"\",\"nonce\":\"\"}"),
                "422 invalid: challenge must be a text of 1 to 32 characters"
                ": nonce must be a text of 1 to 64 characters");
    ASSERT_TEXT(ask(path, SHOPPER, NULL, "{}"),
                "422 invalid: challenge is required: nonce is required");
    fake.entry.pow_bits = 0; /* no work is required any more, but was done */
    ASSERT_CONTAINS(ask(path, SHOPPER, NULL, body), "201 {\"ticket\":\"");
    ASSERT_TEXT(ask(path, SHOPPER, NULL, "{\"quantity\":3}"),
                "422 invalid: challenge is required: nonce is required"
                ": quantity unknown field");
}

API_CASE(test_tickets__a_challenge_comes_before_the_sale_opens)
{
    static const char path[] = "POST /v1/vouchers/7/ticket";
    static const char body[] = "{\"challenge\":\"c\",\"nonce\":\"1\"}";
    int64_t ttl_us = api->options.tickets.ttl_s * INT64_C(1000000);

    fake.entry.pow_bits = 1;
    /* A challenge would expire before the sale opens. */
    fake.entry.begin_us = clock_real_us() + ttl_us;
    ASSERT_TEXT(ask(path, SHOPPER, NULL, NULL), "409 Retry-After: 60 not_started");
    ASSERT_TEXT(did, "");
    fake.entry.begin_us -= 1000000;
    ASSERT_CONTAINS(ask(path, SHOPPER, NULL, NULL), "200 {\"challenge\":\"");
    ASSERT_TEXT(ask(path, NULL, NULL, NULL), UNAUTHENTICATED);
    ASSERT_TEXT(ask(path, SHOPPER, NULL, body), "409 Retry-After: 59 not_started");
    ASSERT_TEXT(ask(PLACE, SHOPPER, NULL, NULL), "409 Retry-After: 59 not_started");
    /* Without work, a ticket is given only when the sale is open. */
    fake.entry.pow_bits = 0;
    ASSERT_TEXT(ask(path, SHOPPER, NULL, NULL), "409 Retry-After: 59 not_started");
}

/* -- changes of orders -- */

API_CASE(test_life__changes_an_order_that_was_read)
{
    /* clang-format off */
    static const struct row rows[] = {
        {"POST /v1/orders/71/cancel", SHOPPER, NULL, NULL, READ "cancel 7 71 by shopper:5 in 2000;invalidate 7;", "200 " ORDER},
        {"POST /v1/orders/71/cancel", ADMIN, NULL, NULL, "read order 71 of 0;cancel 7 71 by admin:1 in 2000;invalidate 7;", "200 " ORDER},
        {"POST /v1/orders/71/refund", PAYMENT, NULL, NULL, "read order 71 of 0;refund 7 71 by payment:3 in 2000;invalidate 7;", "200 " ORDER},
        {"POST /v1/orders/71/redeem", ADMIN, NULL, NULL, "read order 71 of 0;redeem 7 71 by admin:1 in 2000;invalidate 7;", "200 " ORDER},
        {"POST /v1/orders/71/pay", PAYMENT, NULL, "{\"payment_ref\":\"r\",\"amount_cents\":100}",
         "read order 71 of 0;pay 7 71 by payment:3 \"r\" 100 in 2000;invalidate 7;", "200 " ORDER},
        {"POST /v1/orders/71/pay", PAYMENT, NULL, "{\"payment_ref\":\"" REF_200 "\",\"amount_cents\":1000000000000}", NULL, "200 " ORDER},
        {"POST /v1/orders/71/pay", PAYMENT, NULL, "{\"payment_ref\":\"" REF_200 "1\",\"amount_cents\":1000000000001}", "",
         "422 invalid: payment_ref must be a text of 1 to 200 characters"
         ": amount_cents must be a whole number from 0 to 1000000000000"},
        {"POST /v1/orders/71/pay", PAYMENT, NULL, "{\"payment_ref\":\"\xc3\xa4" REF_200 "\",\"amount_cents\":-1}", "",
         "422 invalid: payment_ref must be a text of 1 to 200 characters"
         ": amount_cents must be a whole number from 0 to 1000000000000"},
        {"POST /v1/orders/71/pay", PAYMENT, NULL, "{\"payment_ref\":\"\xc3\xa4" KEY_64 KEY_64 KEY_64 "0123456\",\"amount_cents\":0}", "",
         "422 invalid: payment_ref must not exceed 200 bytes"},
        {"POST /v1/orders/71/pay", PAYMENT, NULL, "{\"payment_ref\":\"\",\"amount_cents\":0}", "",
         "422 invalid: payment_ref must be a text of 1 to 200 characters"},
        {"POST /v1/orders/71/pay", PAYMENT, NULL, "{}", "", "422 invalid: payment_ref is required: amount_cents is required"},
    };
    /* clang-format on */

    ASSERT_ROWS(rows);
}

API_CASE(test_life__answers_each_verdict)
{
    static const char pay[] = "{\"payment_ref\":\"r\",\"amount_cents\":99}";
    /* clang-format off */
    static const struct {
        enum change_verdict verdict;
        const char *answer, *code; /* code: in the log line of a refused payment */
    } rows[] = {
        {CHANGE_DONE, "200 " ORDER, NULL},
        {CHANGE_REPEATED, "200 " ORDER, NULL},
        {CHANGE_WRONG_STATE, "409 wrong_state", "wrong_state"},
        {CHANGE_WRONG_AMOUNT, "409 wrong_amount", "wrong_amount"},
        {CHANGE_NO_ORDER, "404 not_found", NULL},
        {CHANGE_REF_USED, "409 payment_ref_used", "payment_ref_used"},
        {CHANGE_KEY_USED, "422 invalid: Idempotency-Key belongs to another request of this user", NULL},
    };
    /* clang-format on */

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char logged[200] = "";

        fake.verdict = rows[i].verdict;
        ASSERT_TEXT(ask("POST /v1/orders/71/pay", PAYMENT, NULL, pay), rows[i].answer);
        if (rows[i].code != NULL)
            snprintf(
                logged, sizeof(logged),
                "log payment_refused request_id=r order_id=71 user_id=5 amount_cents=99"
                " code=%s status=unpaid payment_ref=\"~r\";",
                rows[i].code);
        ASSERT_CONTAINS(did, logged);
        ASSERT_NUMBER(strstr(did, "log ") != NULL, ==, rows[i].code != NULL);
        ASSERT_TEXT(ask("POST /v1/orders/71/refund", PAYMENT, NULL, NULL),
                    rows[i].answer);
        assert_null(strstr(did, "log "));
    }
}

/* The cell is split while the request is under way. */
API_CASE(test_life__says_that_the_voucher_has_moved)
{
    static const struct {
        enum change_verdict verdict;
        const char *answer;
    } rows[] = {{CHANGE_NO_ORDER, "421 misdirected"},
                {CHANGE_WRONG_STATE, "409 wrong_state"}};

    fake.is_split = true;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        fake.is_foreign = false;
        fake.verdict = rows[i].verdict;
        ASSERT_TEXT(ask("POST /v1/orders/71/refund", PAYMENT, NULL, NULL),
                    rows[i].answer);
    }
}

/* -- the feed -- */

#define FEED_ITEM(id, more)                                                              \
    "{\"id\":\"" id "\",\"voucher_id\":\"7\",\"at\":\"1970-01-01T00:00:00Z\","           \
    "\"stock_change\":0,\"actor\":\"system\"}" more
#define BAD_CURSOR "400 bad_request: after must be a next_cursor of this list."
#define BAD_WAIT   "400 bad_request: wait_s must be one integer, 0 or greater."
#define ONE_CHANGE                                                                       \
    "200 {\"items\":[" FEED_ITEM("75497479", "") "],\"next_cursor\":\"70_72\"}"

API_CASE(test_feed__reads_behind_the_cursor)
{
    /* clang-format off */
    static const struct row rows[] = {
        {"GET /v1/events", ADMIN, NULL, NULL, "feed 0 0 20 for 0;", ONE_CHANGE},
        {"GET /v1/events?after=0_0&wait_s=0&limit=1", AUDITOR, NULL, NULL, "feed 0 0 1 for 0;", ONE_CHANGE},
        {"GET /v1/events?after=70_72&wait_s=30&limit=100", ADMIN, NULL, NULL, "feed 70 72 100 for 30000;", ONE_CHANGE},
        {"GET /v1/events?after=8796093022207_8796093022207", ADMIN, NULL, NULL, "feed 8796093022207 8796093022207 20 for 0;", ONE_CHANGE},
        {"GET /v1/events?after=8796093022207_8796093022208", ADMIN, NULL, NULL, "", BAD_CURSOR},
        {"GET /v1/events?after=70", ADMIN, NULL, NULL, "", BAD_CURSOR},
        {"GET /v1/events?after=_70", ADMIN, NULL, NULL, "", BAD_CURSOR},
        {"GET /v1/events?after=70_", ADMIN, NULL, NULL, "", BAD_CURSOR},
        {"GET /v1/events?after=", ADMIN, NULL, NULL, "", BAD_CURSOR},
        {"GET /v1/events?after=x_70", ADMIN, NULL, NULL, "", BAD_CURSOR},
        {"GET /v1/events?after=72_70", ADMIN, NULL, NULL, "", BAD_CURSOR},
        {"GET /v1/events?after=70_72&after=70_72", ADMIN, NULL, NULL, "", BAD_CURSOR},
        {"GET /v1/events?wait_s=31", ADMIN, NULL, NULL, "", "422 invalid: wait_s must be 0 to 30"},
        {"GET /v1/events?wait_s=x", ADMIN, NULL, NULL, "", BAD_WAIT},
        {"GET /v1/events?wait_s=0&wait_s=0", ADMIN, NULL, NULL, "", BAD_WAIT},
        {"GET /v1/events?limit=101", ADMIN, NULL, NULL, "", "422 invalid: limit must be 1 to 100"},
        {"GET /v1/events?cursor=70_72", ADMIN, NULL, NULL, "", "400 bad_request: Unknown query parameter: cursor."},
    };
    /* clang-format on */

    ASSERT_ROWS(rows);
}

API_CASE(test_feed__names_the_next_cursor)
{
    fake.count = 2;
    ask("GET /v1/events?after=69_69", ADMIN, NULL, NULL);
    ASSERT_CONTAINS(answer, FEED_ITEM("75497479", ",")
                                FEED_ITEM("76546055", "]") ",\"next_cursor\":\"71_73\"}");
    fake.count = 0;
    ASSERT_TEXT(ask("GET /v1/events?after=69_71", ADMIN, NULL, NULL),
                "200 {\"items\":[],\"next_cursor\":\"69_71\"}");
    ASSERT_TEXT(ask("GET /v1/events", ADMIN, NULL, NULL),
                "200 {\"items\":[],\"next_cursor\":\"0_0\"}");
    fake.is_gone = true;
    ask("GET /v1/events", ADMIN, NULL, NULL);
    ASSERT_TEXT(did, "feed 0 0 20 for 0 gone;");
    fake.count = 3;
    ASSERT_TEXT(ask("GET /v1/events", ADMIN, NULL, NULL),
                "503 Retry-After: 1 overloaded");
    fake.count = 0;
    fake.status = RLOCK_IO;
    ASSERT_TEXT(ask("GET /v1/events", ADMIN, NULL, NULL),
                "503 Retry-After: 1 unavailable");
}

API_CASE(test_keys__reach_the_store)
{
    /* clang-format off */
    static const struct row rows[] = {
        {"POST /v1/orders/71/cancel", SHOPPER, "Idempotency-Key: a ~\n", NULL, READ "cancel 7 71 by shopper:5 in 2000 key \"a ~\";invalidate 7;", "200 " ORDER},
        {"POST /v1/orders/71/pay", PAYMENT, "Idempotency-Key: k\n", "{\"payment_ref\":\"r\",\"amount_cents\":100}",
         "read order 71 of 0;pay 7 71 by payment:3 \"r\" 100 in 2000 key \"k\";invalidate 7;", "200 " ORDER},
        {"POST /v1/orders/71/cancel", SHOPPER, "Idempotency-Key: " KEY_64 "5\n", NULL, LIMITED, BAD_KEY},
        {"POST /v1/orders/71/pay", PAYMENT, "Idempotency-Key: \n", "{}", "", BAD_KEY},
        {"POST /v1/vouchers", ADMIN, "Idempotency-Key: a\nIdempotency-Key: a\n", "{}", "", BAD_KEY},
        {"POST /v1/vouchers/7/restock", ADMIN, "Idempotency-Key: \n", "{\"add\":1}", "", BAD_KEY},
    };
    /* clang-format on */

    ASSERT_ROWS(rows);
    ask("POST /v1/vouchers/7/restock", ADMIN, "Idempotency-Key: k\n", "{\"add\":1}");
    ASSERT_TEXT(did, "restock 7 1 by admin:1 key \"k\";invalidate 7;");
    ask("POST /v1/vouchers", ADMIN, "Idempotency-Key: k\n",
        "{\"title\":\"t\",\"price_cents\":1,\"face_value_cents\":1,\"stock\":1,"
        "\"begin_at\":\"2030-01-01T00:00:00Z\",\"end_at\":\"2030-01-02T00:00:00Z\"}");
    ASSERT_CONTAINS(did, " by admin:1 key \"k\";");
    fake.status = RLOCK_NOT_OWNER;
    ASSERT_TEXT(
        ask("POST /v1/vouchers/7/restock", ADMIN, "Idempotency-Key: k\n", "{\"add\":1}"),
        "422 invalid: Idempotency-Key belongs to another request of this user");
}

/* After a lost connection the outcome of a write is unknown, and the failure is logged. */
API_CASE(test_failures__have_their_answers)
{
    /* clang-format off */
    static const struct {
        const char *of_read, *of_write;
        enum rlock_status status;
        bool is_logged; /* if the call is a write */
    } rows[] = {
        {"404 not_found", "404 not_found", RLOCK_NOT_FOUND, false},
        {"503" RETRY " overloaded", "503" RETRY " overloaded", RLOCK_NO_MEMORY, false},
        {"500 internal", "500 internal", RLOCK_REFUSED, true},
        {"503" RETRY " unavailable", "503" RETRY " unavailable", RLOCK_DOWN, true},
        {"503" RETRY " unavailable", "503" RETRY " unavailable", RLOCK_BUSY, true},
        {"503" RETRY " unavailable", "503" RETRY " outcome_unknown", RLOCK_IO, true},
        {"503" RETRY " unavailable", "503" RETRY " outcome_unknown", RLOCK_TIMEOUT, true},
    };
    /* clang-format on */
    static const char *const reads[] = {
        "GET /v1/orders/71",         "GET /v1/orders?user_id=5",
        "GET /v1/vouchers/7",        "GET /v1/vouchers",
        "GET /v1/vouchers/7/events", "GET /v1/orders/71/events",
        "POST /v1/orders/71/cancel"};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        fake.status = rows[i].status;
        for (size_t j = 0; j < sizeof(reads) / sizeof(reads[0]); j++) {
            ASSERT_TEXT(ask(reads[j], ADMIN, NULL, NULL), rows[i].of_read);
            ASSERT_NUMBER(strstr(did, "log ") != NULL, ==,
                          rows[i].status == RLOCK_REFUSED);
        }
        ASSERT_TEXT(ask("POST /v1/vouchers/7/restock", ADMIN, NULL, "{\"add\":1}"),
                    rows[i].of_write);
        ASSERT_NUMBER(
            strstr(did,
                   "log request_failed request_id=r path=\"~/v1/vouchers/7/restock\"") !=
                NULL,
            ==, rows[i].is_logged);
        ASSERT_TEXT(ask("PATCH /v1/vouchers/7", ADMIN, NULL, "{}"), rows[i].of_write);
    }
    fake.status = RLOCK_OK;
    fake.second = RLOCK_IO;
    ASSERT_TEXT(ask("GET /v1/orders/71/events", SHOPPER, NULL, NULL),
                "503" RETRY " unavailable");
    ASSERT_TEXT(ask("POST /v1/orders/71/cancel", SHOPPER, NULL, NULL),
                "503" RETRY " outcome_unknown");
}

/* -- lists -- */

#define ONE_REQUIRED                                                                     \
    "400 bad_request: One of voucher_id, user_id, order_id and payment_ref is required."
#define BAD_STATUS "400 bad_request: status must be one status of an order."
#define BAD_ORDERS "400 bad_request: orders must be true or false."
#define BAD_REF                                                                          \
    "400 bad_request: payment_ref must be one text of 1 to 200 bytes of UTF-8."

API_CASE(test_lists__read_one_more_than_the_page)
{
    /* clang-format off */
    static const struct row rows[] = {
        {"GET /v1/orders", SHOPPER, NULL, NULL, LIMITED "list orders 5 0 0 20;", "200 {\"items\":[" ORDER "],\"next_cursor\":null}"},
        {"GET /v1/orders?limit=100&voucher_id=7&cursor=90&user_id=5", SHOPPER, NULL, NULL, LIMITED "list orders 5 7 90 100;",
         "200 {\"items\":[" ORDER "],\"next_cursor\":null}"},
        {"GET /v1/orders?user_id=6", SHOPPER, NULL, NULL, LIMITED, "403 forbidden"},
        {"GET /v1/orders?user_id=6", ADMIN, NULL, NULL, "list orders 6 0 0 20;", "200 {\"items\":[" ORDER "],\"next_cursor\":null}"},
        {"GET /v1/orders?voucher_id=7", PAYMENT, NULL, NULL, "list orders 0 7 0 20;", NULL},
        {"GET /v1/orders?order_id=71", ADMIN, NULL, NULL, "list orders 0 0 0 20 id 71;", NULL},
        {"GET /v1/orders?payment_ref=ref:1", ADMIN, NULL, NULL, "list orders 0 0 0 20 ref ref:1;", NULL},
        {"GET /v1/orders?order_id=71&payment_ref=r&status=refunded&created_after=1970-01-01T00:00:02Z&created_before=1970-01-01T00:00:03Z", SHOPPER, NULL, NULL,
         LIMITED "list orders 5 0 0 20 id 71 ref r refunded from 2000000 until 3000000;", NULL},
        {"GET /v1/orders", ADMIN, NULL, NULL, "", ONE_REQUIRED},
        {"GET /v1/orders?status=paid&created_after=2030-01-01T00:00:00Z", PAYMENT, NULL, NULL, "", ONE_REQUIRED},
        {"GET /v1/orders?order_id=x", ADMIN, NULL, NULL, "", "400 bad_request: order_id must be one integer, 1 or greater."},
        {"GET /v1/orders?status=unpaid", SHOPPER, NULL, NULL, LIMITED "list orders 5 0 0 20 unpaid;", "200 {\"items\":[" ORDER "],\"next_cursor\":null}"},
        {"GET /v1/orders?status=lost", SHOPPER, NULL, NULL, LIMITED, BAD_STATUS},
        {"GET /v1/orders?status=", SHOPPER, NULL, NULL, LIMITED, BAD_STATUS},
        {"GET /v1/orders?status=paid&status=paid", SHOPPER, NULL, NULL, LIMITED, BAD_STATUS},
        {"GET /v1/orders?created_after=today", SHOPPER, NULL, NULL, LIMITED, "400 bad_request: created_after must be one RFC 3339 time."},
        {"GET /v1/orders?created_before=2030-01-01", SHOPPER, NULL, NULL, LIMITED, "400 bad_request: created_before must be one RFC 3339 time."},
        {"GET /v1/orders?created_after=2030-01-01T00:00:00Z&created_after=2030-01-01T00:00:00Z", SHOPPER, NULL, NULL, LIMITED,
         "400 bad_request: created_after must be one RFC 3339 time."},
        {"GET /v1/orders?payment_ref=", ADMIN, NULL, NULL, "", BAD_REF},
        {"GET /v1/orders?payment_ref=a\xff", ADMIN, NULL, NULL, "", BAD_REF},
        {"GET /v1/orders?payment_ref=r&payment_ref=r", ADMIN, NULL, NULL, "", BAD_REF},
        {"GET /v1/orders?payment_ref=" REF_200, ADMIN, NULL, NULL, "list orders 0 0 0 20 ref " REF_200 ";",
         "200 {\"items\":[" ORDER "],\"next_cursor\":null}"},
        {"GET /v1/orders?payment_ref=" REF_200 "8", ADMIN, NULL, NULL, "", BAD_REF},
        {"GET /v1/orders?limit=101", SHOPPER, NULL, NULL, LIMITED, "422 invalid: limit must be 1 to 100"},
        {"GET /v1/orders?limit=0", SHOPPER, NULL, NULL, LIMITED, "400 bad_request: limit must be one integer, 1 or greater."},
        {"GET /v1/orders?limit=1&limit=1", SHOPPER, NULL, NULL, LIMITED, "400 bad_request: limit must be one integer, 1 or greater."},
        {"GET /v1/orders?voucher_id=x", SHOPPER, NULL, NULL, LIMITED, "400 bad_request: voucher_id must be one integer, 1 or greater."},
        {"GET /v1/orders?cursor=x", SHOPPER, NULL, NULL, LIMITED, "400 bad_request: cursor must be one integer, 1 or greater."},
        {"GET /v1/orders?user_id=x", SHOPPER, NULL, NULL, LIMITED, "400 bad_request: user_id must be one integer, 1 or greater."},
        {"GET /v1/vouchers/7/events?after=3&limit=2", ADMIN, NULL, NULL, "read voucher 7;list events 7 0 3 3 in 2000;",
         "200 {\"items\":[{\"id\":\"71\",\"voucher_id\":\"7\",\"at\":\"1970-01-01T00:00:00Z\",\"stock_change\":-1,"
         "\"order_id\":\"71\",\"actor\":\"shopper:5\"}],\"next_cursor\":null}"},
        {"GET /v1/orders/71/events", SHOPPER, NULL, NULL, READ "list events 7 71 0 21 in 2000;", NULL},
        {"GET /v1/vouchers/7/events?orders=true", ADMIN, NULL, NULL, "read voucher 7;list events 7 0 0 21 in 2000;", NULL},
        {"GET /v1/vouchers/7/events?orders=false", ADMIN, NULL, NULL, "read voucher 7;list events 7 0 0 21 in 2000 without orders;", NULL},
        {"GET /v1/orders/71/events?after=x", SHOPPER, NULL, NULL, LIMITED, "400 bad_request: after must be one integer, 1 or greater."},
        {"GET /v1/vouchers/7/events?orders=no", ADMIN, NULL, NULL, "", BAD_ORDERS},
        {"GET /v1/vouchers/7/events?orders=true&orders=true", ADMIN, NULL, NULL, "", BAD_ORDERS},
        {"GET /v1/vouchers/7/events?limit=101", ADMIN, NULL, NULL, "", "422 invalid: limit must be 1 to 100"},
    };
    /* clang-format on */
    const char *listed = NULL; /* the last answer in the rows above */

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct row row = rows[i];

        row.answer = listed = row.answer != NULL ? row.answer : listed;
        assert_rows(&row, 1);
    }
    fake.age_s = 0;
    ASSERT_TEXT(ask("GET /v1/orders", SHOPPER, NULL, NULL),
                "200 Age: 0 {\"items\":[" ORDER "],\"next_cursor\":null}");
    fake.count = 2;
    ASSERT_CONTAINS(ask("GET /v1/orders", SHOPPER, NULL, NULL), "},{\"id\":\"70\"");
    ASSERT_CONTAINS(answer, "],\"next_cursor\":null}");
    fake.next_id = 60;
    ASSERT_CONTAINS(ask("GET /v1/orders", SHOPPER, NULL, NULL),
                    "],\"next_cursor\":\"60\"}");
    fake.next_id = 0;
    ASSERT_CONTAINS(ask("GET /v1/vouchers/7/events?limit=1", ADMIN, NULL, NULL),
                    "}],\"next_cursor\":\"71\"}");
    assert_null(strstr(answer, "\"72\""));
    ASSERT_CONTAINS(ask("GET /v1/vouchers/7/events?limit=2", ADMIN, NULL, NULL),
                    ",{\"id\":\"72\",\"voucher_id\":\"7\",\"at\":\"1970-01-01T00:00:"
                    "00Z\",\"stock_change\":0,\"actor\":\"system\"}]"
                    ",\"next_cursor\":null}");
}

/* -- lists as CSV -- */

#define CSV "200 text/csv; charset=utf-8; header=present "
#define CSV_HEAD                                                                         \
    "id,voucher_id,user_id,status,price_cents,created_at,expires_at,paid_at\r\n"
#define CSV_ORDER "71,7,5,unpaid,100,1970-01-01T00:00:00Z,1970-01-01T00:00:01Z,\r\n"
#define EVENT_HEAD                                                                       \
    "id,voucher_id,order_id,at,stock_change,actor,from_status,to_status,detail\r\n"
#define EVENT  "71,7,71,1970-01-01T00:00:00Z,-1,shopper:5,,,\r\n"
#define ACCEPT "Accept: text/csv\n"

API_CASE(test_csv__has_all_pages_of_a_list)
{
    /* clang-format off */
    static const struct row rows[] = {
        {"GET /v1/orders?voucher_id=7&status=paid", ADMIN, ACCEPT, NULL, "list orders 0 7 0 500 paid;", CSV CSV_HEAD CSV_ORDER},
        {"GET /v1/orders", ADMIN, ACCEPT, NULL, "", ONE_REQUIRED},
        {"GET /v1/orders?limit=5", SHOPPER, ACCEPT, NULL, LIMITED, "400 bad_request: A list as text/csv has no limit."},
        {"GET /v1/vouchers/7/events?after=3", ADMIN, ACCEPT, NULL, "read voucher 7;list events 7 0 3 501 in 2000;", CSV EVENT_HEAD EVENT},
        {"GET /v1/orders/71/events", SHOPPER, "Accept: application/json, text/csv;q=0.5\n", NULL, READ "list events 7 71 0 501 in 2000;", CSV EVENT_HEAD EVENT},
        {"GET /v1/vouchers/7/events?limit=5", ADMIN, ACCEPT, NULL, "", "400 bad_request: A list as text/csv has no limit."},
    };
    /* clang-format on */

    ASSERT_ROWS(rows);
    fake.next_id = 60;
    ASSERT_TEXT(ask("GET /v1/orders?user_id=5&payment_ref=r", ADMIN, ACCEPT, NULL),
                CSV CSV_HEAD CSV_ORDER "|" CSV_ORDER);
    ASSERT_TEXT(did, "list orders 5 0 0 500 ref r;list orders 5 0 60 500 ref r;");
    fake.has_many_events = true;
    ask("GET /v1/vouchers/7/events", ADMIN, ACCEPT, NULL);
    ASSERT_TEXT(
        did,
        "read voucher 7;list events 7 0 0 501 in 2000;list events 7 0 570 501 in 2000;");
    ASSERT_CONTAINS(answer, CSV EVENT_HEAD EVENT "72,7,,");
    ASSERT_CONTAINS(answer, ",system,,,\r\n570,7,,");
    ASSERT_CONTAINS(answer, ",system,,,\r\n|" EVENT);
    assert_null(strstr(answer, "571,"));
}

API_CASE(test_entries__are_listed_in_pages)
{
    fake.count = 3;
    ASSERT_TEXT(ask("GET /v1/vouchers/7/entries", NULL, NULL, NULL),
                CSV "hash,won\r\n000,1\r\n001,1\r\n002,0\r\n");
    fake.count = 501;
    ASSERT_CONTAINS(ask("GET /v1/vouchers/7/entries", NULL, NULL, NULL),
                    "\r\n499,0\r\n|000,1\r\n001,1\r\n");
    ASSERT_TEXT(did, "list entries 7 \"\" 501;list entries 7 \"500\" 501;");
    fake.second = RLOCK_DOWN;
    ASSERT_CONTAINS(ask("GET /v1/vouchers/7/entries", NULL, NULL, NULL),
                    "\r\n499,0\r\n|cut");
    fake.status = RLOCK_DOWN;
    ASSERT_TEXT(ask("GET /v1/vouchers/7/entries", NULL, NULL, NULL),
                "503" RETRY " unavailable");
}

/* The last chunk is missing, so the client sees that the list is incomplete. */
API_CASE(test_csv__is_cut_when_a_page_fails)
{
    fake.next_id = 60;
    fake.second = RLOCK_DOWN;
    ASSERT_TEXT(ask("GET /v1/orders?user_id=5", ADMIN, ACCEPT, NULL),
                CSV CSV_HEAD CSV_ORDER "|cut");
    ASSERT_CONTAINS(did, "log request_failed request_id=r path=\"~/v1/orders\"");
    fake.status = RLOCK_DOWN;
    ASSERT_TEXT(ask("GET /v1/orders?user_id=5", ADMIN, ACCEPT, NULL),
                "503" RETRY " unavailable");
}

int main(void)
{
    return cases_run(NULL, NULL);
}
