"""progress.py - where a long run stands: its step, time gone, time left, a live rate.

On a terminal one line that is written anew each second; elsewhere a plain line when a step
begins.

    with Progress("bench", [("orders", 5), ("refusals", 5)]) as progress:
        progress.begin("orders", service.placed, "orders")
        ...
        progress.tell("a line of the run's own")
"""

import http.client
import shutil
import sys
import threading
import time


def minutes(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


class Progress:
    """`steps` are names, with the seconds that each is expected to take, in order; a name may
    come again. Without `lines` nothing is written where there is no terminal: for a run that
    has a line of its own for each step."""

    def __init__(self, run, steps, lines=True, out=None, clock=time.monotonic, every_s=1):
        self.run, self.steps, self.lines = run, list(steps), lines
        self.out, self.clock, self.every_s = out or sys.stdout, clock, every_s
        self.is_live = self.out.isatty()
        self.began = self.step_began = clock()
        self.at = -1 # which of the steps
        self.steps_took_s = 0 # those that are over
        self.counter, self.unit = None, ""
        self.last = None # time and count when it was last looked at
        self.rate = None
        self.lock = threading.Lock()
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.follow, daemon=True)

    def __enter__(self):
        if self.is_live:
            self.thread.start()
        return self

    def __exit__(self, *_error):
        if self.is_live:
            self.is_over.set()
            self.thread.join()
            self.write("")

    def begin(self, name, counter=None, unit=""):
        """The next step of that name; those before it that have not begun are left out.
        `counter` is asked each second how many `unit` there were so far; it may fail with an
        OSError, as when nobody listens."""
        with self.lock:
            now = self.clock()
            if self.at >= 0:
                self.steps_took_s += now - self.step_began
            names = [each for each, _ in self.steps]
            del self.steps[self.at + 1:names.index(name, self.at + 1)]
            self.at += 1
            self.step_began = now
            self.counter, self.unit, self.last, self.rate = counter, unit, None, None
        if self.is_live:
            self.write(self.line())
        elif self.lines:
            self.write(self.line() + "\n")

    def tell(self, text):
        """A line of the run itself, which stays."""
        self.write(text + "\n")
        if self.is_live and self.at >= 0:
            self.write(self.line())

    def left_s(self):
        """By the plan, corrected by how long the steps that are over really took."""
        over = sum(expected for _, expected in self.steps[:self.at])
        slowness = self.steps_took_s / over if over else 1
        this = slowness * self.steps[self.at][1] - (self.clock() - self.step_began)
        return max(0, this) + slowness * sum(expected for _, expected in self.steps[self.at + 1:])

    def line(self):
        rate = f", {self.rate:,.0f} {self.unit}/s" if self.rate is not None else ""
        return (f"{self.run}: {self.steps[self.at][0]} ({self.at + 1} of {len(self.steps)}), "
                f"{minutes(self.clock() - self.began)} gone, {minutes(self.left_s())} left{rate}")

    def follow(self):
        """The thread."""
        while not self.is_over.wait(self.every_s):
            self.look()

    def look(self):
        """Ask the counter, and write the line anew."""
        counter = self.counter
        count = ask(counter)
        with self.lock:
            if counter is not self.counter or self.at < 0:
                return # another step has begun meanwhile
            now, last = self.clock(), self.last
            self.last = (now, count) if count is not None else None
            # A count that falls is that of a server that was started anew.
            self.rate = ((count - last[1]) / (now - last[0])
                         if self.last and last and now > last[0] and count >= last[1] else None)
        self.write(self.line())

    def write(self, text):
        if self.is_live:
            width = shutil.get_terminal_size().columns
            text = "\r\x1b[K" + (text if text.endswith("\n") else text[:width - 1])
        with self.lock:
            self.out.write(text)
            self.out.flush()


def ask(counter):
    """What a counter says, or None."""
    try:
        return counter() if counter else None
    except (OSError, http.client.HTTPException):
        return None
