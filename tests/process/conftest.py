"""Commands under a guard."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from guard_stage import ENV, Start
from waybill.base import guard


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
