/*
 * semaphore.pml - a semaphore whose permits are leases, for the model checker SPIN; check.sh
 * runs it.
 *
 * A client takes a permit, works and gives the permit back. It may also die or be paused:
 * between any two of its steps the other clients may take any number of steps, its lease may
 * expire, or an operator may release all permits by force. A call that was sent may be
 * executed at any later time. A release may be repeated, because its reply may get lost.
 *
 * Guarantee: at most PERMITS leases run at once. Also, no client waits forever for a client
 * that died. spin checks this as invalid end states.
 *
 * spin finds a run that breaks it if it is given
 *   -DCOUNTED    the server counts the permits, and does not know the owners: a late release
 *                gives back the permit of another
 *   -DTWO_STEPS  the permits are counted and taken in two steps
 *   -DUNLEASED   permits have no lease: a client that died keeps its permit
 */
#define CLIENTS 3
#define PERMITS 2
#define GRANTS  5 /* in total; then a run ends */

bool has_lease[CLIENTS];  /* the permit of a client is valid; the guarantee bounds these */
bool is_counted[CLIENTS]; /* the server's sorted set of the owners */
byte counter;             /* the server's number of owners, if it only counts (-DCOUNTED) */
byte granted;

#define LEASES (has_lease[0] + has_lease[1] + has_lease[2])
#ifdef COUNTED
#define TAKEN counter
#else
#define TAKEN (is_counted[0] + is_counted[1] + is_counted[2])
#endif

inline grant(who)
{
    is_counted[who] = true;
    has_lease[who] = true;
    counter++;
    granted++;
    assert(LEASES <= PERMITS) /* the guarantee */
}

/* The release script. Without a set of owners it cannot tell whose permit it is. */
inline give_back(who)
{
#ifdef COUNTED
    if
    :: counter > 0 -> counter--
    :: else
    fi;
#else
    is_counted[who] = false;
#endif
    has_lease[who] = false
}

active [CLIENTS] proctype client()
{
    do
    :: atomic {
           TAKEN < PERMITS && granted < GRANTS ->
#ifdef TWO_STEPS
           skip
       };
       atomic {
#endif
           grant(_pid)
       };
       if
       :: atomic { give_back(_pid) } /* perhaps after the lease */
       :: break /* it died */
       fi;
       if
       :: atomic { give_back(_pid) } /* once more: the reply was lost */
       :: skip
       fi
    :: granted >= GRANTS -> break
    od
}

inline expire(who)
{
    has_lease[who] = false;
    is_counted[who] = false;
    if
    :: counter > 0 -> counter--
    :: else
    fi
}

/* The lease of any client ends; the server then forgets its permit. */
active proctype expiry()
{
end:
    do
#ifdef UNLEASED
    :: false
#else
    :: atomic { has_lease[0] -> expire(0) }
    :: atomic { has_lease[1] -> expire(1) }
    :: atomic { has_lease[2] -> expire(2) }
#endif
    od
}

/* All are released by force. */
active proctype operator()
{
    atomic {
        has_lease[0] = false;
        has_lease[1] = false;
        has_lease[2] = false;
        is_counted[0] = false;
        is_counted[1] = false;
        is_counted[2] = false;
        counter = 0
    }
}
