/*
 * lesson.h - sequences of events that break the simple locks, and the outcome of each sequence.
 *
 * A sequence can run with any stage of naive.h, and with the plain kind of the library. The test
 * it_naive asserts the outcomes. The program lessons prints the commands.
 */
#ifndef TEST_LESSON_H
#define TEST_LESSON_H

#include "test/fixture.h"
#include "test/naive.h"

#define LESSON_NAME "item:7"
#define PLAIN       NULL /* means the plain kind of the library, in place of a stage */

/** One row for each outcome: its name, and a description for a reader. */
/* clang-format off */
#define LESSON_OUTCOMES(X)                                                                \
    X(FINE,           "no failure")                                                       \
    X(STAYS_FOR_EVER, "a lock that stays for ever: its owner is dead, and it has no end") \
    X(FOREIGN_UNLOCK, "a foreign unlock: alice deletes bob's lock; bob and carol own it") \
    X(TWO_OWNERS,     "two owners: alice's lease still runs when bob takes the lock")     \
    X(LOST_WAKE_UP,   "a lost wake-up: the lock is free, and bob sleeps")                 \
    X(STALE_WRITE,    "a stale write: alice overwrites what the later owner bob wrote")
/* clang-format on */
#define LESSON_OUTCOME(name, words) name,
enum outcome { LESSON_OUTCOMES(LESSON_OUTCOME) };
#undef LESSON_OUTCOME

const char *lesson_words(enum outcome outcome);

typedef enum outcome (*lesson_sequence)(struct fixture *fixture,
                                        const struct naive_stage *stage);

/** The owner dies. When its lease has ended, another client tries to take the lock. */
enum outcome lesson_owner_dies(struct fixture *fixture, const struct naive_stage *stage);

/** The owner dies between the two steps of its acquire. Otherwise like lesson_owner_dies(). */
enum outcome lesson_owner_dies_between(struct fixture *fixture,
                                       const struct naive_stage *stage);

/** The owner is delayed until another client has the lock, and then releases the lock. Then a
 *  third client tries to take the lock. */
enum outcome lesson_release_is_late(struct fixture *fixture,
                                    const struct naive_stage *stage);

/** Like lesson_release_is_late(), but the owner is delayed between the two steps of its release. */
enum outcome lesson_release_is_interrupted(struct fixture *fixture,
                                           const struct naive_stage *stage);

/** The owner is delayed until another client has taken the lock and has written to the resource.
 *  Then the owner writes, too. */
enum outcome lesson_write_is_late(struct fixture *fixture,
                                  const struct naive_stage *stage);

/** The clock of the second client is ahead by more than the lease. */
enum outcome lesson_clock_is_ahead(struct fixture *fixture,
                                   const struct naive_stage *stage);

/** Another client tries to take the lock and finds it busy. The owner releases the lock before
 *  this client subscribes to the message of the release. */
enum outcome lesson_release_is_early(struct fixture *fixture,
                                     const struct naive_stage *stage);

struct lesson {
    const char *name;
    const char *title;
    const struct naive_stage *stage;
    lesson_sequence run;
    enum outcome outcome;
};

extern const struct lesson lessons[]; /* the last one has no name */

void lesson_print_events(void);

#endif
