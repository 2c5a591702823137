"""Commands under a guard, and what is left of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from waybill.base import guard

PATIENCE = 20  # seconds for anything that should take one
ENV = {"PATH": os.defpath}

Start = Callable[..., guard.Guarded]


def eventually(holds: Callable[[], object], limit: float = PATIENCE) -> bool:
    """Whether `holds` becomes true in time."""
    end = time.monotonic() + limit
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def named(token: str | Path) -> list[int]:
    """The living processes that have `token` in their command line, without this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                text = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if os.fsencode(token) in text:
                found.append(int(entry.name))
    return found


def lives(pid: int) -> bool:
    """Whether `pid` is there, as a zombie or not."""
    return Path(f"/proc/{pid}").exists()


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Start]:
    """Start a shell line under a guard: its stdout and stderr are `out` and `err` in tmp_path."""
    made: list[guard.Guarded] = []
    null = os.open(os.devnull, os.O_RDONLY)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    out, err = (os.open(tmp_path / name, flags, 0o600) for name in ("out", "err"))

    def start(line: str | list[str], **given: Any) -> guard.Guarded:
        argv = ["/bin/sh", "-c", line] if isinstance(line, str) else line
        usual: dict[str, Any] = {"cwd": str(tmp_path), "env": ENV, "stdin": null}
        made.append(guard.start(argv, **{**usual, "stdout": out, "stderr": err, **given}))
        return made[-1]

    yield start
    for each in made:
        with each:
            pass
    for fd in (null, out, err):
        os.close(fd)
