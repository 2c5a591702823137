"""The guard: a process of ours that stands above a command and ends all of its tree.

It is a fork of the caller that never runs another program, in a session of its own, and a
subreaper: whatever the command starts stays below it. It ends the tree when the caller is
gone, when it is told to, and when the command has left something behind. Should the guard
itself be killed, the tree falls to the caller, a subreaper too, which then does the same.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import select
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from waybill.base import launch
from waybill.base.descendants import KILL_LIMIT, TICK, Ending
from waybill.base.watch import NAMED, SHORT, Watch


@dataclass(frozen=True, slots=True)
class Exit:
    """How a command ended: `code`, or `signal`; neither when that could not be learnt.

    `cleaned` are the pids that had to be signalled after the command's own end or besides
    it, at most 1000. `left` are those that outlived even KILL. `lost`: the guard was killed
    or failed, and the tree was ended without it.
    """

    code: int | None
    signal: int | None
    cleaned: list[int] = field(default_factory=list)
    lost: bool = False
    left: list[int] = field(default_factory=list)


_guards: set[int] = set()


def adopt() -> None:
    """Make this process the parent of every orphan below it. Raises OSError."""
    launch.prctl(launch.PR_SET_CHILD_SUBREAPER, 1)


class Guarded:
    """A command under its guard, as the caller sees it.

    `pid` and `started` (clock ticks since boot) are the command's, `guard_pid` the guard's.
    `spare` may be added to: children of the caller that are not of the tree, in case the
    caller has to end the tree itself. Other guards are spared anyway.
    """

    def __init__(self, guard_pid: int, control: int, status: int, grace: float) -> None:
        self.guard_pid = guard_pid
        self.pid = 0
        self.started = 0
        self.spare: set[int] = set()
        self._control = control
        self._status = status
        self._grace = grace
        self._text = b""
        self._overdue = math.inf
        self._exit: Exit | None = None

    def __enter__(self) -> Guarded:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        if self._exit is None:
            self.terminate(0.0)
            self.wait()

    def fileno(self) -> int:
        """The descriptor that can be read when `poll` has something new; -1 after the end."""
        return self._status

    def terminate(self, grace: float | None = None) -> None:
        """Ask for the end of the tree, and return at once. A second call can only hasten it."""
        grace = max(0.0, self._grace if grace is None else grace)
        self._overdue = min(self._overdue, time.monotonic() + grace + 2 * KILL_LIMIT)
        if self._exit is None:
            with contextlib.suppress(BrokenPipeError):  # the guard is gone: poll will see it
                os.write(self._control, f"terminate {grace}\n".encode())

    def wait(self) -> Exit:
        """Wait for the end, however long."""
        while (end := self.poll(60.0)) is None:
            pass
        return end

    def poll(self, timeout: float) -> Exit | None:
        """Wait for the end for at most `timeout` seconds; None while the command goes on.

        When the guard was killed this ends the tree first, which can take 3 s more.
        """
        limit = time.monotonic() + timeout
        while self._exit is None:
            line = self._line(min(limit, self._overdue))
            if line is not None:
                # No line: the guard was killed, and with it went what it had to say.
                self._exit = Exit(**json.loads(line)) if line else self._inherit()
                self._close()
            elif time.monotonic() >= self._overdue:
                # A guard that is stopped, say: it neither works nor ends.
                self._overdue = math.inf
                os.kill(self.guard_pid, signal.SIGKILL)
            elif time.monotonic() >= limit:
                return None
        return self._exit

    def _line(self, limit: float) -> bytes | None:
        """The guard's next line; empty at the end of file, None at the limit."""
        poller = select.poll()
        poller.register(self._status, select.POLLIN)
        while b"\n" not in self._text:
            wait = limit - time.monotonic()
            if not poller.poll(None if wait == math.inf else max(0, math.ceil(wait * 1000))):
                return None
            chunk = os.read(self._status, 65536)
            if not chunk:
                return b""
            self._text += chunk
        line, _, self._text = self._text.partition(b"\n")
        return line

    def _open(self, name: str) -> None:
        """Read the guard's first line. OSError says why the command could not start."""
        try:
            line = self._line(math.inf)
        except BaseException:
            # The guard sees this end closed and puts an end to the tree.
            self._close()
            raise
        first = json.loads(line or b"null")
        if first is not None and "pid" in first:
            self.pid, self.started = first["pid"], first["started"]
            return
        if first is None:
            self._inherit()
            first = {"errno": errno.ECANCELED, "name": name}
        self._close()
        raise OSError(first["errno"], os.strerror(first["errno"]), first["name"])

    def _inherit(self) -> Exit:
        """End the tree without its guard."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.guard_pid, signal.SIGKILL)
        # Once it is reaped, what it had below it is below us.
        self._reap(self.guard_pid, 0)
        ending = Ending(min(self._grace, SHORT), self.spare | (_guards - {self.guard_pid}))
        while (found := ending.press()) and not ending.spent:
            for seen in found:
                if seen.parent == os.getpid():
                    self._reap(seen.pid, os.WNOHANG)
            time.sleep(TICK / 4)
        left = [seen.pid for seen in found if not seen.dead]
        return Exit(None, None, ending.told[:NAMED], True, left[:NAMED])

    def _close(self) -> None:
        for fd in (self._control, self._status):
            if fd >= 0:
                os.close(fd)
        self._control = self._status = -1
        self._reap(self.guard_pid, 0)
        _guards.discard(self.guard_pid)

    def _reap(self, pid: int, flags: int) -> None:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, flags)


def start(
    argv: Sequence[str],
    *,
    cwd: int | str | Path,
    env: Mapping[str, str],
    stdin: int,
    stdout: int,
    stderr: int,
    executable: str | None = None,
    grace: float = 5.0,
    drain: float = 0.5,
) -> Guarded:
    """Start a command under a guard. Raises OSError, exact, when it cannot be executed.

    `cwd` is a path or a descriptor of a folder, `env` all that the command gets. `grace`:
    seconds from TERM to KILL. `drain`: seconds that what the command leaves behind may go on.
    """
    adopt()
    pipes = [*os.pipe(), *os.pipe()]
    control_read, control, status, status_write = pipes

    def stand() -> None:
        watch = Watch(control_read, status_write, grace, drain)
        watch.stand(argv, cwd, env, [stdin, stdout, stderr], executable)

    try:
        pid = launch.fork(stand)
    except BaseException:
        for fd in pipes:
            os.close(fd)
        raise
    os.close(control_read)
    os.close(status_write)
    _guards.add(pid)
    guarded = Guarded(pid, control, status, grace)
    guarded._open(executable or "".join(argv[:1]))
    return guarded
