# SPDX-License-Identifier: Apache-2.0
"""Debian's stock kernel: fetched as packages and unpacked, never installed."""

import lzma
import os
import re
import struct

from . import cache, tools
from .error import LabError

# The kernel series whose in-kernel interfaces vhca is written for.
SERIES = "6.1."


class Kernel:
    """An unpacked kernel: image, modules and headers of one release."""

    def __init__(self, directory, release):
        self.release = release
        self.vmlinux = directory / "vmlinux"
        self.headers = directory / f"usr/src/linux-headers-{release}"
        self._modules = directory / f"lib/modules/{release}/kernel"

    def module_closure(self, names):
        """Paths of the named modules and all they depend on, in loading order."""
        order = []

        def visit(name):
            path = self._find(name)
            for wanted in _depends(path):
                visit(wanted)
            if path not in order:
                order.append(path)

        for name in names:
            visit(name)
        return order

    def _find(self, name):
        # A module's name has underscores where its file may have dashes.
        pattern = re.sub("[-_]", "[-_]", name)
        for path in self._modules.glob(f"**/{pattern}.ko"):
            return path
        raise LabError(f"kernel {self.release} has no module {name}")


def _depends(path):
    found = re.search(rb"\0depends=([^\0]*)\0", path.read_bytes())
    return found.group(1).decode().split(",") if found and found.group(1) else []


def get():
    """The cached kernel, or the one that this suite's metapackage names."""
    for directory in cache.root().glob("kernel-*"):
        return Kernel(directory, directory.name[len("kernel-"):])
    release = _candidate()
    tools.note(f"fetching kernel {release}")
    return Kernel(cache.result("kernel", release, lambda work: _fetch(work, release)), release)


def _candidate():
    text = tools.run(["apt-cache", "show", "--no-all-versions", "linux-image-amd64"])
    found = re.search(r"^Depends: linux-image-(\S+)", text, re.MULTILINE)
    if not found or not found.group(1).startswith(SERIES):
        raise LabError(f"the lab is for a Debian with kernel {SERIES}x: apt knows no such linux-image-amd64")
    return found.group(1)


def _fetch(work, release):
    common = release.replace("-amd64", "-common")
    series = ".".join(release.split(".")[:2])
    packages = [f"linux-image-{release}", f"linux-headers-{release}", f"linux-headers-{common}", f"linux-kbuild-{series}"]
    # Root's apt would drop privileges to a user that cannot write here.
    sandbox = ["-o", "APT::Sandbox::User=root"] if os.geteuid() == 0 else []
    tools.run(["apt-get", "download", "-q", *sandbox, *packages], cwd=work)
    for package in sorted(work.glob("*.deb")):
        tools.run(["dpkg", "-x", package, work])
        package.unlink()
    _extract(work / f"boot/vmlinuz-{release}", work / "vmlinux")
    _relocate(work, release, common)


def _extract(bzimage, vmlinux):
    """Takes the ELF image out of a bzImage; qemu boots it faster (PVH)."""
    data = bzimage.read_bytes()
    # The boot protocol's setup header: number of setup sectors, then place and
    # size of the compressed payload after them.
    setup = (data[0x1F1] or 4) + 1
    offset, length = struct.unpack_from("<II", data, 0x248)
    start = setup * 512 + offset
    # The stream is followed by its length, which the decompressor leaves alone.
    vmlinux.write_bytes(lzma.LZMADecompressor().decompress(data[start:start + length]))


def _relocate(work, release, common):
    """The headers' Makefile names the place where the package would be installed."""
    makefile = work / f"usr/src/linux-headers-{release}/Makefile"
    # Relative to the makefile: the directory is renamed when it is complete.
    makefile.write_text(
        f"include $(dir $(lastword $(MAKEFILE_LIST)))../linux-headers-{common}/Makefile\n", encoding="ascii"
    )
