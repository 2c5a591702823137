"""The guard's own side: one loop between the launch of a command and the end of its tree.

It runs in the fork that `guard.start` makes. Its answers are lines of JSON.
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
from pathlib import Path

from waybill.base import launch
from waybill.base.descendants import TICK, Ending, look

# Seconds of grace where nobody waits for an answer any more: for what the command left behind,
# and for everything once the caller or the guard is gone. The ending then takes under 3 s.
SHORT = 1.0
# Pids named in an answer: it has to fit into a pipe that nobody reads yet.
NAMED = 1000
# For the caller to decide about. Whatever else ends a guard is made good by the caller.
BLOCKED = [
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGPIPE,
    signal.SIGALRM,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
]


class Watch:
    """One guard. `control` ends when the caller does; `status` takes the answers."""

    def __init__(self, control: int, status: int, grace: float, drain: float) -> None:
        self.control = control
        self.status = status
        self.wake = -1
        self.grace = grace
        self.drain = drain
        self.pid = 0
        self.code: int | None = None
        self.drained = math.inf
        self.ending: Ending | None = None

    def stand(
        self,
        argv: Sequence[str],
        cwd: int | str | Path,
        env: Mapping[str, str],
        stdio: list[int],
        executable: str | None,
    ) -> None:
        """Start the command, see its tree to the end, and say how it went."""
        try:
            self._leave()
            cwd, stdio = self._keep(cwd, stdio)
            self._launch(argv, cwd, env, stdio, executable)
        except BaseException as failure:
            self._despair()
            number = getattr(failure, "errno", None) or errno.EIO
            self._say({"errno": number, "name": getattr(failure, "filename", None)})
            return
        failed = False
        try:
            self._tend()
        except BaseException:
            failed = True
            self._despair()
        code, told, left = self.code, [], []
        if self.ending is not None:
            told = [pid for pid in self.ending.told if pid != self.pid]
            if self.ending.spent:
                left = [seen.pid for seen in self.ending.press() if not seen.dead]
        self._say(
            {
                "code": code if code is not None and code >= 0 else None,
                "signal": -code if code is not None and code < 0 else None,
                "cleaned": told[:NAMED],
                "lost": failed,
                "left": left[:NAMED],
            }
        )

    def _leave(self) -> None:
        """Part from the caller: its session, its signals, and what it is called."""
        signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
        os.setsid()
        launch.prctl(launch.PR_SET_CHILD_SUBREAPER, 1)
        # Who kills the caller by its name would else kill the guard with it.
        launch.prctl(launch.PR_SET_NAME, b"waybill-guard")

    def _keep(self, cwd: int | str | Path, stdio: list[int]) -> tuple[int | str | Path, list[int]]:
        """Close every descriptor that is not needed; those that are get new numbers."""
        # The caller may lack 0, 1 or 2, and then any of these can be one of them.
        before = launch.descriptors()
        self.control, self.status = map(launch.move_up, (self.control, self.status))
        stdio = [launch.move_up(fd) for fd in stdio]
        cwd = launch.move_up(cwd) if isinstance(cwd, int) else cwd
        for fd in before:
            os.close(fd)
        # Lowest numbers first: these are 0, 1 and 2.
        for _ in range(3):
            os.open(os.devnull, os.O_RDWR)
        return cwd, stdio

    def _launch(
        self,
        argv: Sequence[str],
        cwd: int | str | Path,
        env: Mapping[str, str],
        stdio: list[int],
        executable: str | None,
    ) -> None:
        """Start the command and say so. Raises OSError as its exec failed."""
        self.wake, woken = os.pipe()
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        if _ready(self.control):
            raise OSError(errno.ECANCELED, os.strerror(errno.ECANCELED))
        stdin, stdout, stderr = stdio
        child = launch.launch(
            argv,
            cwd=cwd,
            env=env,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            executable=executable,
        )
        self.pid = child.pid
        # A file system that does not answer can hold an exec for ever.
        if child.report not in _ready(child.report, self.control, wait=None):
            os.kill(child.pid, signal.SIGKILL)
        child.settle()
        seen = look(child.pid)
        self._say({"pid": child.pid, "started": seen.started if seen is not None else 0})
        for fd in stdio:
            os.close(fd)
        if isinstance(cwd, int):
            os.close(cwd)
        os.chdir("/")

    def _tend(self) -> None:
        """Wait for the end of the command, and see that nothing stays below us."""
        poller = select.poll()
        poller.register(self.control, select.POLLIN)
        poller.register(self.wake, select.POLLIN)
        while self._reap():
            now = time.monotonic()
            if self.ending is None and now >= self.drained:
                self.ending = Ending(min(self.grace, SHORT))
            wait = self.drained - now
            if self.ending is not None:
                self.ending.press()
                if self.ending.spent:
                    return
                wait = TICK
            for fd, _ in poller.poll(None if wait == math.inf else math.ceil(wait * 1000)):
                if fd == self.wake:
                    os.read(fd, 4096)
                elif not self._obey():
                    poller.unregister(fd)

    def _reap(self) -> bool:
        """Take the ended children; whether there are others. Without a child there is no tree."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.pid:
                self.code = os.waitstatus_to_exitcode(status)
                self.drained = time.monotonic() + self.drain

    def _obey(self) -> bool:
        """Do as the caller says, and end the tree when the caller is gone: then False."""
        text = os.read(self.control, 4096)
        graces = [float(word) for word in text.split()[1::2]]
        grace = min(graces, default=min(self.grace, SHORT))
        if self.ending is None:
            self.ending = Ending(grace)
        self.ending.hasten(grace)
        return bool(text)

    def _despair(self) -> None:
        """End the tree after a fault of ours, trusting nothing."""
        with contextlib.suppress(BaseException):
            if self.pid and self.code is None:
                os.killpg(self.pid, signal.SIGKILL)
        ending = self.ending = Ending(0.0)
        while not ending.spent:
            with contextlib.suppress(BaseException):
                if not self._reap():
                    return
                ending.press()
            time.sleep(TICK / 4)

    def _say(self, answer: dict[str, object]) -> None:
        text = json.dumps(answer).encode() + b"\n"
        with contextlib.suppress(OSError):  # nobody is left to hear it
            while text:
                text = text[os.write(self.status, text) :]


def _ready(*fds: int, wait: int | None = 0) -> set[int]:
    """Those that can be read, or have ended, within `wait` milliseconds."""
    poller = select.poll()
    for fd in fds:
        poller.register(fd, select.POLLIN)
    return {fd for fd, _ in poller.poll(wait)}
