"""A rehearsal in a process of its own, which ends with the process that started it."""

from __future__ import annotations

import json
import os
import select
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from waybill.base.exits import NAMES, UNAVAILABLE, USAGE, Fault

if TYPE_CHECKING:
    from subprocess import Popen

START_LIMIT = 10.0  # seconds within which the child must listen
_GRACE = 3.0  # seconds that it may take to end once its stdin is closed


@dataclass
class Spawned:
    """A running scripted model. It also ends when this process does, however that dies."""

    base_url: str
    process: Popen[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid

    def close(self) -> None:
        """End it and wait for that. A second call does nothing."""
        _end(self.process)


def spawn(document_path: Path, log: Path | None = None) -> Spawned:
    """Start a scripted model on the script in that file; `log` is as in `server.serve`.

    Fault, with the child's own status and last line, when it does not start in time.
    """
    import subprocess
    import tempfile

    # -P: a module in the folder where we happen to be must not stand in for ours.
    words = [sys.executable, "-P", "-m", "waybill.rehearsal"]
    words += [] if log is None else ["--log", str(log.absolute())]
    words += ["--", str(document_path.absolute())]
    # A file, for a pipe that nobody reads fills up.
    with tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,  # an interrupt typed at us ends Codex first
        )
        line = _first_line(process, time.monotonic() + START_LIMIT)
        if line is None:
            process.kill()
            _end(process)
            late = f"the scripted model did not listen within {START_LIMIT:g} s"
            raise Fault(UNAVAILABLE, str(document_path), late)
        try:
            return Spawned(str(json.loads(line)["base_url"]), process)
        except (ValueError, KeyError, TypeError):
            raise _not_started(document_path, _end(process), stderr) from None


def _first_line(process: Popen[bytes], deadline: float) -> bytes | None:
    """The first line of the child's stdout, or what came before its end; None when late."""
    assert process.stdout is not None
    handle = process.stdout.fileno()
    line = b""
    while not line.endswith(b"\n"):
        left = max(0.0, deadline - time.monotonic())
        if not select.select([handle], [], [], left)[0]:
            return None
        piece = os.read(handle, 4096)
        if not piece:
            break
        line += piece
    return line


def _end(process: Popen[bytes]) -> int:
    """Close the child's stdin, which ends it; its exit status."""
    from subprocess import TimeoutExpired

    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    process.stdout.close()
    try:
        return process.wait(_GRACE)
    except TimeoutExpired:
        process.kill()
        return process.wait()


def _not_started(document_path: Path, status: int, stderr: IO[bytes]) -> Fault:
    stderr.seek(0)
    said = stderr.read(65536).decode(errors="replace").strip().split("\n")[-1]
    # The child begins its line with its own name and the file's, as we do with ours.
    for known in ("rehearsal-model: ", f"{document_path.absolute()}: "):
        said = said.removeprefix(known)
    known_status = status if status in NAMES and status >= USAGE else UNAVAILABLE
    return Fault(known_status, str(document_path), said or f"its process ended with {status}")
