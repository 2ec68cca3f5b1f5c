/* check_read.c - read the table and the histories into memory. */
#include "load/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 8

struct reader {
    const char *path;
    FILE *file;
    char *text; /* the line */
    size_t room;
    uint32_t line;
    char *words[WORDS_MAX];
    size_t count;
};

static _Noreturn void fail(const struct reader *reader, const char *why)
{
    fprintf(stderr, "check: %s:%u: %s\n", reader->path, reader->line, why);
    exit(2); /* NOLINT(concurrency-mt-unsafe): there is one thread */
}

void *grow(void *array, size_t count, size_t size)
{
    if ((count & (count - 1)) != 0)
        return array;
    array = realloc(array, (count == 0 ? 1 : 2 * count) * size);
    if (array == NULL)
        fail(&(struct reader){.path = "check"}, "out of memory");
    return array;
}

static struct reader open_file(const char *path)
{
    struct reader reader = {.path = path, .file = fopen(path, "re")};

    if (reader.file == NULL)
        fail(&reader, "cannot be read");
    return reader;
}

/* Split the next line into words. Returns false if the file has no more lines. */
static bool next_line(struct reader *reader)
{
    ssize_t len = getline(&reader->text, &reader->room, reader->file);
    char *rest = reader->text, *word;

    if (len < 0) {
        free(reader->text);
        fclose(reader->file);
        return false;
    }
    reader->line++;
    if (reader->text[len - 1] != '\n')
        fail(reader, "the last line is incomplete");
    reader->text[len - 1] = '\0';
    reader->count = 0;
    while ((word = strsep(&rest, " ")) != NULL && reader->count < WORDS_MAX)
        reader->words[reader->count++] = word;
    return true;
}

static void expect_words(const struct reader *reader, size_t count)
{
    if (reader->count != count)
        fail(reader, "wrong number of fields");
}

static bool is_word(const struct reader *reader, size_t i, const char *text)
{
    return strcmp(reader->words[i], text) == 0;
}

static int64_t number(const struct reader *reader, size_t i)
{
    char *end;
    int64_t value = strtoll(reader->words[i], &end, 10);

    if (is_word(reader, i, "-"))
        return 0;
    if (end == reader->words[i] || *end != '\0')
        fail(reader, "not a number");
    return value;
}

static void copy_word(const struct reader *reader, size_t i, char to[WORD_BYTES])
{
    if ((size_t)snprintf(to, WORD_BYTES, "%s", reader->words[i]) >= WORD_BYTES)
        fail(reader, "a word is too long");
}

/* -- the table -- */

static void read_voucher(const struct reader *reader)
{
    expect_words(reader, 6);
    input.vouchers = grow(input.vouchers, input.voucher_count, sizeof(*input.vouchers));
    input.vouchers[input.voucher_count++] =
        (struct voucher){.id = number(reader, 1),
                         .begin_us = number(reader, 2),
                         .end_us = number(reader, 3),
                         .limit = number(reader, 4),
                         .left = number(reader, 5)};
}

static void read_row(const struct reader *reader)
{
    struct row *row;

    expect_words(reader, 6);
    input.rows = grow(input.rows, input.row_count, sizeof(*input.rows));
    row = &input.rows[input.row_count++];
    *row = (struct row){.voucher = number(reader, 1),
                        .id = number(reader, 2),
                        .shopper = number(reader, 3),
                        .created_us = number(reader, 4),
                        .end_id = NEVER,
                        .end_us = NEVER,
                        .ended_by_us = NEVER,
                        .acknowledged_us = NEVER};
    copy_word(reader, 5, row->key);
}

static void read_event(const struct reader *reader, enum event_kind kind)
{
    expect_words(reader, 5);
    add_event(&(struct event){.kind = kind,
                              .voucher = number(reader, 1),
                              .id = number(reader, 2),
                              .at_us = number(reader, 3),
                              .order = kind == END ? number(reader, 4) : 0,
                              .change = kind == END ? 1 : number(reader, 4)});
}

static void read_entry(const struct reader *reader)
{
    struct entry *entry;

    expect_words(reader, 4);
    input.entries = grow(input.entries, input.entry_count, sizeof(*input.entries));
    entry = &input.entries[input.entry_count++];
    *entry = (struct entry){.voucher = number(reader, 1),
                            .shopper = number(reader, 2),
                            .has_won = number(reader, 3) != 0};
}

void read_table(const char *path)
{
    struct reader reader = open_file(path);

    while (next_line(&reader)) {
        if (is_word(&reader, 0, "voucher"))
            read_voucher(&reader);
        else if (is_word(&reader, 0, "order"))
            read_row(&reader);
        else if (is_word(&reader, 0, "end"))
            read_event(&reader, END);
        else if (is_word(&reader, 0, "stock"))
            read_event(&reader, STOCK);
        else if (is_word(&reader, 0, "entry"))
            read_entry(&reader);
        else
            fail(&reader, "unknown kind of line");
    }
}

/* -- histories -- */

static enum answer classify(enum kind kind, int64_t status, const char *code)
{
    static const struct {
        const char *code;
        enum answer answer;
    } codes[] = {
        {"sold_out", SOLD_OUT},       {"already_ordered", ALREADY_ORDERED},
        {"not_started", NOT_STARTED}, {"order_in_progress", IN_PROGRESS},
        {"sale_ended", SALE_ENDED},   {"wrong_state", WRONG_STATE},
        {"unavailable", NOT_DONE},    {"overloaded", NOT_DONE},
        {"internal", NOT_DONE},
    };

    if (kind == ORDER && (status == 200 || status == 201))
        return status == 201 ? PLACED : REPEATED;
    if (status == 202)
        return ENTERED;
    if (status == 200)
        return DONE;
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        if (strcmp(code, codes[i].code) == 0)
            return codes[i].answer;
    }
    /* outcome_unknown of the service, or 502 and 504 of nginx */
    return status >= 500 ? UNKNOWN : OTHER;
}

static void read_request(const struct reader *reader)
{
    struct op *op;

    expect_words(reader, 7);
    input.ops = grow(input.ops, input.op_count, sizeof(*input.ops));
    op = &input.ops[input.op_count++];
    *op = (struct op){.answered_us = NEVER,
                      .answer = UNKNOWN,
                      .file = reader->path,
                      .line = reader->line,
                      .sent_us = number(reader, 2),
                      .shopper = number(reader, 4),
                      .voucher = number(reader, 5)};
    op->kind = is_word(reader, 3, "order")    ? ORDER
               : is_word(reader, 3, "cancel") ? CANCEL
                                              : RESTOCK;
    if (op->kind == RESTOCK && !is_word(reader, 3, "restock"))
        fail(reader, "expected order, cancel or restock");
    if (op->kind == ORDER)
        copy_word(reader, 6, op->key);
    else if (op->kind == CANCEL)
        op->order = number(reader, 6);
    else
        op->count = number(reader, 6);
}

/* Read an answer. Returns false if no request has this number (`op` is NULL), or if the request
   already has an answer. */
static bool read_answer(struct op *op, const struct reader *reader)
{
    expect_words(reader, 6);
    if (op == NULL || op->answered_us != NEVER)
        return false;
    op->answered_us = number(reader, 2);
    op->status = (uint16_t)number(reader, 3);
    op->answer = classify(op->kind, op->status, reader->words[4]);
    if (op->kind == ORDER)
        op->order = number(reader, 5);
    return true;
}

/* The requests in a file are numbered from 1. */
void read_history(const char *path)
{
    struct reader reader = open_file(path);
    size_t before = input.op_count;

    while (next_line(&reader)) {
        size_t id = reader.count < 2 ? 0 : (size_t)number(&reader, 1);
        bool is_known = id >= 1 && id <= input.op_count - before;

        if (is_word(&reader, 0, ">")) {
            if (id != input.op_count - before + 1)
                fail(&reader, "requests are not numbered in sequence");
            read_request(&reader);
        } else if (!read_answer(is_known ? &input.ops[before + id - 1] : NULL, &reader)) {
            input.unmatched_count++;
            fprintf(stderr, "%s:%u: answer without a request, or second answer\n", path,
                    reader.line);
        }
    }
}
