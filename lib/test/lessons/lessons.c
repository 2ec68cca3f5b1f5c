/*
 * lessons.c - shows how the simple locks break, and the plain kind beside each.
 *
 *   lessons [LESSON]...
 *
 * Prints the commands of the sequence that breaks a lock, and its outcome. Then prints the same
 * sequence with the plain kind. The exit code is 1 if an outcome was not the expected one.
 */
#include "test/lesson.h"

#include <stdio.h>
#include <string.h>

static struct {
    lesson_sequence run;
    const struct naive_stage *stage;
    enum outcome outcome;
} current;

static void run_current(void **state)
{
    current.outcome = current.run(*state, current.stage);
}

static bool show(const struct lesson *lesson, const struct naive_stage *stage,
                 enum outcome wanted)
{
    void *state = NULL;

    current.run = lesson->run;
    current.stage = stage;
    fixture_setup(&state);
    case_call(run_current, &state);
    fixture_teardown(&state);
    printf("  => %s\n", lesson_words(current.outcome));
    return current.outcome == wanted;
}

static bool is_chosen(const struct lesson *lesson, int argc, char **argv)
{
    bool is_named = argc == 1;

    for (int i = 1; i < argc; i++)
        is_named = is_named || strcmp(argv[i], lesson->name) == 0;
    return is_named;
}

int main(int argc, char **argv)
{
    void *state = NULL;
    unsigned shown = 0, wrong = 0;

    lesson_print_events();
    fixture_start_server(&state);
    for (const struct lesson *lesson = lessons; lesson->name != NULL; lesson++) {
        if (!is_chosen(lesson, argc, argv))
            continue;
        printf("%s%s: %s\n", shown++ == 0 ? "" : "\n", lesson->name, lesson->title);
        wrong += !show(lesson, lesson->stage, lesson->outcome);
        printf("the same with rlock_plain\n");
        wrong += !show(lesson, PLAIN, FINE);
    }
    fixture_stop_server(&state);
    if (shown == 0)
        fprintf(stderr, "lessons: no such lesson\n");
    return shown == 0 || wrong > 0;
}
