"""One run of Codex under its guard: started, watched, ended within its limits.

Codex writes its event stream straight into a file; the file is read behind it. Nothing of
ours stands between Codex and the disk, so nothing of ours can lose, block or hold open.
"""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from waybill.base import clock, guard
from waybill.base.exits import fault

if TYPE_CHECKING:
    from waybill.codex.events import Reader

TICK = 0.05  # seconds between looks at the event file
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Seconds. `start`: until the first event; `idle`: between signs of progress."""

    wall: float
    start: float = 90.0
    idle: float = 600.0
    grace: float = 5.0


@dataclass
class Session:
    """What one run of Codex was, as measured."""

    reader: Reader
    pid: int = -1
    started_ticks: int = 0
    started_at: float = 0.0
    ended_at: float = 0.0
    exit_code: int | None = None
    signal: int | None = None
    cleaned: list[int] = field(default_factory=list)
    limit: str | None = None  # wall, start or idle, when one passed
    interrupted: int | None = None  # the signal that told us to stop
    lost: bool = False
    stdin_taken: int = 0
    stdin_ended_at: float | None = None
    seen: hashlib._Hash = field(default_factory=hashlib.sha256)  # of the events as they came


class Signals:
    """INT and TERM noted instead of raised, so that an ending is never cut in two."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> Signals:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _note(self, number: int, _frame: object) -> None:
        self.number = number


def run(
    argv: list[str],
    *,
    cwd: Path,
    environment: dict[str, str],
    prompt: int | None,
    events: int,
    stderr: int,
    limits: Limits,
    stream: bool,
    signals: Signals,
    started: Callable[[Session], None],
    spare: set[int],
) -> Session:
    """Run Codex to its end. Descriptors are open files; `prompt` None is an empty stdin.

    `started` is called once the process exists. Raises Fault launch_failed when it cannot be
    started.
    """
    began = clock.now()
    stdin = prompt if prompt is not None else os.open(os.devnull, os.O_RDONLY)
    size = os.fstat(stdin).st_size if prompt is not None else 0
    try:
        child = guard.start(
            argv,
            cwd=str(cwd),
            env=environment,
            stdin=stdin,
            stdout=events,
            stderr=stderr,
            grace=limits.grace,
        )
    except OSError as error:
        raise fault(
            "launch_failed", argv[0], f"cannot be started: {error.strerror or error}"
        ) from None
    finally:
        if prompt is None:
            os.close(stdin)
    child.spare |= spare
    try:
        # Loaded while Codex starts: until then there is nothing to read.
        from waybill.codex.events import Reader

        session = Session(Reader(), child.pid, child.started, began)
        started(session)
        _watch(child, session, events, prompt, size, limits, stream, signals)
    except BaseException:
        child.terminate(0)
        child.wait()
        raise
    return session


def _watch(
    child: guard.Guarded,
    session: Session,
    events: int,
    prompt: int | None,
    size: int,
    limits: Limits,
    stream: bool,
    signals: Signals,
) -> None:
    began = clock.monotonic()
    ending = False
    at = 0
    while True:
        ended = child.poll(TICK)
        at = _read(session, events, at, stream)
        _taken(session, prompt, size)
        if ended is not None:
            break
        if ending:
            continue
        passed = _passed(session, limits, clock.monotonic() - began, stream)
        if signals.number is not None:
            session.interrupted, ending = signals.number, True
        elif passed is not None:
            session.limit, ending = passed, True
        if ending:
            child.terminate(limits.grace)
    _read(session, events, at, stream)
    session.reader.close()
    session.ended_at = clock.now()
    session.exit_code, session.signal = ended.code, ended.signal
    session.cleaned, session.lost = list(ended.cleaned), ended.lost
    _taken(session, prompt, size)
    # A descriptor that Codex gave up without reading on is closed when it ends.
    if session.stdin_ended_at is None:
        session.stdin_ended_at = session.ended_at


def _read(session: Session, events: int, at: int, stream: bool) -> int:
    while block := os.pread(events, _BLOCK, at):
        session.seen.update(block)
        if stream:
            session.reader.feed(block, clock.now())
        at += len(block)
    return at


def _taken(session: Session, prompt: int | None, size: int) -> None:
    """How much of its stdin Codex took: the file's offset is shared with us."""
    if prompt is None:
        session.stdin_ended_at = session.stdin_ended_at or session.started_at
        return
    session.stdin_taken = os.lseek(prompt, 0, os.SEEK_CUR)
    if session.stdin_taken >= size and session.stdin_ended_at is None:
        session.stdin_ended_at = clock.now()


def _passed(session: Session, limits: Limits, elapsed: float, stream: bool) -> str | None:
    """The limit that has passed, or None. Without a stream only the wall clock is known."""
    if elapsed >= limits.wall:
        return "wall"
    if not stream:
        return None
    reader = session.reader
    if reader.first_event_at is None:
        return "start" if elapsed >= limits.start else None
    if reader.work.in_progress:
        return None
    last = reader.last_progress_at or session.started_at
    return "idle" if clock.now() - max(last, session.started_at) >= limits.idle else None
