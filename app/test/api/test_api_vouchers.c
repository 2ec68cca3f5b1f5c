/* test_api_vouchers.c - reading, writing and listing vouchers, with fake backends. */
#include "app/test/api/api_fixture.h"
#include "test/torture.h"

/* -- vouchers -- */

/* clang-format off */
#define VOUCHER(id, begin, end) \
    "{\"id\":\"" id "\",\"title\":\"T\",\"description\":\"D\",\"price_cents\":0,\"face_value_cents\":0,\"stock_total\":0," \
    "\"stock_left\":0,\"per_user_limit\":0,\"begin_at\":\"1970-01-01T00:00:01" begin "Z\",\"end_at\":" \
    "\"1970-01-01T00:00:02" end "Z\",\"pay_within_s\":0,\"requires_ticket\":false,\"pow_bits\":0," \
    "\"admission\":\"first_come\",\"state\":\"ended\"," \
    "\"server_time\":\"2023-11-14T22:13:25Z\"}"
#define V7 VOUCHER("7", "", "")
#define V8 VOUCHER("8", ".000001", ".000001")
#define CREATE "{\"title\":\"T\",\"begin_at\":\"1970-01-01T00:00:01Z\",\"end_at\":\"1970-01-01T00:00:02Z\"" \
    ",\"price_cents\":1,\"face_value_cents\":2,\"stock\":3"
/* clang-format on */
#define WRITE_VOUCHER "POST /v1/vouchers"
#define PATCH_VOUCHER "PATCH /v1/vouchers/7"
#define RESTOCK       "POST /v1/vouchers/7/restock"
#define BAD_COUNT                                                                        \
    "400 bad_request: The body must be an object, or an array of 1 to 1000 objects."

API_CASE(test_vouchers__are_written)
{
    /* clang-format off */
    static const struct row rows[] = {
        {WRITE_VOUCHER, ADMIN, NULL, CREATE "}", "create \"T\" \"\" 1 2 3 1 900 1000000 2000000 0 0 by admin:1;invalidate 7;",
         "201 Location: /v1/vouchers/7 " V7},
        {WRITE_VOUCHER, ADMIN, NULL, CREATE ",\"description\":\"D\",\"per_user_limit\":100,\"pay_within_s\":2592000,"
         "\"requires_ticket\":true,\"pow_bits\":32}",
         "create \"T\" \"D\" 1 2 3 100 2592000 1000000 2000000 1 32 by admin:1;invalidate 7;", "201 Location: /v1/vouchers/7 " V7},
        {WRITE_VOUCHER, ADMIN, NULL, CREATE ",\"admission\":\"lottery\"}",
         "create \"T\" \"\" 1 2 3 1 900 1000000 2000000 0 0 lottery by admin:1;invalidate 7;", "201 Location: /v1/vouchers/7 " V7},
        {WRITE_VOUCHER, ADMIN, NULL, CREATE ",\"admission\":\"first_come\",\"per_user_limit\":2}",
         "create \"T\" \"\" 1 2 3 2 900 1000000 2000000 0 0 by admin:1;invalidate 7;", "201 Location: /v1/vouchers/7 " V7},
        {WRITE_VOUCHER, ADMIN, NULL, CREATE ",\"admission\":\"lot\"}", "", "422 invalid: admission must be first_come or lottery"},
        {WRITE_VOUCHER, ADMIN, NULL, CREATE ",\"admission\":\"lottery\",\"per_user_limit\":2}", "",
         "422 invalid: per_user_limit must be 1 in a lottery"},
        {PATCH_VOUCHER, ADMIN, NULL, "{\"admission\":\"lottery\"}", "", "422 invalid: admission unknown field"},
        {WRITE_VOUCHER, ADMIN, NULL, "{}", "", "422 invalid: title is required: begin_at is required: end_at is required"
         ": price_cents is required: face_value_cents is required: stock is required"},
        {WRITE_VOUCHER, ADMIN, NULL, CREATE ",\"per_user_limit\":101,\"pay_within_s\":2592001,\"requires_ticket\":1,\"pow_bits\":33}", "",
         "422 invalid: pay_within_s must be a whole number from 1 to 2592000: requires_ticket must be true or false"
         ": pow_bits must be a whole number from 0 to 32: per_user_limit must be a whole number from 1 to 100"},
        {WRITE_VOUCHER, ADMIN, NULL, "{\"title\":\"\",\"begin_at\":\"1970-01-01T00:00:00Z\",\"end_at\":\"1970-01-01T00:00:00Z\""
         ",\"price_cents\":-1,\"face_value_cents\":-1,\"stock\":-1,\"per_user_limit\":0,\"pay_within_s\":0,\"pow_bits\":-1}", "",
         "422 invalid: title must be a text of 1 to 200 characters"
         ": begin_at must be a time from 1970 to 9999, such as 2030-01-01T00:00:00Z"
         ": end_at must be a time from 1970 to 9999, such as 2030-01-01T00:00:00Z"
         ": pay_within_s must be a whole number from 1 to 2592000: pow_bits must be a whole number from 0 to 32"
         ": price_cents must be a whole number from 0 to 1000000000000: face_value_cents must be a whole number from 0 to 1000000000000"
         ": stock must be a whole number from 0 to 100000000: per_user_limit must be a whole number from 1 to 100"},
        {WRITE_VOUCHER, ADMIN, NULL, "{\"title\":\"T\",\"begin_at\":\"1970-01-01T00:00:01Z\",\"end_at\":\"1970-01-01T00:00:01Z\""
         ",\"price_cents\":1,\"face_value_cents\":2,\"stock\":3}", "", "422 invalid: end_at must be after begin_at"},
        {WRITE_VOUCHER, ADMIN, BODY "text/plain\n", CREATE "}", "", "415 unsupported_media_type"},
        {WRITE_VOUCHER, ADMIN, BODY "application/jsonx\n", CREATE "}", "", "415 unsupported_media_type"},
        {WRITE_VOUCHER, ADMIN, BODY "application/jso\n", CREATE "}", "", "415 unsupported_media_type"},
        {WRITE_VOUCHER, ADMIN, BODY "application/yaml;charset=utf-8\n", CREATE "}", "", "415 unsupported_media_type"},
        {WRITE_VOUCHER, ADMIN, BODY "Application/JSON; charset=utf-8\n", "{", "", BAD_BODY},
        {WRITE_VOUCHER, ADMIN, BODY "application/json;charset=utf-8\n", "{", "", BAD_BODY},
        {WRITE_VOUCHER, ADMIN, BODY "application/json ;charset=utf-8\n", "{", "", BAD_BODY},
        {WRITE_VOUCHER, ADMIN, BODY "application/json\n" BODY "application/json\n", CREATE "}", "",
         "400 bad_request: Content-Type must not be repeated."},
        {WRITE_VOUCHER, ADMIN, NULL, NULL, "", "415 unsupported_media_type"},
        {PATCH_VOUCHER, ADMIN, NULL, "{}", "patch 7 \"\" \"\" 0 0 0 0 0 0 0 -1 -1 by admin:1;invalidate 7;", "200 " V7},
        {PATCH_VOUCHER, ADMIN, NULL, "{\"title\":\"T\",\"requires_ticket\":false,\"pow_bits\":0,\"end_at\":\"1970-01-01T00:00:01Z\"}",
         "patch 7 \"T\" \"\" 0 0 0 0 0 0 1000000 0 0 by admin:1;invalidate 7;", "200 " V7},
        {PATCH_VOUCHER, ADMIN, NULL, "{\"stock\":1}", "", "422 invalid: stock unknown field"},
        {RESTOCK, ADMIN, NULL, "{\"add\":100000000}", "restock 7 100000000 by admin:1;invalidate 7;", "200 " V7},
        {RESTOCK, ADMIN, NULL, "{\"add\":-100000000}", "restock 7 -100000000 by admin:1;invalidate 7;", "200 " V7},
        {RESTOCK, ADMIN, NULL, "{\"add\":100000001}", "", "422 invalid: add must be a whole number from -100000000 to 100000000"},
        {RESTOCK, ADMIN, NULL, "{\"add\":-100000001}", "", "422 invalid: add must be a whole number from -100000000 to 100000000"},
        {RESTOCK, ADMIN, NULL, "{}", "", "422 invalid: add is required"},
    };
    /* clang-format on */

    ASSERT_ROWS(rows);
    api->options.tickets.secret = "";
    ASSERT_TEXT(
        ask(WRITE_VOUCHER, ADMIN, NULL, CREATE ",\"requires_ticket\":true}"),
        "422 invalid: requires_ticket requires SECKILL_TICKET_SECRET, which is not set");
    ASSERT_TEXT(
        ask(PATCH_VOUCHER, ADMIN, NULL, "{\"requires_ticket\":true}"),
        "422 invalid: requires_ticket requires SECKILL_TICKET_SECRET, which is not set");
    ASSERT_TEXT(ask(PATCH_VOUCHER, ADMIN, NULL, "{\"requires_ticket\":false}"),
                "200 " V7);
    fake.status = RLOCK_INVALID; /* as if a constraint of the table were violated */
    ASSERT_TEXT(ask(WRITE_VOUCHER, ADMIN, NULL, CREATE "}"),
                "422 invalid: end_at must be after begin_at");
    ASSERT_TEXT(ask(RESTOCK, ADMIN, NULL, "{\"add\":1}"),
                "422 invalid: add must not raise the total above 100000000");
    ASSERT_TEXT(ask(RESTOCK, ADMIN, NULL, "{\"add\":0}"), "409 insufficient_stock");
}

API_CASE(test_vouchers__are_created_together)
{
    /* clang-format off */
    static const struct row rows[] = {
        {WRITE_VOUCHER, ADMIN, "Idempotency-Key: k\n", "[" CREATE "}," CREATE ",\"pow_bits\":9}]",
         "create \"T\" \"\" 1 2 3 1 900 1000000 2000000 0 0 \"T\" \"\" 1 2 3 1 900 1000000 2000000 0 9 by admin:1 key \"k\";"
         "invalidate 7;invalidate 8;",
         "201 {\"items\":[" V7 "," V8 "],\"next_cursor\":null}"},
        {WRITE_VOUCHER, ADMIN, NULL, "[" CREATE "}," CREATE ",\"stock\":-1,\"x\":1,\"requires_ticket\":true}]", "",
         "400 bad_request: The body must be a JSON object or array without duplicate names."},
        {WRITE_VOUCHER, ADMIN, NULL, "[" CREATE "}," CREATE ",\"pow_bits\":33,\"x\":1}]", "",
         "422 invalid: 1.pow_bits must be a whole number from 0 to 32: 1.x unknown field"},
        {WRITE_VOUCHER, ADMIN, NULL, "[" CREATE "},{\"title\":\"T\",\"begin_at\":\"1970-01-01T00:00:01Z\""
         ",\"end_at\":\"1970-01-01T00:00:01Z\",\"price_cents\":1,\"face_value_cents\":2,\"stock\":3}]", "",
         "422 invalid: 1.end_at must be after begin_at"},
        {WRITE_VOUCHER, ADMIN, NULL, "[" CREATE "},7]", "",
         "422 invalid: 1.title is required: 1.begin_at is required: 1.end_at is required"
         ": 1.price_cents is required: 1.face_value_cents is required: 1.stock is required"},
        {WRITE_VOUCHER, ADMIN, NULL, "[]", "", BAD_COUNT},
    };
    /* clang-format on */

    fake.count = 2;
    ASSERT_ROWS(rows);
}

API_CASE(test_vouchers__are_created_up_to_a_thousand_at_once)
{
    static char body[1001 * sizeof(CREATE "},")];
    char *end = stpcpy(body, "[");

    for (int i = 0; i < 1000; i++)
        end = stpcpy(end, i > 0 ? "," CREATE "}" : CREATE "}");
    stpcpy(end, "]");
    ASSERT_BEGINS(ask(WRITE_VOUCHER, ADMIN, NULL, body), "201 ");
    stpcpy(end, "," CREATE "}]");
    ASSERT_TEXT(ask(WRITE_VOUCHER, ADMIN, NULL, body), BAD_COUNT);
}

static const char *body_of(const char *text)
{
    const char *at = strchr(text, '{');

    return at != NULL ? at : text;
}

static void assert_list(const char *line, const char *wanted_did, const char *wanted_body)
{
    ask(line, NULL, NULL, NULL);
    ASSERT_TEXT(did, wanted_did);
    ASSERT_TEXT(body_of(answer), wanted_body);
}

API_CASE(test_vouchers__are_listed)
{
    static const char bad_cursor[] =
        "400 bad_request: cursor must be a next_cursor of this list.";
    static const char bad_state[] =
        "400 bad_request: state must be upcoming, open or ended.";
#define ONE "{\"items\":[" V7 "],\"next_cursor\":null}"

    assert_list("GET /v1/vouchers", "list vouchers 0 0 0 21;", ONE);
    assert_list("GET /v1/vouchers?limit=1&cursor=0_9", "list vouchers 0 0 9 2;", ONE);
    assert_list("GET /v1/vouchers?state=upcoming&cursor=8_9", "list vouchers 1 8 9 21;",
                ONE);
    assert_list("GET /v1/vouchers?state=open", "list vouchers 2 0 0 21;", ONE);
    assert_list("GET /v1/vouchers?state=ended&limit=100", "list vouchers 3 0 0 101;",
                ONE);
    assert_list("GET /v1/vouchers?limit=101", "", "422 invalid: limit must be 1 to 100");
    assert_list("GET /v1/vouchers?state=x", "", bad_state);
    assert_list("GET /v1/vouchers?state=open&state=open", "", bad_state);
    assert_list("GET /v1/vouchers?cursor=0_9&cursor=0_9", "", bad_cursor);
    assert_list("GET /v1/vouchers?cursor=8_9", "", bad_cursor);
    assert_list("GET /v1/vouchers?cursor=09", "", bad_cursor);
    assert_list("GET /v1/vouchers?cursor=019", "", bad_cursor);
    assert_list("GET /v1/vouchers?cursor=0_", "", bad_cursor);
    assert_list("GET /v1/vouchers?state=open&cursor=0_9", "", bad_cursor);
    assert_list("GET /v1/vouchers?state=open&cursor=x_9", "", bad_cursor);
    assert_list("GET /v1/vouchers?state=open&cursor=9", "", bad_cursor);
    fake.count = 2;
    assert_list("GET /v1/vouchers?limit=2", "list vouchers 0 0 0 3;",
                "{\"items\":[" V7 "," V8 "],\"next_cursor\":null}");
    fake.count = 3;
    assert_list("GET /v1/vouchers?limit=2", "list vouchers 0 0 0 3;",
                "{\"items\":[" V7 "," V8 "],\"next_cursor\":\"0_8\"}");
    assert_list("GET /v1/vouchers?limit=2&state=upcoming", "list vouchers 1 0 0 3;",
                "{\"items\":[" V7 "," V8 "],\"next_cursor\":\"1000001_8\"}");
    assert_list("GET /v1/vouchers?limit=2&state=ended", "list vouchers 3 0 0 3;",
                "{\"items\":[" V7 "," V8 "],\"next_cursor\":\"2000001_8\"}");
    ask("GET /v1/vouchers/7", NULL, NULL, NULL);
    ASSERT_TEXT(did, "read voucher 7;");
    ASSERT_TEXT(body_of(answer), V7);
}

static void no_turn(void)
{
}

static void assert_tags(const char *a, const char *b, bool are_equal)
{
    if ((strcmp(a, b) == 0) != are_equal)
        fail_msg("tags %s and %s: expected equal %d", a, b, are_equal);
}

/* The tag must change when the set of vouchers changes, when the version of a voucher changes, and
   when another second begins. */
API_CASE(test_vouchers__have_tags_and_ages)
{
    char tags[6][60];

    for (int i = 0; i < 6; i++) {
        fake.voucher.id += i == 1;
        fake.voucher.version += i == 2;
        fake.count += i == 3;
        simulated_time_pass_us(i == 4 ? 1000000 : i == 5 ? 999999 : 0, no_turn);
        ask("GET /v1/vouchers", NULL, NULL, NULL);
        ASSERT_CONTAINS(answer, "200 ETag: W/\"");
        ASSERT_CONTAINS(answer, "\" Cache-Control: public, max-age=1 {");
        snprintf(tags[i], sizeof(tags[i]), "%.30s", answer);
        for (int j = 0; j < i; j++)
            assert_tags(tags[i], tags[j], i == 5 && j == 4);
    }
    fake.age_s = 3;
    ASSERT_CONTAINS(ask("GET /v1/vouchers", NULL, NULL, NULL),
                    " Age: 3 Cache-Control: public, max-age=4 {");
    fake.age_s = 0;
    ASSERT_CONTAINS(ask("GET /v1/vouchers", NULL, NULL, NULL),
                    " Age: 0 Cache-Control: public, max-age=1 {");
    assert_null(strstr(ask("GET /v1/vouchers/7", NULL, NULL, NULL), "Age: 0"));
}

static void answer_held(size_t at)
{
    struct voucher voucher = fake.voucher;

    fake.held[at](RLOCK_OK, &voucher, 1, clock_real_us(), fake.held_args[at]);
}

static void assert_starts_a_read(const char *line, size_t reads)
{
    ask(line, NULL, NULL, NULL);
    if (fake.held_count != reads)
        fail_msg("%s: expected %zu reads, got %zu", line, reads, fake.held_count);
}

API_CASE(test_vouchers__are_refused_without_memory)
{
    torture_fail(2, 0); /* the first allocation is one of the fixture */
    ASSERT_TEXT(ask(WRITE_VOUCHER, ADMIN, NULL, CREATE "}"),
                "503 Retry-After: 1 overloaded");
    assert_true(torture_stop());
    ASSERT_TEXT(did, "");
}

API_CASE(test_readings__are_refused_without_memory)
{
    torture_fail(2, 0); /* the first allocation is one of the fixture */
    ASSERT_TEXT(ask("GET /v1/vouchers/7", NULL, NULL, NULL),
                "503 Retry-After: 1 overloaded");
    assert_true(torture_stop());
    ASSERT_TEXT(did, "");
}

/* At most one read of a page is under way. Requests that arrive meanwhile share the next read. */
API_CASE(test_readings__are_shared)
{
    static const char *const others[] = {
        "GET /v1/vouchers", "GET /v1/vouchers?limit=19", "GET /v1/vouchers?cursor=0_7",
        "GET /v1/vouchers?state=open", "GET /v1/vouchers?state=open&cursor=8_7",
        "GET /v1/vouchers?state=open&cursor=9_7", "GET /v1/vouchers/8",
        /* these keys fall into the buckets of other keys */
        "GET /v1/vouchers/71", "GET /v1/vouchers?limit=83",
        "GET /v1/vouchers?cursor=0_71"};

    fake.holds_reads = true;
    ask("GET /v1/vouchers/7", NULL, NULL, NULL);
    ASSERT_TEXT(did, "read voucher 7;");
    for (int i = 0; i < 2; i++) {
        ask("GET /v1/vouchers/7", NULL, NULL, NULL);
        ASSERT_TEXT(did, "");
    }
    answers = 0;
    answer_held(0);
    ASSERT_NUMBER(answers, ==, 1);
    ASSERT_TEXT(did, "read voucher 7;");
    ASSERT_NUMBER(fake.held_count, ==, 2);
    answer_held(1);
    ASSERT_NUMBER(answers, ==, 3);
    ASSERT_NUMBER(fake.held_count, ==, 2);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        fake.held_count = 0;
        ask("GET /v1/vouchers/7", NULL, NULL, NULL);
        assert_starts_a_read(others[i], 2);
        for (size_t j = 0; j < i; j++) {
            assert_starts_a_read(others[j], 3);
            answer_held(2);
            fake.held_count = 2;
        }
        answer_held(0);
        answer_held(1);
    }
}

int main(void)
{
    return cases_run(NULL, NULL);
}
