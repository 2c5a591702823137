"""The processes below one of ours: seen through /proc, and ended.

Groups and sessions cannot bound a tree: a program leaves them with one call. Parentage can,
as long as an ancestor is a subreaper: an orphan then goes to it and not to init.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection
from dataclasses import dataclass

# How long KILL is repeated. A process that is still there is stuck in the kernel.
KILL_LIMIT = 2.0
# How often the tree is walked again while it is being ended: seconds.
TICK = 0.02
# Reads of our own children in one press: enough to meet a process that forks and exits in turn.
SWEEPS = 200


@dataclass(frozen=True, slots=True)
class Seen:
    """One process as /proc/PID/stat had it. `started` is in clock ticks since boot."""

    pid: int
    parent: int
    group: int
    session: int
    started: int
    dead: bool


def look(pid: int) -> Seen | None:
    """The process `pid` as it is now; None when there is none, or /proc does not show it."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(fd, 4096)
    except OSError:
        return None
    finally:
        os.close(fd)
    # The name is free text in parentheses, and may itself hold spaces and parentheses.
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) < 20:
        return None
    # A first thread that left before the others shows as a zombie, while the process lives.
    dead = fields[0] in (b"Z", b"X") and int(fields[17]) < 2
    return Seen(pid, int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]), dead)


def below(root: int, spare: Collection[int] = ()) -> list[Seen]:
    """Every descendant of `root`, parents before children; `spare` and what is below it left out.

    Raises OSError when /proc cannot be listed.
    """
    children: dict[int, list[Seen]] = {}
    # The newest first: they are the likeliest to be gone by the time their turn comes.
    for pid in sorted((int(name) for name in os.listdir("/proc") if name.isdigit()), reverse=True):
        seen = look(pid)
        if seen is not None and pid not in spare:
            children.setdefault(seen.parent, []).append(seen)
    found = children.pop(root, [])
    for seen in found:
        found.extend(children.pop(seen.pid, ()))
    return found


class Ending:
    """The end of everything below this process: TERM, `grace` seconds, then KILL until it works.

    The owner calls `press` again and again, and reaps in between.
    """

    def __init__(self, grace: float, spare: Collection[int] = ()) -> None:
        self.spare = spare
        self._kill_at = time.monotonic() + grace
        self._told: dict[tuple[int, int], None] = {}

    @property
    def told(self) -> list[int]:
        """The pids that got a signal from us, in the order of the first one."""
        return [pid for pid, _ in self._told]

    @property
    def spent(self) -> bool:
        """Whether KILL has been tried for as long as it makes sense."""
        return time.monotonic() >= self._kill_at + KILL_LIMIT

    def hasten(self, grace: float) -> None:
        """Allow no more than `grace` seconds from now."""
        self._kill_at = min(self._kill_at, time.monotonic() + grace)

    def press(self) -> list[Seen]:
        """Signal what lives below us and return all that is there, zombies included."""
        killing = time.monotonic() >= self._kill_at
        if killing:
            self._sweep()
        found = below(os.getpid(), self.spare)
        living = [seen for seen in found if not seen.dead]
        for seen in living:
            told = (seen.pid, seen.started) in self._told
            self._told[seen.pid, seen.started] = None
            if killing:
                _send(seen.pid, signal.SIGKILL)
            elif not told:
                _send(seen.pid, signal.SIGTERM)
                # A stopped process would get to its TERM handler only after it goes on.
                _send(seen.pid, signal.SIGCONT)
        if killing:
            # A group is killed in one step, which no fork inside it can outrun. No group of
            # another session than ours can hold a process that is not of the tree.
            ours = os.getsid(0)
            for group in {seen.group for seen in living if seen.session != ours}:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(group, signal.SIGKILL)
        return found

    def _sweep(self) -> None:
        """Kill our own children as fast as they can be read.

        A process that forks and exits in turn has a new pid, and us as its parent, each time;
        a walk of /proc would always come late.
        """
        me = os.getpid()
        quiet = 0
        for _ in range(SWEEPS):
            fresh = False
            for pid in _children(me):
                if pid in self.spare:
                    continue
                seen = look(pid)
                if seen is None or seen.dead or (pid, seen.started) in self._told:
                    continue
                _send(pid, signal.SIGKILL)
                self._told[pid, seen.started] = None
                fresh = True
            quiet = 0 if fresh else quiet + 1
            if quiet > 3:
                return


def _children(pid: int) -> list[int]:
    """The children of a process of one thread, where the kernel lists them."""
    try:
        fd = os.open(f"/proc/{pid}/task/{pid}/children", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        return [int(word) for word in os.read(fd, 65536).split()]
    finally:
        os.close(fd)


def _send(pid: int, number: int) -> None:
    # Between the look and the signal lie milliseconds: too few for pids to come round again.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
