/*
 * turns.pml - releases without a message during the turn of a client, for the model checker SPIN;
 * check.sh runs it.
 *
 * Clients compete for a lock of kind plain. The callers of a client queue behind each other, and
 * only the first of them tries. In its turn a client releases the lock without a message, while its
 * next waiter tries in the same write; other clients wait for a message. The server executes the
 * calls of a client in order, but calls of another client may come in between. A waiter may be
 * cancelled, before or after the server has executed its try. Once, the server does not know the
 * script of a silent release, so that the client sends this release again, behind the try. In both
 * cases the client sends a second release, which sends the message if it finds the name free.
 *
 * No client dies and no message gets lost, so the check every two seconds is left out.
 *
 * Guarantee: no waiter waits forever, and a client sends a message after at most TURN silent
 * releases.
 *
 * spin finds a run that breaks it if it is given
 *   -DUNANNOUNCED   no message follows a silent release if the try behind it was cancelled
 *   -DSILENT_AGAIN  no message follows a silent release that was sent again
 *   -DENDLESS       the turn of a client does not end
 */
#define CLIENTS 2
#define CALLS   3 /* acquires of the first client; the second has one */
#define TURN    1
#define FREE    0

mtype = { TRY, SILENT, RESENT, RELEASE, SECOND, GRANTED, BUSY, DONE, UNKNOWN };

/* Redis. The number of a grant is its owner's value. */
byte owner = FREE;
bool forgets = true; /* the next silent release may find its script unknown */

/* The connections and the channel */
chan calls[CLIENTS] = [6] of { mtype, byte };
chan replies[CLIENTS] = [6] of { mtype, byte };
bool has_message[CLIENTS];

byte waiting[CLIENTS]; /* callers of a client that have subscribed */
byte missed[CLIENTS];  /* silent releases by the other client since its last message */
bool may_cancel = true;

inline call(kind, number)
{
    calls[_pid]!kind,number;
    in_flight++
}

inline try()
{
    serial = serial % 5 + 1;
    trying = CLIENTS * serial + _pid;
    call(TRY, trying)
}

inline wake()
{
    if
    :: waiting[_pid] == 0
    :: waiting[_pid] > 0 && trying > 0 -> must_retry = true
    :: waiting[_pid] > 0 && trying == 0 -> try()
    fi
}

inline release()
{
    if
    :: waiting[_pid] > 0 && trying == 0 && turn < TURN ->
#ifndef ENDLESS
       turn++;
#endif
       call(SILENT, held);
       try()
    :: waiting[_pid] == 0 || trying > 0 || turn == TURN ->
       turn = 0;
       call(RELEASE, held);
       if
       :: true -> wake()
       :: waiting[_pid] > 0 -> yields = true
       fi
    fi;
    held = 0
}

/* Cancel the first waiter. If it may get the lock, or a silent release relies on its try, a second
   release follows. */
inline cancel()
{
    waiting[_pid]--;
    must_retry = false;
    if
    :: trying > 0 && calls[_pid]??[TRY,eval(trying)] -> /* its try is not sent */
       calls[_pid]??TRY,eval(trying);
       in_flight--;
#ifndef UNANNOUNCED
       call(SECOND, trying)
#endif
    :: trying > 0 ->
       ignored = trying;
       call(SECOND, trying)
    :: trying == 0
    fi;
    trying = 0;
    wake()
}

inline take_reply()
{
    in_flight--;
    if
    :: reply == GRANTED && number == trying ->
       trying = 0;
       must_retry = false;
       held = number;
       waiting[_pid]--
    :: reply == BUSY && number == trying ->
       trying = 0;
       if
       :: must_retry -> must_retry = false; try()
       :: else
       fi
    :: reply == UNKNOWN ->
       call(RESENT, number)
    :: reply == RESENT ->
#ifdef SILENT_AGAIN
       wake() /* the try was executed before the release */
#else
       call(SECOND, number)
#endif
    :: reply == DONE
    :: (reply == GRANTED || reply == BUSY) && number == ignored -> ignored = 0
    fi
}

active [CLIENTS] proctype client()
{
    byte to_call = (_pid == 0 -> CALLS : 1), turn, serial, in_flight;
    byte held, trying, ignored; /* numbers; 0: none */
    bool must_retry, yields;
    mtype reply;
    byte number;

    do
    :: atomic {
           to_call > 0 ->
           to_call--;
           waiting[_pid]++;
           if
           :: waiting[_pid] == 1 && trying == 0 -> try()
           :: else
           fi
       }
    :: atomic { held > 0 -> release() }
    :: atomic { replies[_pid]?reply,number -> take_reply() }
    :: atomic { has_message[_pid] -> has_message[_pid] = false; yields = false; wake() }
    :: atomic { yields -> yields = false; wake() }
    :: atomic {
           may_cancel && waiting[_pid] > 0 && ignored == 0 ->
           may_cancel = false;
           cancel()
       }
    :: atomic { to_call == 0 && waiting[_pid] == 0 && held == 0 && in_flight == 0 -> break }
    od
}

inline publish(to)
{
    has_message[to] = waiting[to] > 0;
    missed[to] = 0
}

/* Execute the next call from a client. `other` is the other client. */
inline execute(from, other)
{
    calls[from]?kind,grant;
    if
    :: kind == TRY && owner == FREE -> owner = grant; replies[from]!GRANTED,grant
    :: kind == TRY && owner != FREE -> replies[from]!BUSY,grant
    :: kind == SILENT && forgets -> forgets = false; replies[from]!UNKNOWN,grant
    :: kind == SILENT || kind == RESENT ->
       assert(owner == grant);
       owner = FREE;
       missed[other] = (waiting[other] > 0 -> missed[other] + 1 : 0);
       assert(missed[other] <= TURN); /* the guarantee */
       replies[from]!(kind == RESENT -> RESENT : DONE),grant
    :: kind == RELEASE || kind == SECOND ->
       if
       :: owner == grant -> owner = FREE
       :: else
       fi;
       if
       :: owner == FREE ->
          publish(other);
          /* a client ignores the message of a release behind which it tries itself */
          if
          :: kind == SECOND -> publish(from)
          :: else
          fi
       :: else
       fi;
       replies[from]!DONE,grant
    fi
}

active proctype server()
{
    mtype kind;
    byte grant;

end:
    do
    :: atomic { nempty(calls[0]) -> execute(0, 1) }
    :: atomic { nempty(calls[1]) -> execute(1, 0) }
    od
}
