# SPDX-License-Identifier: Apache-2.0
"""The cases on the host's side: which there are, and what becomes of each."""

import dataclasses
import pathlib
import re
import time

from lib import vm
from lib.klog import KernelLog
from lib.report import LabError, Pending, say

_DEFAULT_SECONDS = 60
_SKIPPED = 77


@dataclasses.dataclass(frozen=True)
class Case:
    """A file NN-name.sh and what its header says."""

    name: str
    timeout: int


def find(directory, filters):
    """The cases whose names contain one of the filters, all without filters, in order."""
    found = []
    for file in sorted(pathlib.Path(directory).glob("[0-9]*-*.sh")):
        if not filters or any(part in file.stem for part in filters):
            found.append(Case(file.stem, _timeout(file)))
    return found


def _timeout(file):
    header = re.search(r"^# timeout: (\d+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return int(header.group(1)) if header else _DEFAULT_SECONDS


class Results:
    """Counts verdicts, prints each as it falls, and says whether all is well."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def passes(self, name, seconds):
        """The case did what it promises."""
        self.passed += 1
        say(f"PASS {name} ({seconds:.1f} s)")

    def fails(self, name, why, output=""):
        """The case failed; all that it printed is shown."""
        self.failed += 1
        say(f"FAIL {name}")
        for line in [*output.splitlines(), *why.splitlines()]:
            say(f"    {line}")

    def skips(self, name, reason):
        """The case cannot run here, by its own word."""
        self.skipped += 1
        say(f"SKIP {name}: {reason}")

    def close(self):
        """Prints the closing line; returns whether the run as a whole passed."""
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        say(f"{self.passed} passed, {self.failed} failed{skipped}")
        return self.passed > 0 and self.failed == 0


def run_all(cases, boot, log_file):
    """Runs the cases in one guest, which boot() starts; returns the Results."""
    results = Results()
    log = KernelLog(log_file)
    left = list(cases)
    try:
        with boot() as machine:
            _check(results, log, "boot")
            while left:
                _run_one(machine, left[0], results, log)
                left.pop(0)
            _check(results, log, "the kernel after the last case")
    except vm.Stopped as error:
        said = "\n".join(log.complaints() or log.tail())
        results.fails(left.pop(0).name, f"the virtual machine hung or died: {error}", said)
        for case in left:
            results.fails(case.name, "not run: the virtual machine hung or died before")
    except LabError as error:
        for case in left:
            results.fails(case.name, "not run")
        say(f"lab: {error}")
        for line in log.tail():
            say(f"    {line}")
    return results


def _check(results, log, name):
    complaints = log.complaints()
    if complaints:
        results.fails(name, "the kernel complains (above)", "\n".join(complaints))


def _run_one(machine, case, results, log):
    output = bytearray()
    pending = Pending(case.name)
    begin = time.monotonic()
    try:
        status = machine.run_case(case.name, case.timeout, output.extend)
    except vm.Stopped as error:
        text = output.decode(errors="replace").rstrip()
        raise vm.Stopped(f"{error}\n{text}".rstrip()) from None
    finally:
        pending.clear()
    seconds = time.monotonic() - begin
    text = output.decode(errors="replace").rstrip()
    complaints = log.complaints()
    if complaints:
        results.fails(case.name, "the kernel complains (above)", "\n".join([text, *complaints]))
    elif status == 0:
        results.passes(case.name, seconds)
    elif status == _SKIPPED:
        results.skips(case.name, text.rpartition("\n")[2] or "it gives no reason")
    else:
        results.fails(case.name, f"exit status {status} after {seconds:.1f} s", text)
