/*
 * lease.pml - leases, pauses, expiry and fences, for the model checker SPIN; check.sh runs it.
 *
 * Holders share a value. Each holder acquires the lock, reads the value, writes a new value
 * computed from it, and releases the lock. There is no clock: between any two steps of a
 * holder the other holders may take any number of steps, and its lease may expire. So the
 * runs contain every length of a lease and of a pause.
 *
 * Guarantee: no stale write. A write is stale if the value that it was computed from has been
 * replaced. (Here "stale" does not refer to fences.) Also, no holder waits forever for a
 * holder that died. spin checks this as invalid end states.
 *
 * spin finds a run with a stale write if it is given
 *   -DUNFENCED     the resource accepts every request: the lock alone is not enough
 *   -DWRITES_ONLY  the write carries the fence, but the read before it does not
 *   -DDRAWN_LATE   the fence is read in a step after the grant: it may be the next owner's
 */
#define HOLDERS 3
#define GRANTS  5 /* in total; then a run ends */
#define FREE    0

/* Redis. An owner's value belongs to one grant, as in the library. */
byte owner = FREE;
byte counter; /* of fences */

/* The resource: a value, new with each write, and the greatest fence seen so far. */
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
       atomic { /* write: checked and executed in one step */
           if
           :: IS_STALE(fence)
           :: else ->
              assert(base == value); /* the guarantee */
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
