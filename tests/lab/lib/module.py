# SPDX-License-Identifier: Apache-2.0
"""Builds the kernel modules and the small C programs of the cases."""

import os
import shutil

from lib import cache, tools
from lib.report import say, step

_KBUILD_FILES = ("*.c", "*.h", "Kbuild", "Makefile")


def _sources(directory, patterns):
    return sorted(f for p in patterns for f in directory.rglob(p) if not f.name.endswith(".mod.c"))


def _key(directory, sources, *more):
    parts = [str(f.relative_to(directory)) for f in sources]
    return cache.digest(*parts, *sources, *more)


def _newest(kind):
    """The entry used last, for --no-build."""
    entries = [p for p in (cache.root() / kind).glob("*") if not p.name.startswith("new-")]
    return max(entries, key=lambda p: p.stat().st_mtime, default=None)


def build_module(source_dir, kernel, build=True):
    """The path of the module NAME.ko in a directory NAME, or None if there is none to build.

    The sources are copied, so that a build leaves nothing behind in the checkout.
    """
    sources = _sources(source_dir, _KBUILD_FILES)
    if not sources:
        return None
    kind, module = f"module-{source_dir.name}", f"{source_dir.name}.ko"
    if not build:
        newest = _newest(kind)
        return newest / module if newest else None
    if not tools.find(kernel.compiler):
        tools.raise_missing({kernel.compiler: f"modules of {kernel.release}"})

    def make(new):
        with step(f"building {module} for {kernel.release}"):
            for file in sources:
                target = new / file.relative_to(source_dir)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
            jobs = f"-j{os.cpu_count() or 1}"
            command = ["make", "-s", jobs, "-C", str(kernel.headers), f"M={new}", "modules"]
            _show_warnings(tools.run(command, f"building {module}", merge=True))

    key = _key(source_dir, sources, kernel.release)
    return cache.entry(kind, key, make) / module


def build_programs(source_dir, build=True):
    """The programs built from source_dir/*.c, as a list of paths."""
    sources = _sources(source_dir, ("*.c", "*.h"))
    if not sources:
        return []
    if not build:
        newest = _newest("progs")
        return sorted(newest.iterdir()) if newest else []

    def make(new):
        with step("building the programs of the cases"):
            for file in source_dir.glob("*.c"):
                compile_program(file, new / file.stem)

    return sorted(cache.entry("progs", _key(source_dir, sources), make).iterdir())


def compile_program(source, target):
    """One source file to one program, strict about warnings."""
    flags = ["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"]
    command = ["gcc", *flags, "-o", str(target), str(source), "-libverbs"]
    tools.run(command, f"compiling {source.name}")


def _show_warnings(output):
    for line in output.splitlines():
        if "warning:" in line:
            say(f"  {line}")
