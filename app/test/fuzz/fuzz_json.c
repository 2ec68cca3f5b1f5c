/* fuzz_json.c - bodies: json_read() accepts only values within the bounds of its table. */
#include "app/api/json.h"
#include "app/test/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

struct target {
    struct text title;
    int64_t number, time_us;
};

static const struct json_field fields[] = {
    {"title", JSON_FIELD_TEXT, true, 1, 20, offsetof(struct target, title)},
    {"number", JSON_FIELD_INTEGER, false, -5, 100, offsetof(struct target, number)},
    {"time", JSON_FIELD_TIME, false, 1, INT64_MAX, offsetof(struct target, time_us)},
    {0}};

static bool is_within_bounds(const struct target *target)
{
    /* a character has up to four bytes */
    return target->title.bytes != NULL && target->title.len >= 1 &&
           target->title.len <= 80 && target->number >= -5 && target->number <= 100 &&
           target->time_us >= 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct target target = {.number = 1, .time_us = 1};
    json_t *document = NULL;
    struct json_errors errors = {0};
    struct text body = {(const char *)data, size};

    enum rlock_status status = json_parse(body, &document);

    if (status == RLOCK_OK)
        json_read(document, fields, &target, &errors);
    if (status == RLOCK_NO_MEMORY ||
        (status == RLOCK_OK && errors.count == 0 && !is_within_bounds(&target)))
        abort();
    if (errors.count > JSON_ERRORS_MAX)
        abort();
    json_decref(document);
    return 0;
}
