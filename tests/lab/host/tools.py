# SPDX-License-Identifier: Apache-2.0
"""What the host must have installed, and how to run it."""

import os
import shutil
import subprocess
import sys

from .error import LabError, MissingTools

# Program -> Debian package.  Programs that are copied into the guest are here too.
PACKAGES = {
    "apt-get": "apt",
    "bash": "bash",
    "busybox": "busybox-static",
    "dpkg": "dpkg",
    "gcc-12": "gcc-12",
    "ib_send_lat": "perftest",
    "ibv_devinfo": "ibverbs-utils",
    "ip": "iproute2",
    "ldd": "libc-bin",
    "make": "make",
    "qemu-system-x86_64": "qemu-system-x86",
    "rdma": "iproute2",
    "setpriv": "util-linux",
    "strace": "strace",
}
LIBMLX4 = "/usr/lib/x86_64-linux-gnu/libibverbs/libmlx4-rdmav34.so"
HEADER = "/usr/include/infiniband/verbs.h"
# Programs of the administrator are not in everyone's PATH.
SEARCH_PATH = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"


def find(program):
    """The absolute path of a program of the host, or None."""
    return shutil.which(program, path=SEARCH_PATH)


def check():
    """Raises MissingTools with the packages to install."""
    missing = {package for program, package in PACKAGES.items() if not find(program)}
    if not os.path.exists(LIBMLX4):
        missing.add("ibverbs-providers")
    if not os.path.exists(HEADER):
        missing.add("libibverbs-dev")
    if missing:
        raise MissingTools("the lab needs these packages: apt-get install " + " ".join(sorted(missing)))


def note(text):
    """Tells the user what is being done, beside the verdicts on stdout."""
    print(f"lab: {text}", file=sys.stderr, flush=True)


def run(command, **options):
    """Runs a build step; its output is shown only if it fails."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options
    )
    if done.returncode:
        raise LabError(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stdout}")
    return done.stdout
