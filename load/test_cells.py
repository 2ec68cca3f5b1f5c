"""The parts of `seckill cells` that need no database."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import re
import tempfile
import unittest

SCRIPT = f"{os.path.dirname(os.path.abspath(__file__))}/../app/install/seckill-cells"


def load_script():
    loader = importlib.machinery.SourceFileLoader("seckill_cells", SCRIPT)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("seckill_cells", loader))
    loader.exec_module(module)
    return module


script = load_script()


def cell(name, number, cells):
    made = script.Database(name, "postgresql://", [f"{name}:8080"])
    made.number, made.cells, made.vouchers = number, cells, 1
    return made


class Ending(unittest.TestCase):
    def test_matches_the_numbers_of_the_cell_only(self):
        for bits in (0, 1, 2, 3, 5):
            for number in {0, (1 << bits) // 3, (1 << bits) - 1}:
                pattern = re.compile(script.ending(number, bits))
                for each in [*range(330), 2**43 - 1, 2**43 + number]:
                    self.assertEqual(bool(pattern.fullmatch(str(each))), each % (1 << bits) == number, (each, number, bits))


class Owners(unittest.TestCase):
    def check(self, *cells):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            is_broken = script.check_owners([cell(f"c{at}", *each) for at, each in enumerate(cells)])
        self.assertEqual(is_broken, out.getvalue() != "")
        return out.getvalue()

    def test_cells_of_different_sizes_own_all(self):
        self.assertEqual(self.check((0, 4), (2, 4), (1, 2)), "")

    def test_a_gap_and_an_overlap(self):
        self.assertEqual(self.check((0, 4), (1, 2), (3, 4)),
                         "broken: 256 of 1024 buckets, the first is 2, are owned by no cell\n"
                         "broken: 256 of 1024 buckets, the first is 3, are owned by c1 and c2\n")


class Password(unittest.TestCase):
    def test_is_taken_out_of_the_url(self):
        for url, rest, password in (
                ("postgresql://me:a%40b@h:1,i:2/d", "postgresql://me@h:1,i:2/d", "a@b"),
                ("postgresql://h/d?password=a%26b&sslmode=require", "postgresql://h/d?sslmode=require", "a&b"),
                ("postgresql://me:no@h/d?sslmode=require&password=yes", "postgresql://me@h/d?sslmode=require", "yes"),
                ("postgresql://me@h/d?sslmode=require", "postgresql://me@h/d?sslmode=require", None)):
            self.assertEqual(script.without_password(url), (rest, password), url)


class Options(unittest.TestCase):
    def test_take_any_name_of_a_role(self):
        self.assertEqual(script.options_of('my "new" \\o'), '-c role=my\\ "new"\\ \\\\o')


class File(unittest.TestCase):
    def read(self, text):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(text)
            file.flush()
            return [(each.name, each.url, each.servers) for each in script.read_file(file.name)]

    def test_names_cells(self):
        self.assertEqual(self.read("# comment\n\na postgresql://x h:1 h:2\nb postgresql://y\n"),
                         [("a", "postgresql://x", ["h:1", "h:2"]), ("b", "postgresql://y", [])])

    def test_a_wrong_line(self):
        for text in ("a\n", "a dbname=x\n", "A postgresql://x\n", "a postgresql://x\na postgresql://y\n"):
            with self.assertRaises(script.Ended) as ended:
                self.read(text)
            self.assertEqual(ended.exception.args[1], script.USAGE)


if __name__ == "__main__":
    unittest.main()
