/* append.h - adds formatted text to the end of a text. */
#ifndef TEST_APPEND_H
#define TEST_APPEND_H

#include "base/attributes.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static inline void append(char *text, size_t size, const char *format, ...)
    PRINTF_LIKE(3, 4);

static inline void append(char *text, size_t size, const char *format, ...)
{
    size_t len = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + len, size - len, format, args);
    va_end(args);
}

#endif
