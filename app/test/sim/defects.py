#!/usr/bin/python3 -B
"""defects.py BUILD COUNT [NAME...] - plants each defect, and checks that the simulator finds it.

A defect replaces a text in a source. The changed source is compiled, and linked before the archive
that has the original. The simulator then runs up to COUNT schedules, always from the same seed.
Prints after how many schedules a check failed, and which check. With COUNT 0, only checks that each
defect can still be planted.

The environment has the commands COMPILE, and LINK with its objects and libraries."""

import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
SEED = "1"

# name, source, text, replacement
DEFECTS = [
    ("answer-before-commit", "app/store/store_conn_queries.c",
     "        keep_result(conn, result);\n        return true;\n",
     "        struct store_query *query = oldest(conn);\n\n        keep_result(conn, result);\n"
     "        if (PQntuples(query->result) > 0 && store_conn_abandon(conn, query))\n"
     "            query->done(query, RLOCK_OK, oldest(conn)->result, NULL);\n        return true;\n"),
    ("no-look-up", "app/sale/checkout_batches.c",
     "    case RLOCK_BUSY:\n    case RLOCK_DOWN:\n",
     "    case RLOCK_BUSY:\n    case RLOCK_DOWN:\n    case RLOCK_IO:\n    case RLOCK_TIMEOUT:\n"),
    ("look-up-without-retire", "app/store/store_orders.c",
     "    if (!list_is_empty(&store->suspects)) {\n        retire_suspects",
     "    if (store == NULL) {\n        retire_suspects"),
    ("suspect-forgotten", "app/store/store_open.c",
     "role >= ROLE_LANE && store_conn_pending(conn) > 0)\n        store_suspect",
     "role >= ROLE_LANE && store_conn_pending(conn) > 1)\n        store_suspect"),
    ("barrier-not-sent", "app/store/store_orders.c",
     "&call->call, statement, &store->params);",
     "&call->call, statement + 1, &store->params);"),
    ("barrier-failure-ignored", "app/store/store_orders.c",
     "        call->call.status = status == RLOCK_CANCELLED ? status : RLOCK_IO;",
     "        call->call.status = RLOCK_OK;"),
    ("read-without-barrier", "app/store/store_conn_queries.c",
     "follower != STORE_BARRIER ||",
     "follower != STORE_BARRIER || params != NULL ||"),
    ("proof-ignored", "app/store/store_conn_open.c",
     "session->durability < conn->options.required",
     "session->durability < DURABILITY_NONE"),
    ("proof-of-another-configuration", "app/store/store_conn_queries.c",
     "conn->is_reconfigured && !is_error(query->result))",
     "conn->is_reconfigured && is_error(query->result))"),
    ("deadline-not-set", "app/sale/checkout_items.c",
     "    list_insert_after(last, &item->deadline);",
     "    (void)last;"),
    ("deadline-answers-unavailable", "app/sale/checkout_items.c",
     "        item_answer(item, OUTCOME_UNKNOWN);",
     "        item_answer(item, OUTCOME_UNAVAILABLE);"),
    ("lock-not-released", "app/sale/checkout_items.c",
     "    if (rlock_is_held(&item->lock)) {\n        list_append(&item->checkout->unlocking",
     "    if (rlock_is_held(&item->lock) && outcome != OUTCOME_SOLD_OUT) {\n"
     "        list_append(&item->checkout->unlocking"),
    ("lock-released-while-sent", "app/sale/checkout_batches.c",
     "        list_append(&checkout->unknown, &batch->link);\n    }\n",
     "        rlock_release(checkout->options.locks, &batch_item(batch, 0)->lock, NULL, NULL);\n"
     "        list_append(&checkout->unknown, &batch->link);\n    }\n"),
    ("timeout-taken-for-busy", "app/sale/checkout_items.c",
     "    if (status == RLOCK_BUSY)\n        item_finish(item, OUTCOME_IN_PROGRESS);",
     "    if (status == RLOCK_BUSY || status == RLOCK_TIMEOUT)\n"
     "        item_finish(item, OUTCOME_IN_PROGRESS);"),
    ("fence-not-passed", "app/sale/checkout_items.c",
     "        item->placement.fence = rlock_fence(lock);",
     "        item->placement.fence = rlock_fence(lock) + 1;"),
    ("fence-not-checked", "app/test/sim/sim_sql_place.c",
     "newest != 0 && fence_at(place, at) <= newest",
     "newest < 0"),
    ("double-answer", "app/sale/checkout_items.c",
     "    if (item->is_answered)\n        return;\n    item->is_answered = true;",
     "    item->is_answered = true;"),
    ("stale-catalogue", "app/sale/catalogue.c",
     "    if (entry->read_us <= entry->changed_us ||\n"
     "        clock_mono_us() - entry->read_us >= CATALOGUE_FRESH_US)",
     "    if (clock_mono_us() - entry->read_us >= 100 * CATALOGUE_FRESH_US)"),
    ("retry-without-limit", "app/sale/checkout_items.c",
     "item->tries >= TRIES_MAX", "item->tries >= 1000 * TRIES_MAX"),
    ("split-batch-dropped", "app/sale/checkout_batches.c",
     "    list_insert_after(&batch->queue->split_batches, &tail->link);\n", ""),
    ("refusal-of-another", "app/sale/checkout_batches.c",
     "    if (batch->orders.count > 1)\n        tail =",
     "    if (batch->orders.count > 2)\n        tail ="),
    ("placements-swapped", "app/store/store_orders.c",
     "        struct placement *placement = batch->placements[i];\n"
     "        int64_t verdict",
     "        struct placement *placement = batch->placements[batch->count - 1 - i];\n"
     "        int64_t verdict"),
    ("row-of-another-voucher", "app/store/store_orders.c",
     "COLUMN_BATCH) != ++number)",
     "COLUMN_BATCH) == 0 * ++number)"),
    ("left-out-is-decided", "app/store/store_orders.c",
     "        batch->status = RLOCK_BUSY;",
     "        batch->status = RLOCK_OK;"),
    ("bundle-refused-at-once", "app/sale/checkout_batches.c",
     "    return status == RLOCK_REFUSED ||\n           (status == RLOCK_BUSY",
     "    return (status == RLOCK_BUSY"),
    ("entered-before-durable", "app/store/store_orders.c",
     "            answer_batch(call, batch, RLOCK_BUSY);\n",
     "            answer_batch(call, batch, RLOCK_BUSY);\n"
     "        else if (status == RLOCK_OK && batch->placements[0]->verdict == VERDICT_ENTERED)\n"
     "            answer_batch(call, batch, RLOCK_OK);\n"),
    ("entry-after-the-end", "app/test/sim/sim_sql_place.c",
     "    if (closed == VERDICT_NONE && !(voucher->entered & shopper)) {",
     "    if (closed != VERDICT_NOT_STARTED && !(voucher->entered & shopper)) {"),
    ("one-winner-too-many", "app/test/sim/sim_sql.c",
     "txn->insert_count < DRAWN_MAX && voucher->winners < voucher->stock_total",
     "txn->insert_count < DRAWN_MAX && voucher->winners <= voucher->stock_total"),
    ("draw-not-sent", "app/store/store_expiry.c",
     "    send_expiry(store, STATEMENT_DRAW_LOTTERIES, store_on_drawn);",
     "    (void)store_on_drawn;\n    end_run(store);"),
    ("look-up-of-another", "app/store/store_orders.c",
     "decode_found(result, row++, call->voucher_id, &lookup->placement))\n",
     "decode_found(result, 0 * row++, call->voucher_id, &lookup->placement))\n"),
    ("expiry-counted-twice", "app/store/store_expiry.c",
     "    expiry->expired += (uint64_t)expired;",
     "    expiry->expired += 2 * (uint64_t)expired;"),
    ("expiry-without-the-lock", "app/store/store_expiry.c",
     "status == RLOCK_OK && result_int64(result, 0, 0) == 1);",
     "status == RLOCK_OK);"),
    ("expiry-ends-early", "app/store/store_expiry.c",
     "expiry->is_refused = expiry->is_running = false;",
     "expiry->is_refused = false;"),
    ("memory-not-given-back", "app/sale/checkout_items.c",
     "    list_append(&checkout->free_items, &item->link);\n", ""),
    ("queue-stays-busy", "app/sale/checkout_batches.c",
     "    queue->is_busy = false;\n    if (batch->is_last)",
     "    queue->is_busy = batch->orders.count > 3;\n    if (batch->is_last)"),
    ("watchdog-never-stops", "lib/lock/watchdog.c",
     "    list_remove(&lock->watch_link);\n    rlock_batch_leave(lock);",
     "    rlock_batch_leave(lock);"),
    ("message-not-read", "lib/lock/wait.c",
     "turns->ahead * YIELD_MIN_US;\n    wake(first);",
     "turns->ahead * YIELD_MIN_US;"),
    ("orphan-left", "lib/lock/orphan.c",
     "    struct rlock *copy = copy_of(client, lock);\n\n"
     "    if (copy == NULL)\n        return;\n",
     "    struct rlock *copy = lock == NULL ? copy_of(client, lock) : NULL;\n\n"
     "    if (copy == NULL)\n        return;\n"),
    ("reply-of-another", "lib/redis/script.c",
     "    if (!is_ours(call, status, reply)) {",
     "    if (!is_ours(call, status, reply) && status == RLOCK_OK && reply == NULL) {"),
    ("no-reconnect", "app/store/store_conn_socket.c",
     "    store_conn_arm(conn, pause_ms * INT64_C(1000));",
     "    if (conn->attempts < 3)\n"
     "        store_conn_arm(conn, pause_ms * INT64_C(1000));"),
    ("message-lost", "app/core/mailbox.c",
     "        oldest->next = before;",
     "        oldest->next = NULL;"),
    ("receiver-not-woken", "app/core/mailbox.c",
     "    uv_async_send(&to->wake);\n    atomic_fetch_sub(&to->calls, 1);\n}\n\nvoid",
     "    if (before != NULL)\n        uv_async_send(&to->wake);\n"
     "    atomic_fetch_sub(&to->calls, 1);\n}\n\nvoid"),
    ("answer-not-posted", "app/sale/handover.c",
     "    if (list_is_empty(&to->link))\n        list_append",
     "    if (list_is_empty(&to->link) && outcome != OUTCOME_SOLD_OUT)\n        list_append"),
    ("answer-of-another", "app/sale/handover.c",
     "        handed->order = *order;",
     "        handed->order.user_id = order->user_id;"),
    ("place-taken-twice", "app/sale/handover.c",
     "checkout_submit_reserved(seller->options.checkout",
     "checkout_submit(seller->options.checkout"),
    ("seller-ends-first", "app/sale/handover.c",
     ": !mailbox_has_senders(&handover->mailbox);",
     ": handover->count == 0;"),
    ("script-not-sent-again", "lib/lock/batch.c",
     "    send_batch(batch);\n    redis_conn_flush(batch->server->conn);",
     "    recycle(batch);"),
]


def plant(build, name, source, text, replacement):
    """Compile the source with the defect. Returns the object."""
    original = (ROOT / source).read_text()
    folder = build / "defects" / name
    folder.mkdir(parents=True, exist_ok=True)
    changed = folder / pathlib.Path(source).name
    changed.write_text(original.replace(text, replacement))
    subprocess.run(shlex.split(os.environ["COMPILE"]) + ["-Wno-error", "-c", "-o",
                   changed.with_suffix(".o"), changed], check=True, cwd=ROOT)
    return changed.with_suffix(".o")


def link(build, source, changed):
    """Link the program with the changed object. Returns the path of the program."""
    replaced = str(build / pathlib.Path(source).with_suffix(".o"))
    words = [word for word in shlex.split(os.environ["LINK"]) if word != replaced]
    program = changed.parent / "simulate"
    first = next(at for at, word in enumerate(words) if word.endswith(".o"))
    subprocess.run(words[:first] + [changed] + words[first:] + ["-o", program], check=True,
                   cwd=ROOT)
    return program


def run(program, count):
    """Run the simulator. Returns the number of the schedule that failed, or 0, and a message."""
    done = subprocess.run([program, SEED, str(count)], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True)
    found = re.search(r"schedule (\d+): (.*)", done.stderr)
    return (int(found[1]), found[2]) if found else (0, "not found")


def check():
    table = pathlib.Path(__file__).with_name("README.md").read_text()
    for name, source, text, _ in DEFECTS:
        if f"\n| {name} |" not in table:
            sys.exit(f"{name}: the table in README.md lacks it")
        if (ROOT / source).read_text().count(text) != 1:
            sys.exit(f"{name}: its text is not found exactly once in {source}")


def main(build, count, names):
    missed = 0
    check()
    if count == 0:
        return 0
    for name, source, text, replacement in DEFECTS:
        if names and name not in names:
            continue
        changed = plant(build, name, source, text, replacement)
        schedules, what = run(link(build, source, changed), count)
        missed += schedules == 0
        print(f"{name:30} {schedules or 'never':>7}  {what}", flush=True)
    print(f"simulator: {missed} of the planted defects are not found within {count} schedules")
    return missed > 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
