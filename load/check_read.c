/* check_read.c - read the table and the histories into memory. */
#include "load/check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct reader {
    const char *path;
    const char *at, *end;
    uint32_t line;
};

static _Noreturn void fail(const struct reader *reader, const char *why)
{
    fprintf(stderr, "check: %s:%u: %s\n", reader->path, reader->line, why);
    _exit(2);
}

void *grow(void *array, size_t count, size_t size)
{
    if ((count & (count - 1)) != 0) /* the capacity is the next power of two */
        return array;
    array = realloc(array, (count == 0 ? 1 : 2 * count) * size);
    if (array == NULL) {
        fprintf(stderr, "check: out of memory\n");
        _exit(2);
    }
    return array;
}

bool is_same(struct word a, struct word b)
{
    return a.len == b.len && memcmp(a.bytes, b.bytes, a.len) == 0;
}

static bool is_word(struct word word, const char *text)
{
    return is_same(word, (struct word){text, strlen(text)});
}

static struct reader open_file(const char *path)
{
    struct reader reader = {.path = path};
    struct stat stat;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &stat) != 0)
        fail(&reader, "cannot be read");
    if (stat.st_size > 0) {
        reader.at = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (reader.at == MAP_FAILED)
            fail(&reader, "cannot be mapped");
        reader.end = reader.at + stat.st_size;
        if (reader.end[-1] != '\n')
            fail(&reader, "the last line is incomplete");
    }
    close(fd);
    return reader;
}

/* The next word of the line. */
static struct word next(struct reader *reader)
{
    struct word word = {.bytes = reader->at};

    while (*reader->at != ' ' && *reader->at != '\n')
        reader->at++;
    word.len = (size_t)(reader->at - word.bytes);
    if (word.len == 0)
        fail(reader, "a field is missing");
    if (*reader->at == ' ')
        reader->at++;
    return word;
}

static int64_t next_number(struct reader *reader)
{
    struct word word = next(reader);
    bool is_negative = word.bytes[0] == '-';
    int64_t number = 0;

    if (is_word(word, "-"))
        return 0;
    for (size_t i = is_negative; i < word.len; i++) {
        if (word.bytes[i] < '0' || word.bytes[i] > '9' ||
            __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, word.bytes[i] - '0', &number))
            fail(reader, "not a number");
    }
    return is_negative ? -number : number;
}

/* Read the first word of the next line into `ret_word`; false at the end of the file. */
static bool next_line(struct reader *reader, struct word *ret_word)
{
    if (reader->at == reader->end)
        return false;
    reader->line++;
    *ret_word = next(reader);
    return true;
}

static void end_line(struct reader *reader)
{
    if (*reader->at != '\n')
        fail(reader, "too many fields");
    reader->at++;
}

/* -- the table -- */

static void add_event(const struct event *event)
{
    input.events = grow(input.events, input.event_count, sizeof(*input.events));
    input.events[input.event_count++] = *event;
}

static void read_voucher(struct reader *reader)
{
    struct voucher *voucher;

    input.vouchers = grow(input.vouchers, input.voucher_count, sizeof(*input.vouchers));
    voucher = &input.vouchers[input.voucher_count++];
    *voucher = (struct voucher){.id = next_number(reader)};
    voucher->begin_us = next_number(reader);
    voucher->end_us = next_number(reader);
    voucher->limit = next_number(reader);
    voucher->left = next_number(reader);
}

static void read_row(struct reader *reader)
{
    struct row *row;

    input.rows = grow(input.rows, input.row_count, sizeof(*input.rows));
    row = &input.rows[input.row_count++];
    *row = (struct row){.voucher = next_number(reader),
                        .end_id = NEVER,
                        .end_us = NEVER,
                        .ended_by_us = NEVER,
                        .acknowledged_us = NEVER};
    row->id = next_number(reader);
    row->shopper = next_number(reader);
    row->created_us = next_number(reader);
    row->key = next(reader);
}

static void read_event(struct reader *reader, enum event_kind kind)
{
    struct event event = {.kind = kind, .voucher = next_number(reader)};

    event.id = next_number(reader);
    event.at_us = next_number(reader);
    if (kind == END)
        event.order = next_number(reader);
    event.change = kind == END ? 1 : next_number(reader);
    add_event(&event);
}

void read_table(const char *path)
{
    struct reader reader = open_file(path);
    struct word what;

    while (next_line(&reader, &what)) {
        if (is_word(what, "voucher"))
            read_voucher(&reader);
        else if (is_word(what, "order"))
            read_row(&reader);
        else if (is_word(what, "end"))
            read_event(&reader, END);
        else if (is_word(what, "stock"))
            read_event(&reader, STOCK);
        else
            fail(&reader, "unknown kind of line");
        end_line(&reader);
    }
}

/* -- histories -- */

static enum kind next_kind(struct reader *reader)
{
    struct word word = next(reader);

    if (is_word(word, "order"))
        return ORDER;
    if (is_word(word, "cancel"))
        return CANCEL;
    if (!is_word(word, "restock"))
        fail(reader, "expected order, cancel or restock");
    return RESTOCK;
}

static enum answer classify(enum kind kind, int64_t status, struct word code)
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
    if (status == 200)
        return DONE;
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        if (is_word(code, codes[i].code))
            return codes[i].answer;
    }
    return status >= 500 ? UNKNOWN : OTHER; /* outcome_unknown, 502 and 504 of nginx */
}

static void read_request(struct reader *reader)
{
    struct op *op;

    input.ops = grow(input.ops, input.op_count, sizeof(*input.ops));
    op = &input.ops[input.op_count++];
    *op = (struct op){.answered_us = NEVER,
                      .answer = UNKNOWN,
                      .file = reader->path,
                      .line = reader->line,
                      .sent_us = next_number(reader)};
    op->kind = (uint8_t)next_kind(reader);
    op->shopper = next_number(reader);
    op->voucher = next_number(reader);
    if (op->kind == CANCEL)
        op->order = next_number(reader);
    else
        op->arg = next(reader);
}

/* Read an answer. False: it belongs to no request (`op` is NULL) or to an answered one. */
static bool read_answer(struct op *op, struct reader *reader)
{
    int64_t at_us = next_number(reader);
    int64_t status = next_number(reader);
    struct word code = next(reader);
    int64_t order = next_number(reader);

    if (op == NULL || op->answered_us != NEVER)
        return false;
    op->answered_us = at_us;
    op->status = (uint16_t)status;
    op->answer = (uint8_t)classify(op->kind, status, code);
    if (op->kind == ORDER)
        op->order = order;
    return true;
}

/* The requests in a file are numbered from 1. */
void read_history(const char *path)
{
    struct reader reader = open_file(path);
    size_t before = input.op_count;
    struct word what;

    while (next_line(&reader, &what)) {
        size_t number = (size_t)next_number(&reader);
        bool is_known = number >= 1 && number <= input.op_count - before;

        if (is_word(what, ">")) {
            if (number != input.op_count - before + 1)
                fail(&reader, "requests are not numbered in sequence");
            read_request(&reader);
        } else if (!read_answer(is_known ? &input.ops[before + number - 1] : NULL,
                                &reader)) {
            input.unmatched_count++;
            fprintf(stderr, "%s:%u: answer without a request, or second answer\n", path,
                    reader.line);
        }
        end_line(&reader);
    }
}
