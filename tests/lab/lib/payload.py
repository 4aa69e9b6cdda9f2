# SPDX-License-Identifier: Apache-2.0
"""The project's own binaries, listed in payload.txt and built by Bazel.

QPBROKER_BAZEL_STARTUP and QPBROKER_BAZEL_FLAGS go to every Bazel command: they may
move the output, so the place of a binary is asked of Bazel and not assumed.
"""

import os
import pathlib
import shlex
import subprocess
import sys

from lib import cache, tools
from lib.report import LabError, step


def read_list(file):
    """The lines `<bazel target> <guest path>` of payload.txt, as pairs."""
    pairs = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if words and (len(words) != 2 or not words[0].startswith("//")):
            raise LabError(f"{file.name}:{number}: not `<bazel target> <guest path>`: {line}")
        if words:
            pairs.append(tuple(words))
    return pairs


def build(checkout, pairs, build_first=True):
    """Returns (guest path, host file) for each pair.

    Without build_first the binaries of the last build are taken as they are.
    """
    if not pairs:
        return []
    # The place is remembered, since asking Bazel may mean to start its server first.
    key = cache.digest(str(checkout), *_words("STARTUP"), *_words("FLAGS"))
    where = cache.root() / f"bazel-bin-{key}"
    if build_first or not where.exists():
        if not tools.find("bazel"):
            tools.raise_missing({"bazel-bootstrap": "bazel"})
        if build_first:
            with step(f"building {len(pairs)} binaries"):
                _bazel(checkout, "build", *(target for target, _ in pairs))
        where.write_text(_bazel(checkout, "info", "bazel-bin").strip(), encoding="utf-8")
    bazel_bin = pathlib.Path(where.read_text(encoding="utf-8"))
    files = [(guest, bazel_bin / _file_of(target)) for target, guest in pairs]
    for _, file in files:
        if not file.is_file():
            raise LabError(f"{file} does not exist; run without --no-build")
    return files


def _file_of(target):
    package, _, name = target.removeprefix("//").partition(":")
    return pathlib.PurePath(package) / (name or pathlib.PurePath(package).name)


def _words(name):
    return shlex.split(os.environ.get(f"QPBROKER_BAZEL_{name}", ""))


def _bazel(checkout, command, *more):
    """Runs Bazel and returns its standard output; a build shows what it does."""
    options = ["-c", "opt", *_words("FLAGS")]
    if not sys.stderr.isatty():
        options.append("--noshow_progress")
    quiet = command == "info"
    done = subprocess.run(
        [tools.find("bazel"), *_words("STARTUP"), command, *options, *more],
        cwd=checkout,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if quiet else None,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise LabError(f"bazel {command} failed\n{done.stderr or ''}".rstrip())
    return done.stdout
