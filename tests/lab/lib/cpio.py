# SPDX-License-Identifier: Apache-2.0
"""Writes a cpio archive as the kernel reads it (format newc).

Written here and not by cpio(1), so that everything belongs to root whoever runs
the lab, and so that no directory tree has to be copied together first.
"""

import os
import stat


class Writer:
    """Writes entries to an open binary file; parent directories appear by themselves."""

    def __init__(self, file):
        self._file = file
        self._inode = 0
        self._seen = set()
        # Processes of other users cannot even look up a path unless the root is 755.
        self.directory(".", 0o755)

    def directory(self, path, mode=0o755):
        """A directory."""
        if path not in self._seen:
            self._entry(path, stat.S_IFDIR | mode, b"")

    def symlink(self, path, target):
        """A symbolic link."""
        self._entry(path, stat.S_IFLNK | 0o777, target.encode())

    def data(self, path, data, mode=0o644):
        """A file with the given contents."""
        self._entry(path, stat.S_IFREG | mode, data)

    def file(self, path, source):
        """A copy of a host file; executable for all if it is for its owner."""
        with open(source, "rb") as opened:
            executable = os.fstat(opened.fileno()).st_mode & stat.S_IXUSR
            self.data(path, opened.read(), 0o755 if executable else 0o644)

    def close(self):
        """The trailer, padded to a whole block."""
        self._entry("TRAILER!!!", 0, b"")
        self._pad(512)

    def _entry(self, path, mode, data):
        path = path.strip("/")
        if path in self._seen:
            return
        self._seen.add(path)
        parent = os.path.dirname(path)
        if parent:
            self.directory(parent)
        self._inode += 1
        name = path.encode() + b"\0"
        links = 2 if stat.S_ISDIR(mode) else 1
        fields = [self._inode, mode, 0, 0, links, 0, len(data), 0, 0, 0, 0, len(name), 0]
        self._file.write(b"070701" + b"".join(b"%08X" % field for field in fields) + name)
        self._pad(4)
        self._file.write(data)
        self._pad(4)

    def _pad(self, block):
        self._file.write(b"\0" * (-self._file.tell() % block))
