"""What the tests of processes share: patience, and a look at who is left."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

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
