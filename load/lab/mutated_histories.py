#!/usr/bin/env -S python3 -B
"""mutated_histories.py CHECKER - test the checker: it must accept a correct history, and report
the right rule for each of its mutations."""

import re
import subprocess
import sys
import tempfile

# Times are written as "@" and seconds.
TABLE = """\
voucher 9 @10 @50 1 0
stock 9 200 @0 1
order 9 201 6 @51 -
entry 9 6 1
entry 9 7 0
voucher 7 @10 @90 1 2
stock 7 99 @0 2
order 7 100 1 @11.1 a
order 7 101 2 @13.1 -
end 7 102 @20.1 101
stock 7 103 @30.1 1
stock 7 106 @96.5 1
order 7 104 4 @40.1 d
"""
HISTORY = """\
> 1 @1 order 1 7 a
< 1 @1.1 409 not_started -
> 2 @11 order 1 7 a
> 3 @11.1 order 1 7 a
< 3 @11.15 409 order_in_progress -
< 2 @11.2 201 - 100
> 4 @12 order 1 7 a
< 4 @12.1 200 - 100
> 5 @12.5 order 1 7 -
< 5 @12.6 409 already_ordered 100
> 6 @13 order 2 7 -
< 6 @13.2 201 - 101
> 7 @14 order 3 7 c
< 7 @14.1 409 sold_out -
> 8 @20 cancel 2 7 101
< 8 @20.2 200 - 101
> 9 @21 cancel 2 7 101
< 9 @21.1 409 wrong_state -
> 10 @30 restock 0 7 1
< 10 @30.2 200 - -
> 11 @40 order 4 7 d
> 12 @95 order 5 7 -
< 12 @95.1 409 sale_ended -
> 13 @96 restock 0 7 1
< 13 @96.2 503 outcome_unknown -
> 14 @20 order 6 9 e
< 14 @20.1 202 - -
> 15 @52 order 6 9 e
< 15 @52.1 202 - -
> 16 @22 order 7 9 -
"""
CORRECT = TABLE + "--\n" + HISTORY

# The defect, the rule that must be violated, the text to replace and its replacement.
MUTATIONS = [
    ("an unexpected answer", "answers", "409 sale_ended", "403 forbidden"),
    ("a voucher that does not exist", "answers", "order 3 7 c", "order 3 8 c"),
    ("two answers to a request", "answers", "> 12", "< 1 @2 409 sold_out -\n> 12"),
    ("an answer to no request", "answers", "> 12", "< 0 @2 409 sold_out -\n> 12"),
    ("a 201 without a row", "acknowledged", "order 7 104 4 @40.1 d",
     "order 7 104 4 @40.1 d\n--\n> 1 @41 order 5 7 -\n< 1 @41.1 201 - 105"),
    ("the row of another shopper", "acknowledged", "order 7 101 2", "order 7 101 9"),
    ("the row of another key", "acknowledged", "@13.1 -", "@13.1 x"),
    ("a row created after the answer", "acknowledged", "2 @13.1", "2 @13.3"),
    ("a second 201 for a row", "acknowledged", "200 - 100", "201 - 100"),
    ("sold out for a key that has an order", "same_key", "200 - 100", "409 sold_out -"),
    ("another order for the same key", "same_key", "200 - 100", "200 - 101"),
    ("a key that did not create the order", "same_key", "> 4 @12 order 1 7 a", "> 4 @12 order 1 7 b"),
    ("more rows than stock", "stock", "99 @0 2", "99 @0 1"),
    ("stock that disappeared", "stock", "@90 1 2", "@90 1 1"),
    ("two orders of a shopper", "limit", "order 7 104", "order 7 98 4 @40 d\norder 7 104"),
    ("a row before the opening", "window", "@10 @90", "@12 @90"),
    ("a row after the end", "window", "@10 @90", "@10 @40"),
    ("sold out while there was stock", "sold_out", "99 @0 2", "99 @0 3"),
    ("sold out long after stock came back", "sold_out", "< 12 @95.1 409 sale_ended",
     "< 12 @95.1 409 sold_out"),
    ("already ordered before the order", "already_ordered", "@12.5 order 1 7 -\n< 5 @12.6",
     "@10.5 order 1 7 -\n< 5 @10.6"),
    ("already ordered after its cancellation", "already_ordered", "> 12 @95 order 5 7 -\n< 12 @95.1 "
     "409 sale_ended -", "> 12 @25 order 2 7 -\n< 12 @25.1 409 already_ordered 101"),
    ("already ordered below the limit", "already_ordered", "@10 @90 1", "@10 @90 2"),
    ("in progress without another request", "in_progress", "> 12 @95 order 5 7 -\n< 12 @95.1 409 sale_ended",
     "> 12 @80 order 5 7 -\n< 12 @80.1 409 order_in_progress"),
    ("not started while the sale was open", "clock", "> 1 @1 order 1 7 a\n< 1 @1.1",
     "> 1 @10.5 order 1 7 a\n< 1 @10.6"),
    ("ended before the end of the sale", "clock", "@95 order 5 7 -\n< 12 @95.1", "@89 order 5 7 -\n< 12 @89.1"),
    ("an acknowledged cancellation that is missing", "changes", "end 7 102 @20.1 101\n", ""),
    ("wrong state for an order that could be cancelled", "changes", "> 9 @21 cancel 2 7 101\n< 9 @21.1",
     "> 9 @19 cancel 2 7 101\n< 9 @19.1"),
    ("an acknowledged restock that is missing", "changes", "stock 7 103 @30.1 1\n", ""),
    ("a row that was not requested", "requested", "> 11 @40 order 4", "> 11 @40 order 3"),
    ("a row whose request was refused", "requested", "> 12 @95",
     "< 11 @40.2 503 unavailable -\n> 12 @95"),
    ("a cancellation that was not requested", "requested", "order 7 104",
     "end 7 105 @50 104\norder 7 104"),
    ("an acknowledged entry that is missing", "entries", "entry 9 6 1\n", ""),
    ("two entries of a shopper", "entries", "entry 9 7 0\n", "entry 9 7 0\nentry 9 7 0\n"),
    ("an entry that was not requested", "entries", "> 16 @22 order 7", "> 16 @22 order 6"),
    ("an entry after the end of the sale", "clock", "> 14 @20 order 6 9 e\n< 14 @20.1",
     "> 14 @53 order 6 9 e\n< 14 @53.1"),
    ("a winner without an order", "draw", "order 9 201 6 @51 -\n", ""),
    ("an order of an entry that has not won", "draw", "order 9 201 6", "order 9 201 7"),
    ("two orders of a winner", "draw", "order 9 201 6 @51 -\n", "order 9 201 6 @51 -\norder 9 202 6 @51 -\n"),
    ("fewer winners than stock and entries", "draw", "stock 9 200 @0 1", "stock 9 200 @0 2"),
    ("a draw before the end of the sale", "window", "order 9 201 6 @51", "order 9 201 6 @49"),
    ("a restock that was not requested", "requested", "> 10 @30 restock 0 7 1", "> 10 @30 restock 0 7 5"),
]


def violated_rules(checker, history):
    """The rules that the checker reports. "--" separates the files."""
    with tempfile.TemporaryDirectory() as place:
        paths = []
        history = re.sub(r"@([\d.]+)", lambda time: str(int(float(time[1]) * 1e6)), history)
        for part in history.split("--\n"):
            paths.append(f"{place}/{len(paths)}")
            with open(paths[-1], "w") as out:
                out.write(part)
        done = subprocess.run([checker, "--faults", *paths], capture_output=True, text=True,
                              check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"the checker failed: {done.stderr}")
    rules = [line.split() for line in done.stdout.splitlines() if line.startswith("rule ")]
    return {name for _, name, _, violations in rules if violations != "0"}


def main():
    checker = sys.argv[1]
    failures = 0
    found = violated_rules(checker, CORRECT)
    if found:
        sys.exit(f"the correct history violates {found}")
    for what, rule, text, replacement in MUTATIONS:
        if CORRECT.count(text) != 1:
            sys.exit(f"{what}: not exactly once in the history: {text}")
        found = violated_rules(checker, CORRECT.replace(text, replacement))
        if rule not in found:
            failures += 1
            print(f"not detected: {what}: expected {rule}, found {found or 'no violation'}")
    print(f"{len(MUTATIONS) - failures} of {len(MUTATIONS)} mutations were detected")
    sys.exit(failures > 0)


main()
