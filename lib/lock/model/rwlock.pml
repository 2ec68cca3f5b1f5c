/*
 * rwlock.pml - a read/write lock whose owners have leases and fences, for the model checker
 * SPIN; check.sh runs it.
 *
 * Without -DFENCES the model has the turns of waiters, with -DFENCES the fences. Turns and
 * fences do not depend on each other. check.sh runs both also with nested grants (-DNESTED).
 *
 * Between any two steps of a client the other clients may take any number of steps, the lease
 * of the client may expire, or the client may die. If it dies while it waits, it sends no
 * heartbeat, so the server forgets it.
 *
 * With -DNESTED one of the writers may read with its fence (a nested grant), and go on reading
 * after it has released the lease to write.
 *
 * Guarantees:
 * - A reader waits for at most one writer that was granted after its arrival.
 * - While a writer waits, only those readers are granted that were already waiting when the
 *   last writer was granted.
 * - No client waits forever for a client that died. spin checks this as invalid end states.
 * - No write is based on a replaced value, and all that a reader reads belongs to one state.
 * - What a writer reads after its release to read is what it has written, and the resource
 *   refuses nothing because of another grant of the same holder.
 *
 * spin finds a run that breaks one of them if it is given
 *   -DREADERS_FIRST  a reader is granted while any reader has the lock
 *   -DWRITERS_FIRST  readers wait for all writers
 *   -DFENCES -DREADS_UNSEEN  the resource forgets the fences of reads
 *   -DFENCES -DNESTED -DNESTED_FRESH  a nested grant has a fence of its own
 *   -DFENCES -DNESTED -DNESTED_LATE   the lease to write is released before the one to
 *                            read is acquired
 */
#define READERS 2
#define CLIENTS 4 /* the others write */

/* Grants in total; then a run ends. */
#ifdef NESTED
#define GRANTS 3
#define NESTS  (_pid == READERS)
#else
#define GRANTS 4
#define NESTS  false
#endif

/* Redis. */
bool has_lease[CLIENTS];
bool still_reads; /* the writer that nests, by its nested grant */
byte arrival[CLIENTS]; /* of waiters; 0: it does not wait */
byte arrivals;
byte due; /* the last arrival when a writer was granted: readers up to it go first */
byte counter; /* of fences, and grants */
bool is_dead[CLIENTS];

/* The resource: a value, new with each write, and the greatest fences. */
byte value;
byte seen, written;

/* For the guarantees: writers granted since the arrival of a reader. */
byte passed[READERS];

#define IS_READ    (has_lease[0] || has_lease[1] || still_reads)
#define IS_WRITTEN (has_lease[2] || has_lease[3])
#define HAS_WRITER (arrival[2] > 0 || arrival[3] > 0) /* that waits */
#define IS_DUE(r)  (arrival[r] > 0 && arrival[r] <= due)
#define OTHER      (5 - _pid) /* writer */
#define IS_FIRST   (arrival[OTHER] == 0 || arrival[_pid] < arrival[OTHER])

#ifdef READERS_FIRST
#define READER_MAY (!IS_WRITTEN)
#else
#ifdef WRITERS_FIRST
#define READER_MAY (!IS_WRITTEN && !HAS_WRITER)
#else
#define READER_MAY (!IS_WRITTEN && (!HAS_WRITER || IS_DUE(_pid)))
#endif
#endif
#define WRITER_MAY (!IS_READ && !IS_WRITTEN && IS_FIRST && !IS_DUE(0) && !IS_DUE(1))
#ifdef WRITERS_FIRST
#undef WRITER_MAY
#define WRITER_MAY (!IS_READ && !IS_WRITTEN && IS_FIRST)
#endif

#ifdef FENCES
#define JOIN
#define GIVE_UP false
#define READ_ONCE_MORE                                                    \
    atomic {                                                              \
        if                                                                \
        :: nested < written                                               \
        :: else ->                                                        \
           assert(base == value); /* a guarantee */                       \
           if                                                             \
           :: nested > seen -> seen = nested                              \
           :: else                                                        \
           fi                                                             \
        fi                                                                \
    };
#else
#define READ_ONCE_MORE
#define JOIN atomic { arrivals++; arrival[_pid] = arrivals };
#define GIVE_UP true
#endif

inline grant(fence)
{
    arrival[_pid] = 0;
    has_lease[_pid] = true;
    counter++;
    fence = counter
}

active [READERS] proctype reader()
{
    byte fence, base;

    do
    :: counter < GRANTS ->
       JOIN
       if
       :: atomic { READER_MAY ->
              assert(!HAS_WRITER || arrival[_pid] <= due); /* a guarantee */
              assert(passed[_pid] <= 1); /* a guarantee */
              passed[_pid] = 0;
              grant(fence)
          }
       :: atomic { GIVE_UP -> arrival[_pid] = 0; passed[_pid] = 0 }; break
       :: GIVE_UP -> is_dead[_pid] = true; break
       fi;
#ifdef FENCES
       atomic { /* read */
           if
           :: fence < written -> fence = 0
           :: else ->
              base = value;
#ifndef READS_UNSEEN
              if
              :: fence > seen -> seen = fence
              :: else
              fi
#endif
           fi
       };
       atomic { /* read once more */
           if
           :: fence < written
           :: else -> assert(base == value) /* a guarantee */
           fi
       };
#endif
       if
       :: atomic { has_lease[_pid] = false; fence = 0; base = 0 } /* the release script */
       :: break /* it died */
       fi
    :: counter >= GRANTS -> break
    od
}

active [CLIENTS - READERS] proctype writer()
{
    byte fence, base, nested;

    do
    :: counter < GRANTS ->
       JOIN
       if
       :: atomic { WRITER_MAY ->
              due = arrivals;
              grant(fence);
              passed[0] = passed[0] + (arrival[0] > 0);
              passed[1] = passed[1] + (arrival[1] > 0)
          }
       :: atomic { GIVE_UP -> arrival[_pid] = 0 }; break
       :: GIVE_UP -> is_dead[_pid] = true; break
       fi;
#ifdef FENCES
       atomic { /* read */
           if
           :: fence < written -> goto release
           :: else ->
              base = value;
              if
              :: fence > seen -> seen = fence
              :: else
              fi
           fi
       };
#endif
#ifndef NESTED_LATE
       if
       :: atomic { NESTS && has_lease[_pid] -> /* acquire the nested lease */
              still_reads = true;
              nested = fence;
#ifdef NESTED_FRESH
              counter++;
              nested = counter;
              seen = nested /* it reads */
#endif
          }
       :: true
       fi;
#endif
#ifdef FENCES
       atomic { /* write: checked and executed in one step */
           assert(!has_lease[_pid] || fence >= seen); /* a guarantee */
           if
           :: fence < seen
           :: else ->
              assert(base == value); /* a guarantee */
              value++;
              base = value;
              seen = fence;
              written = fence
           fi
       };
#endif
       if
       :: nested > 0 ->
          has_lease[_pid] = false; /* the release script */
          READ_ONCE_MORE
          atomic { still_reads = false; nested = 0; fence = 0; base = 0 } /* the release script */
#ifdef NESTED_LATE
       :: nested == 0 && NESTS ->
          has_lease[_pid] = false;
          atomic { !IS_WRITTEN ->
              still_reads = true;
              counter++;
              nested = counter
          };
          READ_ONCE_MORE
          atomic { still_reads = false; nested = 0 }
#endif
       :: else
       fi;
release:
       if
       :: atomic { has_lease[_pid] = false; fence = 0; base = 0 } /* the release script */
       :: break /* it died */
       fi
    :: counter >= GRANTS -> break
    od
}

/* Leases end, and the server forgets waiters that died. */
#define EXPIRE(client) :: atomic { has_lease[client] -> has_lease[client] = false }
#define FORGET(client) :: atomic { is_dead[client] && arrival[client] > 0 -> arrival[client] = 0 }

active proctype server()
{
end:
    do
    EXPIRE(0) EXPIRE(1) EXPIRE(2) EXPIRE(3)
    :: atomic { still_reads -> still_reads = false }
    FORGET(0) FORGET(1) FORGET(2) FORGET(3)
    od
}
