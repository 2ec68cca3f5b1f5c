/*
 * cohort.pml - a lock that a client passes among its own tasks, for the model checker SPIN;
 * check.sh runs it.
 *
 * A client with TASKS tasks and another client compete for a lock. A task that ends passes the
 * lock to a waiting task without the server, at most PASSES times in a row. As in lease.pml
 * each owner reads a value and writes a value computed from it, and the lease may expire
 * between any two steps. No task in the row notices this before the last task releases the
 * lock.
 *
 * Guarantee: no stale write, and no task waits forever.
 *
 * spin finds a run that breaks it if it is given
 *   -DUNRESERVED  the server does not reserve the fences of the passes
 *   -DONE_MORE    the lock is passed on once more than fences were reserved
 */
#define TASKS  2
#define PASSES 2
#define FENCES 6 /* then no more grants */
#define FREE   0

/* Redis */
byte owner = FREE;
byte counter; /* of fences */

/* The client */
bool is_active; /* a task asks for the lock or owns it, or it is being passed on */
byte waiting;   /* tasks */
byte passed;    /* the fence of the task that gets the lock next; 0: none does */
byte passed_grant, passed_passes;

/* The resource: a value, new with each write, and the greatest fence seen so far */
byte value;
byte newest;

/* Read the value and write a new one, each checked and executed in one step. */
inline work()
{
    atomic {
        is_refused = fence < newest;
        if
        :: is_refused
        :: else -> newest = fence
        fi;
        base = value
    };
    atomic {
        if
        :: is_refused || fence < newest
        :: else ->
           assert(base == value); /* the guarantee */
           value++
        fi
    }
}

active [TASKS] proctype task()
{
    byte grant, fence, passes, base;
    bool is_refused;

    do
    :: waiting++;
       if
       :: atomic { /* the acquire script reserves the fences that follow */
              !is_active && owner == FREE && counter < FENCES ->
              is_active = true;
              waiting--;
              fence = counter + 1;
              grant = fence;
              passes = PASSES;
              owner = grant;
#ifdef UNRESERVED
              counter = fence
#elif defined(ONE_MORE)
              counter = fence + PASSES - 1
#else
              counter = fence + PASSES
#endif
          }
       :: atomic {
              passed > 0 ->
              waiting--;
              fence = passed;
              grant = passed_grant;
              passes = passed_passes;
              passed = 0
          }
       :: atomic { !is_active && counter >= FENCES -> waiting--; break }
       fi;
       work();
       if
       :: atomic {
              passes > 0 && waiting > 0 ->
              passed = fence + 1;
              passed_grant = grant;
              passed_passes = passes - 1
          }
       :: atomic { /* the release script */
              if
              :: owner == grant -> owner = FREE
              :: else
              fi;
              is_active = false
          }
       fi
    od
}

active proctype other_client()
{
    byte fence, base;
    bool is_refused;

    do
    :: atomic { owner == FREE && counter < FENCES -> counter++; fence = counter; owner = fence };
       work();
       if
       :: atomic { owner == fence -> owner = FREE }
       :: owner != fence
       :: break /* it died */
       fi
    :: counter >= FENCES -> break
    od
}

active proctype expiry()
{
end:
    do
    :: atomic { owner != FREE -> owner = FREE }
    od
}
