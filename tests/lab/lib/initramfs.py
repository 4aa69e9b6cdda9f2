# SPDX-License-Identifier: Apache-2.0
"""Packs the guest's whole file system.

It is written anew for every run, uncompressed: that takes less time than it would
take to find out whether an old one still fits, or the guest to decompress it.
"""

import glob
import os
import pathlib
import re

from lib import cpio, tools
from lib.report import LabError

# The merged /usr of Debian: every file has one name in the guest.
_MERGED = ("bin", "sbin", "lib", "lib64")

# Of busybox's programs those that start others prefer busybox's own, whatever is in
# the PATH; so those come from the host, too.
# Host programs that a guest without them would not be a lab.
_PROGRAMS = (
    "bash env setsid id stat timeout xargs ps pgrep pkill kmod ip rdma setpriv "
    "ibv_devinfo ibv_rc_pingpong ibv_srq_pingpong ibv_xsrq_pingpong ibv_asyncwatch"
).split()

# Packed if the host has them; a case that wants one of them skips itself without.
_OPTIONAL = (
    "strace prlimit "
    "ib_send_bw ib_write_bw ib_read_bw ib_atomic_bw "
    "ib_send_lat ib_write_lat ib_read_lat ib_atomic_lat"
).split()

_KMOD_NAMES = ("modprobe", "insmod", "rmmod", "lsmod", "modinfo", "depmod")

# Loaded through modprobe, so their dependencies come along. rdma_rxe has no XRC:
# cases use it as the device that cannot.
_MODULES = ("ib_core", "ib_uverbs", "ib_umad", "rdma_ucm", "rdma_rxe", "dummy")

# Not found by ldd: loaded by name at run time.
_LIBRARIES = (
    "/usr/lib/*/libibverbs/libmlx4-rdmav*.so",
    "/usr/lib/*/libibverbs/libmlx5-rdmav*.so",
    "/usr/lib/*/libibverbs/librxe-rdmav*.so",
    "/usr/lib/*/libgcc_s.so.1",
    "/lib/*/libgcc_s.so.1",
)

_PLAIN_FILES = (
    "/etc/libibverbs.d/mlx4.driver",
    "/etc/libibverbs.d/mlx5.driver",
    "/etc/libibverbs.d/rxe.driver",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d/*.conf",
)


def write(path, kernel, lab, extra):
    """Writes the archive.

    lab is the directory tests/lab; extra are pairs of guest path and host file, of
    which programs bring the libraries that they need.
    """
    programs = _host_programs()
    files = {f"/usr/bin/{os.path.basename(p)}": p for p in programs}
    files.update((_merged(guest), str(host)) for guest, host in extra)
    libraries = [lib for pattern in _LIBRARIES for lib in glob.glob(pattern)]
    for library in [*libraries, *_needed([*files.values(), *libraries])]:
        files.setdefault(_merged(library), library)
    for pattern in _PLAIN_FILES:
        files.update((name, name) for name in glob.glob(pattern))
    files.update(_kernel_modules(kernel))
    for kind in ("guest", "cases"):
        for file in sorted((lab / kind).iterdir()):
            files[f"/usr/lib/lab/{kind}/{file.name}"] = str(file)
    with open(path, "wb") as opened:
        writer = cpio.Writer(opened)
        _write_skeleton(writer)
        for guest, host in files.items():
            writer.file(guest, host)
        writer.close()


def _write_skeleton(writer):
    for name in _MERGED:
        writer.directory(f"usr/{name}")
        writer.symlink(name, f"usr/{name}")
    for name in ("dev", "proc", "run", "sys", "root", "home", "mnt", "var", "var/lib", "etc"):
        writer.directory(name)
    writer.directory("tmp", 0o1777)
    writer.symlink("var/run", "../run")
    writer.symlink("init", "usr/lib/lab/guest/init")
    for name in ("passwd", "group", "nsswitch.conf", "hosts"):
        writer.symlink(f"etc/{name}", f"../usr/lib/lab/guest/{name}")
    for name in _KMOD_NAMES:
        writer.symlink(f"usr/sbin/{name}", "../bin/kmod")


def _host_programs():
    paths = {"busybox": tools.find("busybox")}
    paths.update((name, tools.find(name)) for name in (*_PROGRAMS, *_OPTIONAL))
    missing = [name for name in _PROGRAMS if not paths[name]]
    if missing:
        raise LabError(f"the host lacks programs for the guest: {' '.join(missing)}")
    return [path for path in paths.values() if path]


def _merged(path):
    """The name in the guest: without the links of a merged /usr, but not resolved further."""
    path = os.path.normpath(str(path))
    first = path.split("/")[1]
    return f"/usr{path}" if first in _MERGED else path


def _needed(files):
    """The shared libraries, loader included, that ldd names for the ELF files among files."""
    elf = [f for f in files if _is_elf(f)]
    # ldd fails for a static program and goes on; what it cannot find is an error.
    output = tools.run(["sh", "-c", 'ldd "$@" 2>/dev/null || :', "ldd", *elf], "ldd")
    if lost := re.findall(r"^\s*(\S+) => not found", output, re.MULTILINE):
        raise LabError(f"shared libraries not found: {' '.join(sorted(set(lost)))}")
    return sorted(set(re.findall(r"(?:=> |^\s+)(/\S+) \(0x", output, re.MULTILINE)))


def _is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def _kernel_modules(kernel):
    """The modules with what they depend on, and depmod's indexes of all."""
    depends = {}
    for line in (kernel.modules / "modules.dep").read_text(encoding="ascii").splitlines():
        name, _, needs = line.partition(":")
        depends[re.sub(r"\.ko.*", "", pathlib.PurePath(name).name)] = [name, *needs.split()]
    wanted = {file for module in _MODULES for file in depends.get(module, [])}
    indexes = {p.name for p in kernel.modules.glob("modules.*")}
    guest = f"/usr/lib/modules/{kernel.release}"
    return {f"{guest}/{name}": str(kernel.modules / name) for name in sorted(wanted | indexes)}
