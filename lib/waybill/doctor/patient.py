"""Who is examined, and what is found: one finding for each thing looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from waybill.base import process

OK, WARNING, FAILED = "ok", "warning", "failed"
LIMIT = 10.0  # seconds for one short call; each takes 200 ms at most when all is well


@dataclass(frozen=True)
class Patient:
    """What is examined: Codex as asked for, a folder, and our environment.

    `scratch` is an empty folder outside any repository, gone afterwards.
    """

    codex: str | None
    cwd: Path
    environment: Mapping[str, str]
    scratch: Path


@dataclass(frozen=True)
class Finding:
    """One check: what it was, how it went (`ok`, `warning` or `failed`), and what to do."""

    name: str
    status: str
    found: str
    advice: str | None = None

    def record(self) -> dict[str, str | None]:
        """As the diagnosis holds it."""
        return asdict(self)


def ok(name: str, found: str) -> Finding:
    """It works."""
    return Finding(name, OK, found)


def warning(name: str, found: str, advice: str) -> Finding:
    """It works, or is not needed for everything, and something is to be known."""
    return Finding(name, WARNING, found, advice)


def failed(name: str, found: str, advice: str) -> Finding:
    """It does not work, and no run can without it."""
    return Finding(name, FAILED, found, advice)


def call(words: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> process.Finished:
    """One short call, ended after LIMIT. Raises OSError when it cannot start."""
    return process.run(words, cwd=str(cwd), env=environment, limit=LIMIT)


def said(words: Sequence[str], done: process.Finished) -> str:
    """A call that did not go well: the command, its end, and its last line."""
    lines = (done.stderr.strip() or done.stdout.strip()).decode("utf-8", "replace").splitlines()
    if done.timed_out:
        end = f"did not end within {LIMIT:g} s"
    elif done.exit_code is None:
        end = f"was ended by signal {done.signal}"
    else:
        end = f"exited with {done.exit_code}"
    last = f": {lines[-1][:300]}" if lines else " and said nothing"
    return f"{' '.join(words)} {end}{last}"
