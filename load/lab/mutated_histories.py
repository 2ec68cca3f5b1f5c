#!/usr/bin/env -S python3 -B
"""mutated_histories.py CHECKER - one true story, which the checker must believe, and the same with a lie in
it, for each kind of lie, which it must not."""

import re
import subprocess
import sys
import tempfile

# Times are "@" and seconds here.
TABLE = """\
voucher 7 @10 @90 1 1
stock 7 99 @0 2
order 7 100 1 @11.1 a
order 7 101 2 @13.1 -
end 7 102 @20.1 101
stock 7 103 @30.1 1
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
"""
STORY = TABLE + "--\n" + HISTORY

# What the lie is, the rule that must object, and what is put for what.
LIES = [
    ("an answer that nobody should get", "answers", "409 sale_ended", "403 forbidden"),
    ("a voucher that does not exist", "answers", "order 3 7 c", "order 3 8 c"),
    ("two answers to a request", "answers", "> 12", "< 1 @2 409 sold_out -\n> 12"),
    ("an answer to no request", "answers", "> 12", "< 0 @2 409 sold_out -\n> 12"),
    ("a 201 without a row", "acknowledged", "order 7 104 4 @40.1 d",
     "order 7 104 4 @40.1 d\n--\n> 1 @41 order 5 7 -\n< 1 @41.1 201 - 105"),
    ("the row of another shopper", "acknowledged", "order 7 101 2", "order 7 101 9"),
    ("the row of another key", "acknowledged", "@13.1 -", "@13.1 x"),
    ("a row made after the answer", "acknowledged", "2 @13.1", "2 @13.3"),
    ("a row told as new twice", "acknowledged", "200 - 100", "201 - 100"),
    ("a key told sold out afterwards", "same_key", "200 - 100", "409 sold_out -"),
    ("a key told another order", "same_key", "200 - 100", "200 - 101"),
    ("a key that did not make the order", "same_key", "> 4 @12 order 1 7 a", "> 4 @12 order 1 7 b"),
    ("more rows than stock", "stock", "99 @0 2", "99 @0 1"),
    ("stock that vanished", "stock", "@90 1 1", "@90 1 0"),
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
    ("in progress, alone", "in_progress", "> 12 @95 order 5 7 -\n< 12 @95.1 409 sale_ended",
     "> 12 @80 order 5 7 -\n< 12 @80.1 409 order_in_progress"),
    ("not started, when it was open", "clock", "> 1 @1 order 1 7 a\n< 1 @1.1",
     "> 1 @10.5 order 1 7 a\n< 1 @10.6"),
    ("ended, when it was not", "clock", "@95 order 5 7 -\n< 12 @95.1", "@89 order 5 7 -\n< 12 @89.1"),
    ("a cancellation that was none", "changes", "end 7 102 @20.1 101\n", ""),
    ("a wrong state that was right", "changes", "> 9 @21 cancel 2 7 101\n< 9 @21.1",
     "> 9 @19 cancel 2 7 101\n< 9 @19.1"),
    ("a restock that was none", "changes", "stock 7 103 @30.1 1\n", ""),
    ("a row that nobody asked for", "requested", "> 11 @40 order 4", "> 11 @40 order 3"),
    ("a row that was refused", "requested", "> 12 @95",
     "< 11 @40.2 503 unavailable -\n> 12 @95"),
    ("a cancellation that nobody asked for", "requested", "order 7 104",
     "end 7 105 @50 104\norder 7 104"),
    ("stock that nobody added", "requested", "> 10 @30 restock 0 7 1", "> 10 @30 restock 0 7 5"),
]


def broken_rules(checker, story):
    """What the checker objects to. The parts of a story are its files."""
    with tempfile.TemporaryDirectory() as place:
        paths = []
        story = re.sub(r"@([\d.]+)", lambda time: str(int(float(time[1]) * 1e6)), story)
        for part in story.split("--\n"):
            paths.append(f"{place}/{len(paths)}")
            with open(paths[-1], "w") as out:
                out.write(part)
        done = subprocess.run([checker, "--faults", *paths], capture_output=True, text=True,
                              check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"lies: {done.stderr}")
    rules = [line.split() for line in done.stdout.splitlines() if line.startswith("rule ")]
    return {name for _, name, _, broken in rules if broken != "0"}


def main():
    checker = sys.argv[1]
    failures = 0
    found = broken_rules(checker, STORY)
    if found:
        sys.exit(f"lies: the truth was not believed: {found}")
    for lie, rule, true, false in LIES:
        if STORY.count(true) != 1:
            sys.exit(f"lies: {lie}: not once in the story: {true}")
        found = broken_rules(checker, STORY.replace(true, false))
        if rule not in found:
            failures += 1
            print(f"believed: {lie}; {rule} should object, but {found or 'none'} did")
    print(f"{len(LIES) - failures} of {len(LIES)} lies were seen")
    sys.exit(failures > 0)


main()
