/*
 * lease.pml - leases, pauses, expiry and fences, for spin; check.sh runs it.
 *
 * Holders share a value: each takes the lock, reads the value, writes a new one made from
 * it and releases. A pause is a step that does not come: between any two steps of a holder
 * the others may take any number of theirs, and its lease may lapse. So there is no clock
 * here: every length of lease and of pause is among the runs.
 *
 * Promise: no stale write, which is one made from a value that was replaced since it was
 * read. (What the promise speaks of knows nothing about fences.) Besides, nobody waits
 * forever for a holder that died; that is spin's own check for invalid end states.
 *
 * It is broken, and spin finds how, with
 *   -DUNFENCED     the resource takes every request: the lock alone does not do
 *   -DWRITES_ONLY  the fence goes with the write, but not with a read in a step before
 *   -DDRAWN_LATE   the fence is read in a step after the lock: it may be the successor's
 */
#define HOLDERS 3
#define GRANTS  5 /* in all, then a run ends */
#define FREE    0

/* Redis. The owner's value is that of one grant, as the library's is. */
byte owner = FREE;
byte counter; /* of fences */

/* The resource: a value, new with each write, and the greatest fence it was shown. */
byte value;
byte newest;

#ifdef UNFENCED
#define IS_STALE(fence) false
#else
#define IS_STALE(fence) (fence < newest)
#endif

active [HOLDERS] proctype holder()
{
    byte grant, fence, base;

    do
    :: atomic { /* the acquire script */
           owner == FREE && counter < GRANTS ->
           counter++;
           grant = counter;
           owner = grant;
           fence = grant
       };
#ifdef DRAWN_LATE
       fence = counter;
#endif
       atomic { /* read */
#ifndef WRITES_ONLY
           if
           :: IS_STALE(fence) -> goto release
           :: else -> newest = fence
           fi;
#endif
           base = value
       };
       atomic { /* write: judged and carried out in one step */
           if
           :: IS_STALE(fence)
           :: else ->
              assert(base == value); /* the promise */
              value++;
              newest = fence
           fi
       };

release:
       if
       :: atomic { owner == grant -> owner = FREE } /* the release script */
       :: owner != grant
       :: break /* it died */
       fi
    :: counter == GRANTS -> break
    od
}

active proctype expiry()
{
end:
    do
    :: atomic { owner != FREE -> owner = FREE }
    od
}
