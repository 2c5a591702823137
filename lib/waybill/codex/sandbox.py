"""Codex's sandbox around a command of ours: `codex sandbox` with a permission profile."""

from __future__ import annotations

import json
from pathlib import Path

from waybill.base import process

PANIC = 101  # what `codex sandbox` exits with when it cannot start the program


def confined(
    binary: str, cwd: Path, scratch: Path, words: list[str], *, writable: bool
) -> list[str]:
    """The command line that runs `words` in `cwd`, where only `scratch` is written.

    With `writable`, cwd is written too. There is no network, loopback included.
    """
    base = ":workspace" if writable else ":read-only"
    row = json.dumps(str(scratch), ensure_ascii=False)
    profile = f'permissions={{evidence={{extends="{base}",filesystem={{{row}="write"}}}}}}'
    return [binary, "sandbox", "-c", profile, "-P", "evidence", "-C", str(cwd), "--", *words]


def not_found(exit_code: int, output: str) -> bool:
    """Whether the sandbox, not the program, says that there is no such program."""
    return exit_code == PANIC and "Failed to execvp" in output


def fails(words: list[str], cwd: Path, environment: dict[str, str]) -> str | None:
    """Why a confined command that must succeed does not; None when it does."""
    try:
        done = process.run(words, cwd=str(cwd), env=environment, limit=30)
    except OSError as error:
        return error.strerror or str(error)
    if done.exit_code == 0:
        return None
    said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
    return said[-1][:300] if said else f"exit {done.exit_code}"
