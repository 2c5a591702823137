"""Required commands: the grammar they are written in, their pins, and their run.

A command is literal words: an executable below the working directory and its arguments. No
shell ever reads it, so a status cannot be masked by a pipe or a fallback.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from waybill.base import canonical, clock, files, guard, paths

_FORBIDDEN = re.compile(r"[|&;<>()$`\\\"'*!?\[\]{}~\r\n\t]")
EXCERPT = 2000  # bytes of output that a receipt shows; the log has all of it
TICK = 0.1  # seconds between looks at the clock
NOT_ATTEMPTED = "not attempted: "  # begins the reason of a command that nobody tried to run
NOT_FOUND = 127  # what a shell says when the program is not there


def unfit(entry: str) -> str | None:
    """Why an entry is not in the grammar; None when it is."""
    found = _FORBIDDEN.search(entry)
    if found:
        return f"{found[0]!r} belongs to a shell; write the program and its words literally"
    words = entry.split()
    if not words or not words[0].startswith("./"):
        return "must begin with ./ and name a program below cwd"
    if ".." in words[0].split("/"):
        return "the program must not lead upward"
    return None


class Unpinned(Exception):
    """An executable that cannot be pinned; the text says why."""


@dataclass(frozen=True)
class Pin:
    """A required command, its program, and what the program was when the run began."""

    entry: str
    words: list[str]
    sha256: str | None  # None: absent at launch, let through


def program(cwd: Path, entry: str) -> Path:
    """The program of an entry, real and below cwd. Raises Unpinned."""
    name = entry.split()[0]
    try:
        real = paths.resolve(cwd / name)
    except paths.Escape as escape:
        raise Unpinned(f"{name}: {escape}") from None
    if not paths.is_inside(real, cwd) or real == cwd:
        raise Unpinned(f"{name}: leads outside cwd")
    return real


def digest(cwd: Path, entry: str) -> str:
    """SHA-256 of the program of an entry. Raises Unpinned when it cannot be run."""
    real = program(cwd, entry)
    name = entry.split()[0]
    try:
        with files.Folder.open(real.parent) as folder:
            descriptor = folder.open_file(real.name, os.O_RDONLY)
            try:
                mode = os.fstat(descriptor).st_mode
                found, _ = canonical.descriptor_digest(descriptor)
            finally:
                os.close(descriptor)
    except OSError as error:
        raise Unpinned(f"{name}: {error.strerror or error}") from None
    if not mode & (stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH):
        raise Unpinned(f"{name}: not executable")
    return found


@dataclass(frozen=True)
class Check:
    """What one run of a command gave."""

    exit_code: int  # -1 when it was not run or was killed
    signal: int | None
    seconds: float
    timed_out: bool
    reason: str | None  # why it was not run, or did not end by itself
    outcome: str  # ok, verify_failed or verify_not_run


def judge(exit_code: int | None, signal: int | None, timed_out: bool, limit: float) -> Check:
    """The answer of an ended command. Pure; `seconds` is filled in by the caller."""
    if timed_out:
        return Check(-1, signal, 0, True, f"timed out after {limit:g} s", "verify_failed")
    if exit_code is None:
        return Check(-1, signal, 0, False, f"ended by signal {signal}", "verify_failed")
    if exit_code == NOT_FOUND:
        return Check(
            exit_code, None, 0, False, "a program that it needs was not found", "verify_not_run"
        )
    outcome = "ok" if exit_code == 0 else "verify_failed"
    return Check(exit_code, None, 0, False, None, outcome)


def not_run(reason: str) -> Check:
    """The answer of a command that could not be run."""
    return Check(-1, None, 0, False, reason, "verify_not_run")


def run(
    words: list[str],
    *,
    cwd: Path,
    environment: dict[str, str],
    stdout: int,
    stderr: int,
    limit: float,
    grace: float,
    stopped: Callable[[], bool] = lambda: False,
) -> Check:
    """Run one command under a guard, its output straight to the descriptors.

    It is ended when its limit passes, and when `stopped` says that we were told to stop.
    """
    began = clock.monotonic()
    null = os.open(os.devnull, os.O_RDONLY)
    try:
        child = guard.start(
            words,
            cwd=str(cwd),
            env=environment,
            stdin=null,
            stdout=stdout,
            stderr=stderr,
            grace=grace,
        )
    except OSError as error:
        return not_run(f"could not be started: {error.strerror or error}")
    finally:
        os.close(null)
    timed_out = interrupted = False
    try:
        while (ended := child.poll(TICK)) is None:
            timed_out = clock.monotonic() - began >= limit
            interrupted = stopped()
            if timed_out or interrupted:
                child.terminate(grace)
                ended = child.wait()
                break
    except BaseException:
        child.terminate(0)
        child.wait()
        raise
    if interrupted:
        return not_run("interrupted")
    found = judge(ended.code, ended.signal, timed_out, limit)
    return Check(
        found.exit_code,
        found.signal,
        clock.monotonic() - began,
        found.timed_out,
        found.reason,
        found.outcome,
    )


def excerpt(descriptor: int) -> str:
    """The end of a log, for a receipt: bounded, cut on a character, and said to be cut."""
    size = os.fstat(descriptor).st_size
    data = os.pread(descriptor, EXCERPT, max(0, size - EXCERPT))
    text = data.decode("utf-8", "replace").strip()
    if size > EXCERPT:
        # A cut can only split the first character.
        text = f"[… {size - EXCERPT} bytes before] " + text.lstrip("\ufffd")
    return text
