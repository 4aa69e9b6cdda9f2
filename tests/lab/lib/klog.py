# SPDX-License-Identifier: Apache-2.0
"""The guest kernel's messages: what in them means that the kernel is not well.

A case may pass while the kernel under it reports a bug of our module; that run is
not a good one.
"""

import re

_COMPLAINT = re.compile(
    r"\b(WARNING|BUG|Oops|Call Trace|INFO: task .* blocked|Kernel panic|general protection fault"
    r"|detected stalls?|refcount_t|UBSAN|KASAN|Memory leak)\b"
)

# A program that a case runs to see it crash: the process is not well, the kernel is.
_MEANT_TO_CRASH = re.compile(r"\btraps: opened_handle\[\d+\] general protection fault ip:")

# Lines shown from the first complaint on: a call trace with its registers.
_SHOWN = 80


class KernelLog:
    """Reads a log file that grows."""

    def __init__(self, path):
        self._path = path
        self._offset = 0

    def complaints(self):
        """What was added since the last call, from the first complaint on; [] if none."""
        lines = self._new_lines()
        for index, line in enumerate(lines):
            if _COMPLAINT.search(line) and not _MEANT_TO_CRASH.search(line):
                return lines[index : index + _SHOWN]
        return []

    def tail(self, count=20):
        """The last lines, for a guest that stopped answering."""
        self._offset = 0
        return self._new_lines()[-count:]

    def _new_lines(self):
        try:
            with open(self._path, "rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        self._offset += len(data)
        return data.decode(errors="replace").replace("\r", "").splitlines()
