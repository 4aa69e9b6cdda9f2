# SPDX-License-Identifier: Apache-2.0
"""What the terminal shows.

Starting a lab takes long enough that silence looks like a hang: each step says
what it does before it does it, and how long it took.
"""

import contextlib
import sys
import time


class LabError(Exception):
    """The lab cannot run; the message tells the user what to do about it."""


def say(text):
    """Prints one line at once, also into a pipe."""
    print(text, flush=True)


@contextlib.contextmanager
def step(text):
    """Announces a step, then completes its line with the seconds it took."""
    begin = time.monotonic()
    say(f"lab: {text} ...")
    yield
    say(f"lab: {text}: {time.monotonic() - begin:.1f} s")


class Pending:
    """The name of the running case on a terminal; its verdict overwrites it.

    A pipe gets the verdict only, so that a log holds one line for each case.
    """

    def __init__(self, name):
        self._shown = sys.stdout.isatty()
        if self._shown:
            print(f"...  {name}", end="", flush=True)

    def clear(self):
        """Removes the name."""
        if self._shown:
            print("\r\033[K", end="", flush=True)
