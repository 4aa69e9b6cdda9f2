# SPDX-License-Identifier: Apache-2.0
"""Build results, kept by the hash of what they were made from.

A result is a directory `<kind>-<hash>`.  It is made under a temporary name and
renamed when complete, so an interrupted build leaves nothing half done.
"""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import tempfile


def root():
    """The cache directory; created on first use."""
    path = os.environ.get("QPBROKER_LAB_CACHE")
    if not path:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        path = os.path.join(base, "qpbroker-lab")
    path = pathlib.Path(path).resolve()
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextlib.contextmanager
def lock():
    """Held while building, so that two runs do not build the same thing twice."""
    with open(root() / "lock", "w", encoding="ascii") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def digest(files, *extra):
    """Hashes names and contents of files, and strings that matter besides."""
    state = hashlib.sha256()
    for text in extra:
        state.update(f"{len(text)}:{text}".encode())
    for path in sorted(files):
        data = path.read_bytes()
        state.update(f"{path.name}:{len(data)}:".encode())
        state.update(data)
    return state.hexdigest()[:16]


def result(kind, key, build):
    """The directory `<kind>-<key>`, made by build(directory) if it is missing.

    Older results of the same kind are removed: they would pile up.
    """
    final = root() / f"{kind}-{key}"
    if final.is_dir():
        return final
    work = pathlib.Path(tempfile.mkdtemp(prefix=f".{kind}-", dir=root()))
    try:
        build(work)
        for old in root().glob(f"{kind}-*"):
            shutil.rmtree(old)
        work.chmod(0o755)
        work.rename(final)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    return final
