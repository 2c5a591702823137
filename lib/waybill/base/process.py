"""Processes: who one is, starting one, and short calls that always end."""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from waybill.base import descendants
from waybill.base.launch import launch

KEEP = 8 * 1024 * 1024  # bytes of each stream that a short call keeps
DRAIN = 0.5  # seconds that the pipes may stay open once the leader is gone
TICK = 0.01  # seconds between looks where the kernel has no pidfd
UNKILLABLE = 2.0  # seconds after KILL: who is left then is stuck in the kernel


def boot_id() -> str:
    """The kernel's id of this boot; empty where it gives none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def start_time(pid: int) -> int | None:
    """When `pid` started, in clock ticks since boot; None when no such process lives."""
    seen = descendants.look(pid)
    return None if seen is None or seen.dead else seen.started


@dataclass(frozen=True, slots=True)
class Identity:
    """One process for good: a pid comes round again, a pid with its start time does not."""

    host: str
    boot_id: str
    pid: int
    started: int

    @classmethod
    def here(cls) -> Identity:
        """This process."""
        return cls(os.uname().nodename, boot_id(), os.getpid(), start_time(os.getpid()) or 0)

    @classmethod
    def from_dict(cls, value: Mapping[str, object]) -> Identity:
        """The identity that `to_dict` wrote; ValueError for anything else."""
        host, boot, pid, started = (
            value.get(name) for name in ("host", "boot_id", "pid", "started")
        )
        if not (isinstance(host, str) and isinstance(boot, str)):
            raise ValueError("an identity names its host and its boot")
        if type(pid) is not int or type(started) is not int or pid < 1 or started < 0:
            raise ValueError("an identity has a pid and a start time")
        return cls(host, boot, pid, started)

    def to_dict(self) -> dict[str, str | int]:
        """host, boot_id, pid, started (clock ticks since boot)."""
        return asdict(self)

    def alive(self) -> bool | None:
        """Whether the process lives; None on another host, where it cannot be known."""
        if self.host != os.uname().nodename:
            return None
        return self.boot_id == boot_id() and start_time(self.pid) == self.started


@dataclass(frozen=True, slots=True)
class Finished:
    """How a short call ended. `exit_code` is None after a signal, `signal` without one;
    both are None for a process that even KILL did not end. `cut`: output was dropped."""

    exit_code: int | None
    signal: int | None
    stdout: bytes
    stderr: bytes
    timed_out: bool
    cut: bool = False

    @property
    def ok(self) -> bool:
        """Whether it exited with 0 by itself."""
        return self.exit_code == 0 and not self.timed_out


class Pending:
    """A short call that runs. Its owner calls `finish` or `cancel`, once."""

    def __init__(self, pid: int, outputs: dict[int, bytearray], *, grace: float, keep: int) -> None:
        self.pid = pid
        self._outputs = outputs
        self._open = set(outputs)
        self._grace = grace
        self._keep = keep
        self._cut = False
        self._began = time.monotonic()
        try:
            self._exit_fd = os.pidfd_open(pid)
        except OSError:
            self._exit_fd = -1

    def cancel(self) -> None:
        """End it at once."""
        self._grace = 0.0
        self.finish(0.0)

    def finish(self, limit: float) -> Finished:
        """Wait for the end, for at most `limit` seconds since the start, and end it then."""
        poller = select.poll()
        for fd in self._open | ({self._exit_fd} - {-1}):
            poller.register(fd, select.POLLIN)
        due = self._began + limit
        gone = timed_out = killed = False
        while True:
            now = time.monotonic()
            if not gone and self._gone():
                gone = True
                if self._exit_fd >= 0:
                    poller.unregister(self._exit_fd)
                due = now + DRAIN
            if gone and not self._open:
                break
            if now >= due:
                if gone or killed:
                    break
                self._signal(signal.SIGKILL if timed_out else signal.SIGTERM)
                due = now + (UNKILLABLE if timed_out else self._grace)
                killed, timed_out = timed_out, True
            wait = max(0.0, due - now)
            if self._exit_fd < 0 and not gone:
                wait = min(wait, TICK)
            for fd, _ in poller.poll(math.ceil(wait * 1000)):
                if fd in self._open and not self._read(fd):
                    poller.unregister(fd)
        # Not reaped yet, so the number still means this group and no other.
        self._signal(signal.SIGKILL)
        return self._close(timed_out)

    def _gone(self) -> bool:
        try:
            left = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return True
        return left is not None

    def _read(self, fd: int) -> bool:
        chunk = os.read(fd, 65536)
        kept = self._outputs[fd]
        room = self._keep - len(kept)
        kept += chunk[:room]
        self._cut = self._cut or len(chunk) > room
        if not chunk:
            self._open.discard(fd)
        return bool(chunk)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _close(self, timed_out: bool) -> Finished:
        code = None
        with contextlib.suppress(ChildProcessError):
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            code = os.waitstatus_to_exitcode(status) if pid else None
        for fd in [*self._outputs, self._exit_fd]:
            if fd >= 0:
                os.close(fd)
        texts = [bytes(kept) for kept in self._outputs.values()]
        return Finished(
            code if code is not None and code >= 0 else None,
            -code if code is not None and code < 0 else None,
            texts[0] if len(texts) == 2 else b"",
            texts[-1],
            timed_out,
            self._cut,
        )


def start(
    argv: Sequence[str],
    *,
    cwd: int | str | Path,
    env: Mapping[str, str],
    stdin: bytes | None = None,
    grace: float = 1.0,
    keep: int = KEEP,
    stdout_to: int | None = None,
    executable: str | None = None,
) -> Pending:
    """Start a short call; several may run at the same time. Raises OSError when it cannot start.

    `env` is all that the child gets. stdin is empty unless bytes are given. The child writes
    to the descriptor `stdout_to` itself, when given; then `Finished.stdout` is empty.
    """
    fds: list[int] = []
    outputs: dict[int, bytearray] = {}
    try:
        # A file and not a pipe: a child that never reads it holds nobody up.
        source = os.open(os.devnull, os.O_RDONLY) if stdin is None else os.memfd_create("stdin")
        fds.append(source)
        if stdin is not None:
            rest = memoryview(stdin)
            while rest:
                rest = rest[os.write(source, rest) :]
            os.lseek(source, 0, os.SEEK_SET)
        sinks = [] if stdout_to is None else [stdout_to]
        while len(sinks) < 2:
            ours, theirs = os.pipe()
            outputs[ours] = bytearray()
            fds.append(theirs)
            sinks.append(theirs)
        child = launch(
            argv,
            cwd=cwd,
            env=env,
            stdin=source,
            stdout=sinks[0],
            stderr=sinks[1],
            executable=executable,
        )
        child.settle()
    except BaseException:
        for fd in outputs:
            os.close(fd)
        raise
    finally:
        for fd in fds:
            os.close(fd)
    return Pending(child.pid, outputs, grace=grace, keep=keep)


def run(
    argv: Sequence[str],
    *,
    cwd: int | str | Path,
    env: Mapping[str, str],
    limit: float,
    stdin: bytes | None = None,
    grace: float = 1.0,
    keep: int = KEEP,
    stdout_to: int | None = None,
    executable: str | None = None,
) -> Finished:
    """`start` and `finish`: one short call that takes no more than about limit + grace seconds."""
    return start(
        argv,
        cwd=cwd,
        env=env,
        stdin=stdin,
        grace=grace,
        keep=keep,
        stdout_to=stdout_to,
        executable=executable,
    ).finish(limit)
