/* asserts.c - see asserts.h. */
#include "test/asserts.h"

#include <stdio.h>

#define ABOUT_BYTES  2048
#define WHOLE_BYTES  1000 /* the longest text that is printed whole */
#define PART_BYTES   300 /* bytes of a longer text that are printed from each of its ends */
#define LINES_BEFORE 4   /* lines printed before the line of a failure */
#define LINES_AFTER  8   /* lines printed from the line that a case reached */
#define LINE_BYTES   4096 /* more than the longest line has */

bool asserts_failed;
struct asserts_place asserts_case;
_Thread_local struct asserts_place asserts_reached;

static const char *case_name = "";
static char about[ABOUT_BYTES];
static bool has_any_failed, has_passed, is_silent;
static jmp_buf teardown_end;

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
int __lsan_is_turned_off(void);
void __asan_on_error(void);
void __ubsan_on_report(void);
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

/* Called by the leak check at the end of the program. A failed case does not free its memory, so
   after a failure the check is turned off. */
int __lsan_is_turned_off(void)
{
    return has_any_failed;
}

static void print_about(void)
{
    if (about[0] != '\0')
        asserts_print("this was about: %s\n", about);
}

static void print_lines(const char *file, int first, int last)
{
    FILE *source = fopen(file, "re");
    char text[LINE_BYTES];

    for (int line = 1; source != NULL && line <= last; line++) {
        if (fgets(text, sizeof(text), source) == NULL)
            break;
        if (line >= first)
            asserts_print("%6d | %.*s\n", line, (int)strcspn(text, "\n"), text);
    }
    if (source != NULL)
        fclose(source);
}

static void print_reached(void)
{
    struct asserts_place place =
        asserts_reached.file != NULL ? asserts_reached : asserts_case;

    if (place.file == NULL)
        return;
    asserts_print("the case reached the first of these lines of %s:\n", place.file);
    print_lines(place.file, place.line, place.line + LINES_AFTER - 1);
}

static void print_crash(void)
{
    is_silent = false;
    if (case_name[0] != '\0')
        asserts_print("crash in %s\n", case_name);
    print_about();
    print_reached();
}

void __asan_on_error(void)
{
    print_crash();
}

void __ubsan_on_report(void)
{
    print_crash();
}

void asserts_about(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(about, sizeof(about), format, args);
    va_end(args);
}

__attribute__((format(printf, 1, 0))) static void print(const char *format, va_list args)
{
    if (!is_silent)
        vfprintf(stderr, format, args);
}

void asserts_print(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    print(format, args);
    va_end(args);
}

void asserts_fail(const char *file, int line)
{
    if (is_silent)
        longjmp(teardown_end, 1);
    asserts_failed = has_any_failed = true;
    if (asserts_case.file != NULL && strcmp(file, asserts_case.file) == 0)
        print_lines(file, line - LINES_BEFORE, line);
    if (!asserts_is_in_case(file, line))
        print_reached();
    _fail(file, line);
    __builtin_unreachable(); /* _fail() jumps to the end of the case */
}

void asserts_fail_with(const char *file, int line, const char *format, ...)
{
    va_list args;

    asserts_print("ERROR: ");
    va_start(args, format);
    print(format, args);
    va_end(args);
    asserts_print("\n");
    asserts_fail(file, line);
}

/* -- assertions -- */

void asserts_number_fails(long long found, const char *comparison, long long wanted,
                          const char *expression, const char *file, int line)
{
    asserts_print("%s: expected %s %lld, got %lld\n", expression, comparison, wanted,
                  found);
    asserts_fail(file, line);
}

void asserts_between_fails(long long found, long long low, long long high,
                           const char *expression, const char *file, int line)
{
    asserts_print("%s is %lld, expected %lld to %lld\n", expression, found, low, high);
    asserts_fail(file, line);
}

void asserts_status_fails(enum rlock_status found, enum rlock_status wanted,
                          const char *expression, const char *file, int line)
{
    asserts_print("%s: expected %s, got %s\n", expression, rlock_status_name(wanted),
                  rlock_status_name(found));
    asserts_fail(file, line);
}

static void print_quoted(const char *what, const char *text)
{
    size_t len = strlen(text);

    if (len <= WHOLE_BYTES && strchr(text, '\n') != NULL)
        asserts_print("%s\n%s\n", what, text);
    else if (len <= WHOLE_BYTES)
        asserts_print("%s \"%s\"\n", what, text);
    else
        asserts_print("%s \"%.*s ... %s\" (%zu bytes)\n", what, PART_BYTES, text,
                      text + len - PART_BYTES, len);
}

/** Return where the first line that differs begins. If a part of this line ends with ";" before
 *  the difference, return the end of that part. */
static size_t begin_of_difference(const char *found, const char *wanted)
{
    size_t begin = 0;

    for (size_t at = 0; wanted[at] != '\0' && found[at] == wanted[at]; at++)
        begin = wanted[at] == ';' || wanted[at] == '\n' ? at + 1 : begin;
    return begin;
}

void asserts_print_difference(const char *found, const char *wanted)
{
    size_t begin = begin_of_difference(found, wanted);

    if (begin > 0) {
        asserts_print(
            "after %zu equal bytes expected \"%.300s\", got \"%.300s\"; in all:\n", begin,
            wanted + begin, found + begin);
    }
    print_quoted("expected", wanted);
    print_quoted("     got", found);
}

void asserts_text_fails(const char *found, const char *wanted, const char *expression,
                        const char *file, int line)
{
    asserts_print("%s:\n", expression);
    asserts_print_difference(found == NULL ? "NULL" : found, wanted);
    asserts_fail(file, line);
}

void asserts_that_fails(const char *condition, const char *file, int line)
{
    asserts_print("expected that %s\n", condition);
    asserts_fail(file, line);
}

void asserts_memory(const void *found, const void *wanted, size_t len,
                    const char *expression, const char *file, int line)
{
    const unsigned char *found_bytes = found, *wanted_bytes = wanted;
    size_t at = 0;

    while (at < len && found_bytes[at] == wanted_bytes[at])
        at++;
    if (at == len) {
        asserts_hold(file, line);
        return;
    }
    asserts_print("byte %zu of %s: expected 0x%02x, got 0x%02x\n", at, expression,
                  wanted_bytes[at], found_bytes[at]);
    asserts_fail(file, line);
}

void asserts_contains_fails(const char *text, const char *words, const char *expression,
                            const char *file, int line)
{
    asserts_print("%s: expected '%s' in\n'%s'\n", expression, words, text);
    asserts_fail(file, line);
}

void asserts_begins_fails(const char *text, const char *words, const char *expression,
                          const char *file, int line)
{
    asserts_print("%s: expected '%s' at the begin of\n'%s'\n", expression, words, text);
    asserts_fail(file, line);
}

/* -- cases -- */

void asserts_enter_case(const char *name, struct asserts_place place)
{
    case_name = name;
    about[0] = '\0';
    asserts_case = place;
    asserts_reached = (struct asserts_place){0};
    asserts_failed = has_passed = is_silent = false;
}

void asserts_pass_case(void)
{
    has_passed = true;
}

int asserts_tear_down(CMFixtureFunction teardown, void **state)
{
    int status = 0;

    if (!has_passed) {
        if (!asserts_failed) /* after a crash, or an assertion of cmocka itself */
            print_reached();
        asserts_failed = has_any_failed = true;
        print_about();
    }
    is_silent = !has_passed;
    if (teardown != NULL && setjmp(teardown_end) == 0)
        status = teardown(state);
    is_silent = false;
    case_name = "";
    return has_passed ? status : 0;
}
