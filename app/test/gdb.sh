#!/bin/sh
#
# gdb.sh BUILD - test the commands of app/install/seckill-gdb.py, which print lists, locks, queues.
# gdb starts the programs itself, since attaching to others needs a privilege.
set -eu
build=$1
commands=$(mktemp)
output=$(mktemp)
trap 'rm -f "$commands" "$output"' EXIT

# inspect BREAKPOINT PROGRAM [ARGUMENT] - runs the program up to the breakpoint, and then the gdb
# commands on standard input.
inspect()
{
    breakpoint=$1
    shift
    {
        printf 'set debuginfod enabled off\nbreak %s\nrun\n' "$breakpoint"
        cat
    } >"$commands"
    gdb -q -batch -nx -x app/install/seckill-gdb.py -x "$commands" --args "$@" >"$output" 2>&1
}

expect()
{
    grep -Fq "$1" "$output" || {
        echo "expected: $1"
        cat "$output"
        exit 1
    }
}

# One order is in a transaction, and five orders wait for the next transaction.
inspect 'answer_store if fixture.checkout->queued == 5' "$build/app/test/sale/test_checkout" <<'END'
seckill-queues fixture.checkout
seckill-list fixture.checkout->deadlines item deadline
END
expect '6 in flight, 5 queued, 0 unlocking, 0 unknown batches'
expect 'voucher 7: 5 orders, 0 split batches, busy'
expect '6 elements'
expect 'state = ITEM_SENT'

inspect main "$build/seckill" version <<'END'
set $lock = (struct rlock *)&cmd_serve::service
set var $lock->state = RLOCK_STATE_HELD
set var $lock->fence = 17
print *$lock
END
expect 'lock "" RLOCK_STATE_HELD, fence 17'
echo "lists, locks and queues are printed"
