"""Files below a folder that is held open: replaced, never edited, and never through a link.

A `Folder` is a descriptor and the path it was opened by. Whatever is done through it happens
in that very folder, also when somebody has meanwhile moved it or put a link in its place.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from waybill.base import exits
from waybill.base.exits import Fault

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
MODE = 0o600
TEMPORARY = ".waybill"  # ends the name of a file that is not in its place yet
FOLDER_MODE = 0o700


class Folder:
    """An open folder. Names are single components, or relative paths for the path methods."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self.descriptor = descriptor
        self.path = path

    @classmethod
    def open(cls, path: Path, *, make: bool = False) -> Folder:
        """Open an absolute path that holds no link, component by component.

        Raises OSError: ELOOP or ENOTDIR where a component is a link or no folder.
        """
        descriptor = os.open("/", _FOLDER)
        for name in path.parts[1:]:
            descriptor = _step(descriptor, name, make=make)
        return cls(descriptor, path)

    def sub(self, name: str, *, make: bool = True) -> Folder:
        """A folder in this one."""
        held = os.dup(self.descriptor)
        os.set_inheritable(held, False)
        return Folder(_step(held, name, make=make), self.path / name)

    def close(self) -> None:
        """Give the descriptor back; a second time does nothing."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open_file(self, name: str, flags: int) -> int:
        """A descriptor of a regular file here; links are not followed, FIFOs not waited on."""
        flags |= os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(name, flags, MODE, dir_fd=self.descriptor)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "not a regular file", name)
        return descriptor

    def create(self, name: str) -> int:
        """A descriptor of a new file, open for reading and appending. Raises FileExistsError."""
        return self.open_file(name, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL)

    def read(self, name: str, limit: int) -> bytes | None:
        """The bytes of a file of at most `limit` bytes; None when there is no such file."""
        try:
            descriptor = self.open_file(name, os.O_RDONLY)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as stream:
            data = stream.read(limit + 1)
        if len(data) > limit:
            raise OSError(errno.EFBIG, f"larger than {limit} bytes", name)
        return data

    def replace(self, name: str, data: bytes) -> None:
        """Put a whole new file in place, durable before it is seen."""
        with self._written(name, data) as temporary:
            os.rename(temporary, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        self.sync()

    def publish(self, name: str, data: bytes) -> None:
        """Make a file that nobody ever sees half-written. Raises FileExistsError."""
        with self._written(name, data) as temporary:
            os.link(temporary, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        self.sync()

    @contextlib.contextmanager
    def _written(self, name: str, data: bytes) -> Iterator[str]:
        """A temporary file with the data, durable, gone afterwards unless it was renamed."""
        temporary = f".{name}.{secrets.token_hex(8)}{TEMPORARY}"
        descriptor = self.create(temporary)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(descriptor)
            yield temporary
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=self.descriptor)

    def append(self, name: str, line: bytes) -> None:
        """One record to the end of a ledger, in one write, durable."""
        descriptor = self.open_file(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            written = os.write(descriptor, line)
            if written != len(line):
                raise OSError(errno.ENOSPC, "record only partly written", name)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync(self) -> None:
        """Make names in this folder durable."""
        os.fsync(self.descriptor)

    def status(self, name: str) -> os.stat_result | None:
        """What the name is, not followed; None when there is nothing."""
        try:
            return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def names(self) -> list[str]:
        """What is in the folder, sorted."""
        return sorted(os.listdir(self.descriptor))

    def move(self, name: str, other: Folder, new: str) -> None:
        """Move a file or folder to another open folder of the same file system."""
        os.rename(name, new, src_dir_fd=self.descriptor, dst_dir_fd=other.descriptor)

    def remove(self, name: str) -> None:
        """Remove a file; nothing happens when there is none."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.descriptor)

    def in_place(self) -> bool:
        """Whether the path still leads to this very folder."""
        try:
            there = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return False
        here = os.fstat(self.descriptor)
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


def _step(descriptor: int, name: str, *, make: bool) -> int:
    """The folder `name` below an open one, which is closed. Links are refused."""
    try:
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, FOLDER_MODE, dir_fd=descriptor)
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def storing(subject: str) -> Iterator[None]:
    """Turn an OSError while a record is written or read into Fault 73."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise Fault(
            exits.STORE, subject, f"cannot be stored: {reason}", outcome="store_error"
        ) from None
