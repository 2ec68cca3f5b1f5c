/* text.h - parts of a request as text, and documents that are printed to memory. */
#ifndef TEXT_H
#define TEXT_H

#include "base/attributes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct text {
    const char *bytes; /* UTF-8, not NUL-terminated; NULL: the text is absent */
    size_t len;
};

/** Whether the text equals `other`. An absent text equals nothing. */
bool text_is(struct text text, const char *other);

bool text_has(struct text text, const char *part);

/** Whether the text can be the URL of a webhook: it begins with https:// or http:// and has at most
 *  2000 visible ASCII characters. */
bool text_is_url(struct text text);

/** Parse 1..2^63-1 in decimal digits without sign, spaces or leading zeros. */
MUST_CHECK bool text_parse_id(struct text text, int64_t *ret_id);

/** A document that is being written to `out`. The struct must not be moved. */
struct text_document {
    FILE *out;
    char *text;
    size_t len;
};

/** Begin a document, which text_document_end() ends. Returns false if memory is out. */
MUST_CHECK bool text_document_begin(struct text_document *document);

/** Returns the NUL-terminated text, which the caller frees, or NULL if memory is out. */
char *text_document_end(struct text_document *document);

#endif
