# SPDX-License-Identifier: Apache-2.0
"""The distribution's own kernel, fetched as packages and unpacked into the cache.

Nothing is installed: an installed kernel would run boot loader hooks and need root.
The image is taken out of its compressed wrapper, because an uncompressed vmlinux
boots twice as fast under software emulation.
"""

import dataclasses
import lzma
import pathlib
import re
import shutil
import struct
import subprocess
import zlib

from lib import cache, tools
from lib.report import LabError, step

_PACKAGE = re.compile(r"linux-(image|headers|kbuild)-\d")


@dataclasses.dataclass(frozen=True)
class Kernel:
    """An unpacked kernel: its release name and where its parts are."""

    release: str
    root: pathlib.Path

    @property
    def vmlinux(self):
        """The uncompressed image."""
        return self.root / "vmlinux"

    @property
    def modules(self):
        """The directory that is /lib/modules/RELEASE in the guest."""
        return self.root / "lib/modules" / self.release

    @property
    def headers(self):
        """The directory that a module is built against."""
        return self.root / "usr/src" / f"linux-headers-{self.release}"

    @property
    def compiler(self):
        """The compiler that the kernel was built with, as its headers name it."""
        text = (self.headers / ".kernelvariables").read_text(encoding="utf-8")
        found = re.search(r"gcc-\d+", text)
        return found.group() if found else "gcc"


def ensure():
    """The kernel of this machine's Debian release; fetched if it is not there.

    Once fetched, it is used until the cache is removed: a run with a warm cache
    asks apt nothing, and two runs do not differ by a kernel update between them.
    """
    root = cache.entry("kernel", _suite(), _fetch)
    release = (root / "release").read_text(encoding="ascii").strip()
    return Kernel(release, root)


def _suite():
    text = pathlib.Path("/etc/os-release").read_text(encoding="utf-8")
    found = re.search(r'^VERSION_CODENAME="?([a-z]+)', text, re.MULTILINE)
    return found.group(1) if found else "unknown"


def _packages():
    """The packages behind the two metapackages, common headers and kbuild included."""
    wanted = ["linux-image-amd64", "linux-headers-amd64"]
    found = []
    for name in wanted:
        try:
            text = tools.run(["apt-cache", "depends", "--important", name], f"looking up {name}")
        except LabError as error:
            raise LabError(f"{error}\n(is apt's list of packages there? apt-get update)") from None
        for depends in re.findall(r"^\s+Depends: (\S+)", text, re.MULTILINE):
            if _PACKAGE.match(depends) and depends not in found:
                found.append(depends)
                wanted.append(depends)
    if not found:
        raise LabError("apt knows no linux-image-amd64: run apt-get update first")
    return found


def _fetch(directory):
    with step("fetching the kernel packages"):
        debs = directory / "debs"
        debs.mkdir()
        # The download directory is not one that apt's own user could write to.
        option = ["-o", "APT::Sandbox::User=root"]
        tools.run(["apt-get", *option, "download", *_packages()], "fetching the kernel", cwd=debs)
    with step("unpacking the kernel"):
        for deb in sorted(debs.iterdir()):
            tools.run(["dpkg", "-x", str(deb), str(directory)], f"unpacking {deb.name}")
        shutil.rmtree(debs)
        image = next((directory / "boot").glob("vmlinuz-*"))
        release = image.name.removeprefix("vmlinuz-")
        _move_usr(directory)
        (directory / "vmlinux").write_bytes(_uncompressed(image.read_bytes()))
        tools.run(["depmod", "-b", str(directory), release], "indexing the modules")
        _fix_headers(directory)
        (directory / "release").write_text(release + "\n", encoding="ascii")


def _move_usr(directory):
    """Debian 13 ships the modules below /usr/lib; depmod looks in /lib."""
    if not (directory / "lib/modules").is_dir():
        (directory / "lib").mkdir(exist_ok=True)
        (directory / "usr/lib/modules").rename(directory / "lib/modules")


def _fix_headers(directory):
    """Has the headers' makefiles include each other where they were unpacked.

    The entry is renamed when it is complete, so the path is relative to the makefile.
    """
    for makefile in (directory / "usr/src").glob("linux-headers-*/Makefile"):
        text = makefile.read_text(encoding="utf-8")
        here = "$(dir $(lastword $(MAKEFILE_LIST)))../"
        makefile.write_text(text.replace("include /usr/src/", f"include {here}"), encoding="utf-8")


def _uncompressed(image):
    """Takes the ELF file out of a bzImage, by the offsets in its setup header."""
    setup_sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    begin = (setup_sectors + 1) * 512 + offset
    payload = image[begin : begin + length]
    if payload.startswith(b"\xfd7zXZ"):
        data = lzma.LZMADecompressor().decompress(payload)
    elif payload.startswith(b"\x1f\x8b"):
        data = zlib.decompressobj(31).decompress(payload)
    elif payload.startswith(b"\x28\xb5\x2f\xfd"):
        # The last four bytes are the size, no part of the frame.
        command = [tools.find("zstd"), "-dcq"]
        data = subprocess.run(command, input=payload[:-4], capture_output=True, check=True).stdout
    else:
        raise LabError(f"the kernel image has an unknown compression ({payload[:4].hex()})")
    if not data.startswith(b"\x7fELF"):
        raise LabError("the kernel image holds no ELF file")
    return data
