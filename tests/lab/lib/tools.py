# SPDX-License-Identifier: Apache-2.0
"""The host tools that the lab needs, and running them.

They are all looked for before anything is done, so that a missing one is named
together with its Debian package and not met half-way as a stack trace.
"""

import glob
import os
import shutil
import subprocess

from lib.report import LabError

# Debian keeps some of these in directories that are not in every user's PATH.
_SBIN = ["/usr/local/sbin", "/usr/sbin", "/sbin"]

REQUIRED = {
    "apt-get": "apt",
    "busybox": "busybox-static",
    "depmod": "kmod",
    "dpkg": "dpkg",
    "gcc": "gcc",
    "ibv_devinfo": "ibverbs-utils",
    "ldd": "libc-bin",
    "make": "make",
    "pgrep": "procps",
    "qemu-system-x86_64": "qemu-system-x86",
    "rdma": "iproute2",
    "setpriv": "util-linux",
    "zstd": "zstd",
}

REQUIRED_FILES = {
    "/etc/libibverbs.d/mlx4.driver": "ibverbs-providers",
    "/usr/include/infiniband/verbs.h": "libibverbs-dev",
    "/usr/lib/*/libelf.so.1": "libelf1 (Debian 13: libelf1t64)",
}


def find(name):
    """The path of a host program, or None."""
    path = os.pathsep.join([os.environ.get("PATH", "/usr/bin:/bin"), *_SBIN])
    return shutil.which(name, path=path)


def check():
    """Raises LabError with all missing packages."""
    missing = {p: n for n, p in REQUIRED.items() if not find(n)}
    missing.update((p, n) for n, p in REQUIRED_FILES.items() if not glob.glob(n))
    if missing:
        raise_missing(missing)


def raise_missing(missing):
    """Raises LabError for a dict of package: the file that is missing."""
    lines = [f"  {package:<20} (for {name})" for package, name in sorted(missing.items())]
    raise LabError("these Debian packages are missing:\n" + "\n".join(lines))


def run(argv, what, cwd=None, merge=False):
    """Runs a host program and returns its standard output, with merge also its errors.

    Raises LabError with all that it said if it fails.
    """
    argv = [find(argv[0]) or argv[0], *argv[1:]]
    done = subprocess.run(
        argv,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if merge else subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        output = (done.stdout + (done.stderr or "")).strip()
        raise LabError(f"{what} failed ({' '.join(argv)}):\n{output}")
    return done.stdout
