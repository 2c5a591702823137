"""What Codex leaves: its streams, straight to files, and its final message.

The final message counts only when a regular file lies at its path that was made during the
run and is reached without links; else the last agent message of the stream does.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from waybill.base import canonical
from waybill.base.exits import fault
from waybill.base.files import MODE, Folder, storing
from waybill.packet.boundary import PROMPT, STDERR
from waybill.packet.session import Session

MOST_MESSAGE = 16 << 20  # bytes
TAIL = 64 << 10  # bytes of stderr in which a headline is looked for


@dataclass
class Streams:
    """The open files of one run of Codex."""

    folder: Folder
    events_path: Path
    final_path: Path
    events: int = -1
    stderr: int = -1
    prompt: int | None = None
    final_folder: Folder | None = None
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def open(cls, folder: Folder, events: Path, final: Path, *, prompt: bool) -> Streams:
        """Make the files that Codex writes to, and try the place of its final message.

        Raises Fault store_error before anything is launched.
        """
        made = cls(folder, events, final)
        try:
            with storing(str(events)), Folder.open(events.parent, make=True) as parent:
                made.events = parent.create(events.name)
            with storing(f"{folder.path}/{STDERR}"):
                made.stderr = folder.create(STDERR)
                if prompt:
                    made.prompt = folder.open_file(PROMPT, os.O_RDONLY)
            with storing(str(final)):
                made.final_folder = Folder.open(final.parent, make=True)
                if made.final_folder.status(final.name) is not None:
                    raise fault("store_error", str(final), "is in the way of the final message")
                if not os.access(final.parent, os.W_OK | os.X_OK):
                    raise fault("store_error", str(final.parent), "is not writable")
        except BaseException:
            made.close()
            raise
        return made

    def close(self) -> None:
        """Close what is open."""
        for descriptor in (self.events, self.stderr, self.prompt):
            if descriptor is not None and descriptor >= 0:
                os.close(descriptor)
        self.events = self.stderr = -1
        self.prompt = None
        if self.final_folder is not None:
            self.final_folder.close()

    def sync(self) -> None:
        """Make the streams durable."""
        os.fsync(self.events)
        os.fsync(self.stderr)

    def events_in_place(self) -> bool:
        """Whether the path still names the file that Codex wrote to."""
        try:
            there = os.stat(self.events_path, follow_symlinks=False)
        except OSError:
            return False
        here = os.fstat(self.events)
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)

    def headline(self) -> str | None:
        """The last meaningful line of stderr."""
        size = os.fstat(self.stderr).st_size
        data = os.pread(self.stderr, TAIL, max(0, size - TAIL))
        from waybill.codex import failure

        return failure.headline(data.decode("utf-8", "replace"))

    def final_message(
        self, session: Session, *, stream: bool
    ) -> tuple[str | None, dict[str, Any] | None]:
        """The final message and its record; the message is put at its path if it is not there."""
        assert self.final_folder is not None
        data = self._from_file()
        source = "file"
        if data is None:
            text = session.reader.message if stream else self._plain()
            data = text.encode("utf-8", "replace") if text else None
            source = "events"
            if data is not None and self.final_folder.status(self.final_path.name) is None:
                with storing(str(self.final_path)):
                    self.final_folder.replace(self.final_path.name, data)
        elif stream and session.reader.message not in (None, data.decode("utf-8", "replace")):
            self.warnings.append("the final message's file differs from the last agent message")
        if data is None:
            return None, None
        row = {
            "path": os.path.relpath(self.final_path, self.folder.path),
            "sha256": canonical.digest(data),
            "source": source,
        }
        return data.decode("utf-8", "replace"), row

    def _from_file(self) -> bytes | None:
        assert self.final_folder is not None
        if not self.final_folder.in_place():
            self.warnings.append("the folder of the final message was moved or replaced")
            return None
        try:
            return self._private(self.final_folder)
        except OSError as error:
            self.warnings.append(f"{self.final_path}: not taken: {error.strerror or error}")
            return None

    def _private(self, folder: Folder) -> bytes | None:
        """The file's bytes. Codex made it under its own umask; from now on it is private."""
        data = folder.read(self.final_path.name, MOST_MESSAGE)
        if data is not None:
            descriptor = folder.open_file(self.final_path.name, os.O_RDONLY)
            try:
                os.fchmod(descriptor, MODE)
            finally:
                os.close(descriptor)
        return data

    def _plain(self) -> str | None:
        """Without an event stream, standard output is the final message."""
        size = os.fstat(self.events).st_size
        data = os.pread(self.events, MOST_MESSAGE, max(0, size - MOST_MESSAGE))
        return data.decode("utf-8", "replace").strip() or None


def stream_rows(streams: Streams, session: Session) -> tuple[dict[str, Any], dict[str, Any]]:
    """The `events` and `stderr` keys of the run record."""
    reader, work = session.reader, session.reader.work
    sha256, size = canonical.descriptor_digest(streams.events)
    events = {
        "path": os.path.relpath(streams.events_path, streams.folder.path),
        "bytes": size,
        "sha256": sha256,
        "lines": reader.lines,
        "items": dict(work.items),
        "warnings": reader.warnings,
        "errors": reader.errors,
        "unknown": dict(reader.unknown),
        "noise": reader.noise,
        "oversize": reader.oversize,
        "commands_seen": work.commands_count,
        "commands_failed": work.commands_failed,
        "sandbox_errors": work.sandbox_failed,
        "refused_tools": [
            {key: str(row.get(key) or "") for key in ("server", "tool", "error")}
            for row in work.refused
        ],
    }
    sha256, size = canonical.descriptor_digest(streams.stderr)
    stderr = {"path": STDERR, "bytes": size, "sha256": sha256}
    return events, stderr
