"""test_mutants.py - which changes a small source of each language gets, and how some are drawn."""

import pathlib
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import c
import changes
import impact
import lines
import lua
import measure
import run
import sql
import tree

C = """\
#include <stdbool.h>
enum status { STATUS_OK, STATUS_BUSY, STATUS_IO };
enum order { memory_order_relaxed, memory_order_seq_cst };
#define LIMIT 3
#define CHECK(x) ((x) < 9 ? 0 : abort())
void abort(void);
void log_event(const char *text, int number);
void move(int from, int to);
void load(enum order order);
static bool is_open;
enum status take(int count, int most)
{
    CHECK(count);
    if (count < most && count > LIMIT)
        return STATUS_BUSY;
    log_event("took", 7);
    move(count, most);
    is_open = true;
    load(memory_order_relaxed);
    return STATUS_OK;
}
"""

TLS = """\
void redis_tls_start(void *tls);
void redis_tls_open(int is_tls);
void watch(void *tls, int is_tls)
{
    if (tls != 0) {
        is_tls = 3;
        redis_tls_start(tls);
    }
    redis_tls_open(is_tls);
}
void write_tls(int count)
{
    watch(0, count);
}
"""

FUNCTION = """\
create or replace function take(p_count bigint) returns bigint
language plpgsql
as $$
declare
    v_left bigint := 5;
begin
    if p_count <= 0 then
        raise exception 'count 7';
    end if;
    update stock set count = count - p_count where count >= p_count and id between 1 and 2;
    return v_left;
end
$$;
revoke execute on function take from public;
"""

QUERY = "-- The open ones.\nselect id from voucher where is_open = true or ($1 < id and id < 9) order by id limit 1000\n"

LUA = """\
local owner = redis.call('GET', KEYS[1])
if owner == ARGV[1] and not ARGV[2] then
  redis.call('DEL', KEYS[1])
  return 1
end
return 0
"""


def shown(path, text):
    with tempfile.TemporaryDirectory() as root:
        return {(each.line, each.shown) for each in changes.changes_of(path, text, root)}


class Changes(unittest.TestCase):
    maxDiff = None

    def test_c__changes_statements_conditions_operators_constants_and_arguments(self):
        self.assertEqual(shown("lib/base/take.c", C), {
            (14, "delete the statement: if (count < most && count > LIMIT) return STATUS_BUSY;"),
            (14, "negate the condition: count < most && count > LIMIT -> !(count < most && count > LIMIT)"),
            (14, "replace the operator: < -> <="),
            (14, "delete the condition: count < most &&"),
            (14, "delete the condition: && count > LIMIT"),
            (14, "replace the operator: > -> >="),
            (15, "replace the constant: STATUS_BUSY -> STATUS_IO"),
            (17, "delete the statement: move(count, most);"),
            (17, "swap the arguments: count, most -> most, count"),
            (18, "delete the statement: is_open = true;"),
            (18, "replace the constant: true -> false"),
            (19, "delete the statement: load(memory_order_relaxed);"),
            (20, "delete the statement: return STATUS_OK;"),
            (20, "replace the constant: STATUS_OK -> STATUS_BUSY")})

    def test_c__leaves_out_tls_in_a_build_without_it(self):
        always = {(9, "delete the statement: redis_tls_open(is_tls);")}
        for has_tls in (False, True):
            with unittest.mock.patch.object(c, "has_tls", lambda has=has_tls: has):
                found = shown("lib/redis/take.c", TLS)
            self.assertEqual({each for each in found if each[0] == 9}, always)
            self.assertEqual({each[0] for each in found}, {5, 6, 7, 9, 13} if has_tls else {9})

    def test_c__leaves_out_the_size_of_memory(self):
        text = "void *malloc(unsigned long);\nvoid *take(unsigned long count)\n{\n    return malloc(count + 1);\n}\n"
        self.assertEqual(shown("lib/base/take.c", text), {(4, "delete the statement: return malloc(count + 1);")})

    def test_c__replaces_the_last_of_an_enum_with_attributes_by_the_first(self):
        text = ("enum __attribute__((flag_enum, enum_extensibility(open))) set { EMPTY, FULL };\n"
                "void put(enum set set);\nvoid take(void)\n{\n    put(FULL);\n}\n")
        self.assertIn((5, "replace the constant: FULL -> EMPTY"), shown("lib/base/take.c", text))

    def test_c__leaves_out_the_size_of_an_array(self):
        text = ("void put(char *text);\nvoid take(char given[3])\n{\n    char one[7], sum[sizeof(int) + 2 * (sizeof(long) + 3)];\n"
                "    char less[9 - 1], list[2] = {5};\n    put(one);\n}\n")
        numbers = {change for _line, change in shown("lib/base/take.c", text) if change.startswith("replace the constant")}
        self.assertEqual(numbers, {f"replace the constant: {number} -> {number + 1}" for number in (9, 1, 5)})

    def test_c__leaves_out_which_of_two_equal_values_is_taken(self):
        text = ("int take(int a, int b, int c)\n{\n    if (a < b)\n        a = b;\n    if (a < b)\n        a = c;\n"
                "    return a > c ? c : a;\n}\n")
        replaced = {line for line, change in shown("lib/base/take.c", text) if change.startswith("replace the operator")}
        self.assertEqual(replaced, {5})

    def test_sql__changes_the_body_of_a_function(self):
        self.assertEqual(shown("sql/functions/take.sql", FUNCTION), {
            (5, "replace the constant: 5 -> 6"),
            (7, "delete the statement: if p_count <= 0 then raise exception 'count 7'; end if;"),
            (7, "replace the operator: <= -> <"),
            (7, "replace the constant: 0 -> 1"),
            (8, "delete the statement: raise exception 'count 7';"),
            (10, "delete the statement: update stock set count = count - p_count where count >= p_count"
                 " and id between 1 and 2;"),
            (10, "delete the condition: count >= p_count and"),
            (10, "delete the condition: and id between 1 and 2"),
            (10, "replace the operator: >= -> >"),
            (10, "replace the constant: 1 -> 2"),
            (10, "replace the constant: 2 -> 3"),
            (11, "delete the statement: return v_left;"),
            (14, "delete the statement: revoke execute on function take from public;")})

    def test_sql__changes_a_function_behind_the_drop_of_an_old_one(self):
        dropped = "drop function if exists take(integer);\n"
        self.assertEqual(shown("sql/functions/take.sql", dropped + FUNCTION), {
            (1, "delete the statement: drop function if exists take(integer);"),
            *((line + 1, change) for line, change in shown("sql/functions/take.sql", FUNCTION))})

    def test_sql__keeps_the_limit_of_select_into(self):
        taken = FUNCTION.replace("    return v_left;", "    select id into v_left from stock order by id limit 1;\n"
                                 "    select array(select id from stock order by id limit 1) into v_left;")
        added = {change for line, change in shown("sql/functions/take.sql", taken) if line in (11, 12)}
        self.assertEqual(sorted(each for each in added if each.startswith("replace")), ["replace the constant: 1 -> 2"])

    def test_sql__leaves_out_when_exactly_by_the_clock(self):
        text = FUNCTION.replace("    return v_left;", "    v_left := unix_us(clock_timestamp());\n"
                                "    if p_count >= v_left or p_count <> v_left or p_count > clock_timestamp() or p_count < 9"
                                " then return 0; end if;")
        self.assertEqual({change for line, change in shown("sql/functions/take.sql", text)
                          if line == 12 and change.startswith("replace the operator")},
                         {"replace the operator: <> -> =", "replace the operator: < -> <="})

    def test_sql__leaves_out_how_many_rows_exist(self):
        text = "select exists (select from (select from stock order by id limit 2) s limit 3) limit 4\n"
        self.assertEqual(shown("sql/queries/any.sql", text), {(1, "replace the constant: 4 -> 5")})

    def test_sql__changes_a_query(self):
        self.assertEqual(shown("sql/queries/open.sql", QUERY), {
            (2, "replace the operator: = -> <>"),
            (2, "replace the constant: true -> false"),
            (2, "delete the condition: is_open = true or"),
            (2, "delete the condition: or ($1 < id and id < 9)"),
            (2, "delete the condition: $1 < id and"),
            (2, "delete the condition: and id < 9"),
            (2, "replace the operator: < -> <="),
            (2, "replace the constant: 9 -> 10"),
            (2, "replace the constant: 1000 -> 1000000")})

    def test_lua__changes_statements_and_conditions(self):
        self.assertEqual(shown("lib/lock/lua/take.lua", LUA), {
            (2, "delete the statement: if owner == ARGV[1] and not ARGV[2] then redis.call('DEL', KEYS[1]) return 1 end"),
            (2, "negate the condition: owner == ARGV[1] and not ARGV[2] -> not (owner == ARGV[1] and not ARGV[2])"),
            (2, "delete the condition: owner == ARGV[1] and"),
            (2, "delete the condition: and not ARGV[2]"),
            (2, "replace the operator: == -> ~="),
            (3, "delete the statement: redis.call('DEL', KEYS[1])"),
            (4, "delete the statement: return 1"),
            (6, "delete the statement: return 0")})

    def test_change__keeps_the_numbers_of_lines(self):
        for path, text in (("sql/functions/take.sql", FUNCTION), ("lib/lock/lua/take.lua", LUA)):
            for change in changes.changes_of(path, text):
                self.assertEqual(change.apply(text).count("\n"), text.count("\n"), change.shown)

    def test_equivalents__are_left_out(self):
        listed = "# comment\n\nlib/base/take.c\nmove(count, most);\nswap the arguments: count, most -> most, count\nequal\n"
        self.assertEqual(changes.equivalents(listed), {
            ("lib/base/take.c", "move(count, most);", "swap the arguments: count, most -> most, count")})
        with self.assertRaises(ValueError):
            changes.equivalents("lib/base/take.c\nmove(count, most);\n")

    def test_equivalents__name_lines_that_exist(self):
        """A change of a renamed or moved line would be tested again."""
        for path, line, change in sorted(changes.equivalents()):
            lines = (changes.EQUIVALENT.parents[2] / path).read_text().splitlines()
            self.assertIn(line, [changes.one_line(each) for each in lines], f"{path}: {change}")

    def test_marked__logs_each_statement_in_its_line(self):
        marked = sql.marked(FUNCTION, lambda line: f"line {line}")
        self.assertIn("    raise log 'line 7'; if p_count", marked)
        self.assertIn("        raise log 'line 8'; raise exception", marked)
        self.assertTrue(sql.is_sql(marked))
        self.assertIn("'line 3') redis.call('DEL'", lua.marked(LUA, lambda line: f"line {line}"))


class Compile(unittest.TestCase):
    def test_compile__needs_an_object_with_sanitizers(self):
        makefile = ("build/lib/base/take.o: lib/base/take.c\n"
                    "\t@case '$(CFLAGS)' in *sanitize*) exit 1;; esac; cp $< $@\n")
        with tempfile.TemporaryDirectory() as root:
            copy = tree.Tree(root)
            for path, text in (("Makefile", makefile), ("lib/base/take.c", "new"), ("build/lib/base/take.o", "old")):
                (copy.root / path).parent.mkdir(parents=True, exist_ok=True)
                (copy.root / path).write_text(text)
            change = changes.Change("lib/base/take.c", 1, 0, 3, "other", "replace the text")
            self.assertEqual(copy.compile(change), "does not compile")
            self.assertEqual((copy.read("lib/base/take.c"), copy.read("build/lib/base/take.o")), ("new", "old"))


class Draw(unittest.TestCase):
    def test_shares__follow_the_lines_and_sum_up(self):
        self.assertEqual(run.shares({"a": 500, "b": 300, "c": 200}, 11), {"a": 6, "b": 3, "c": 2})

    def test_draw__gives_each_mutant_candidates_of_its_own(self):
        found = {"a": list(range(10)), "b": list(range(100, 104))}
        drawn = run.draw(found, {"a": 3, "b": 1}, 4, "7")
        self.assertEqual(len(drawn), 4)
        self.assertEqual(sorted(sum(drawn, [])), sorted(found["a"] + found["b"]))
        self.assertEqual(drawn, run.draw(found, {"a": 3, "b": 1}, 4, "7"))
        self.assertNotEqual(drawn, run.draw(found, {"a": 3, "b": 1}, 4, "8"))


class Lines(unittest.TestCase):
    def test_ranges__come_back_as_numbers(self):
        self.assertEqual(lines.ranges_of([3, 1, 2, 7]), "1-3,7")
        self.assertEqual(list(lines.numbers_of("1-3,7")), [1, 2, 3, 7])
        self.assertEqual(list(lines.numbers_of("")), [])

    def test_fitting__leaves_out_what_is_too_long(self):
        seconds = {"a": 5, "b": 3, "c": 4}
        self.assertEqual(lines.fitting("abc", seconds.get, 9), (["a", "b"], ["c"]))
        self.assertEqual(lines.fitting("abc", seconds.get, 1), (["a"], ["b", "c"]))

    def test_changed_lines__of_an_insertion_are_its_neighbours(self):
        self.assertEqual(impact.changed_lines(["a", "b", "c"], ["a", "b", "x", "c"]), {2, 3})
        self.assertEqual(impact.changed_lines(["a", "b", "c"], ["a", "c"]), {2})

    def test_translated__follows_lines_that_moved(self):
        self.assertEqual(impact.translated({2}, ["a", "b"], ["new", "a", "b"]), {3})

    def test_logs__tell_a_statement_from_the_text_of_a_function(self):
        text = ("2026-01-01 [1] a@b LOG:  statement: create or replace function beat()\n"
                "\t    raise log 'mutants-line sql/functions/beat.sql:8';\n"
                "2026-01-01 [1] a@b LOG:  mutants-line sql/functions/beat.sql:10\n"
                "2026-01-01 [1] a@b LOG:  execute find: /*mutants-line sql/queries/find.sql:0*/ select *\n"
                "\tfrom find_orders($1, $2, $3)\n"
                "1:M 01 Jan 2026 # mutants-line lib/lock/lua/renew.lua:3\n")
        with tempfile.NamedTemporaryFile("w") as log:
            log.write(text)
            log.flush()
            self.assertEqual(measure.lines_of_logs([log.name]), (
                {"sql/functions/beat.sql": {10}, "sql/queries/find.sql": {0}, "lib/lock/lua/renew.lua": {3}},
                {"find_orders"}))

    def test_statements__are_executed_as_a_whole(self):
        path = "sql/functions/find_orders.sql" # one statement of many lines, below a declaration
        text = (tree.ROOT / path).read_text()
        first = text[:text.index("return query")].count("\n") + 1
        known = lines.Map()
        known.programs = {"one": {"lines": {path: str(first)}, "failure": None}}
        measure.add_whole_statements(known)
        declared = text[:text.index("v_limit bigint")].count("\n") + 1
        for line in (declared, first, first + 5):
            self.assertEqual(known.executing(path, [line]), {"one"}, line)

    def test_order__is_units_then_thorough_then_near_then_quick(self):
        path = "app/store/store.c"
        known = lines.Map()
        known.programs = {name: {"seconds": seconds, "failure": None, "lines": {path: executed}} for name, seconds, executed in (
            ("app/test/http/it_quick", 1, "1-10"), ("app/test/store/it_near", 5, "1-20"), ("app/test/cmd/it_most", 9, "1-95"),
            ("app/test/cmd/it_all", 20, "1-100"), ("app/test/store/test_unit", 3, "1"))}
        self.assertEqual([name.rpartition("/")[2] for name in run.order_of(path, known.executing(path, [1]), known)],
                         ["test_unit", "it_most", "it_all", "it_near", "it_quick"])


if __name__ == "__main__":
    unittest.main()
