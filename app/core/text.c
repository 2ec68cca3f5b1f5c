/* text.c - compares and parses texts; open_memstream() prints documents. */
#include "app/core/text.h"

#include <stdlib.h>
#include <string.h>

#define URL_MAX 2000 /* as in the table webhook */

bool text_is(struct text text, const char *other)
{
    return text.bytes != NULL && text.len == strlen(other) &&
           memcmp(text.bytes, other, text.len) == 0;
}

bool text_has(struct text text, const char *part)
{
    return text.bytes != NULL && memmem(text.bytes, text.len, part, strlen(part)) != NULL;
}

static bool begins(struct text text, const char *word)
{
    return text.len >= strlen(word) && memcmp(text.bytes, word, strlen(word)) == 0;
}

bool text_is_url(struct text text)
{
    if (text.len > URL_MAX || (!begins(text, "https://") && !begins(text, "http://")))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.bytes[i] <= ' ' || text.bytes[i] > '~')
            return false;
    }
    return true;
}

bool text_parse_id(struct text text, int64_t *ret_id)
{
    int64_t id = 0;

    if (text.len == 0 || text.bytes[0] == '0')
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.bytes[i];

        if (c < '0' || c > '9' || __builtin_mul_overflow(id, 10, &id) ||
            __builtin_add_overflow(id, c - '0', &id))
            return false;
    }
    *ret_id = id;
    return true;
}

bool text_document_begin(struct text_document *document)
{
    *document = (struct text_document){0};
    document->out = open_memstream(&document->text, &document->len);
    return document->out != NULL;
}

char *text_document_end(struct text_document *document)
{
    if (fclose(document->out) == 0)
        return document->text;
    free(document->text);
    return NULL;
}
