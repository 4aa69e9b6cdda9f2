# SPDX-License-Identifier: Apache-2.0
"""The directory of fetched and built things.

An entry is a directory named by the hash of all that went into it, so nothing in
the cache can be stale: other input is another entry. An entry is made under
another name and renamed when complete, so an interrupted run leaves no half one.
"""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import tempfile

# Old entries of a kind that are kept: enough to go back and forth between branches.
_KEPT = 4


def root():
    """The cache directory, which need not exist yet."""
    if given := os.environ.get("QPBROKER_LAB_CACHE"):
        return pathlib.Path(given).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base).absolute() / "qpbroker-lab"


def digest(*parts):
    """A short hash of strings and of the contents of files (pathlib.Path)."""
    total = hashlib.sha256()
    for part in parts:
        data = part.read_bytes() if isinstance(part, pathlib.Path) else part.encode()
        total.update(b"%d:" % len(data))
        total.update(data)
    return total.hexdigest()[:16]


@contextlib.contextmanager
def locked():
    """Keeps two runners that share a cache from filling it at the same time."""
    root().mkdir(parents=True, exist_ok=True)
    with open(root() / "lock", "w", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def entry(kind, key, make):
    """Returns the directory kind/key; make(directory) fills it if it is not there."""
    path = root() / kind / key
    if path.is_dir():
        os.utime(path)  # Counts as recently used.
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob("new-*"):
        shutil.rmtree(left)
    new = pathlib.Path(tempfile.mkdtemp(prefix="new-", dir=path.parent))
    make(new)
    new.chmod(0o755)
    new.rename(path)
    _prune(path.parent)
    return path


def _prune(kind_dir):
    entries = sorted(kind_dir.iterdir(), key=lambda p: p.stat().st_mtime, reverse=True)
    for old in entries[_KEPT:]:
        shutil.rmtree(old)
