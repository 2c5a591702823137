"""The launch of a command: fork, exec, and the exact error when that fails."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gc
import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36

# valid_signals() tells the same, 100 times slower: the C library keeps some for itself.
SIGNALS = (*range(1, 32), *range(signal.SIGRTMIN, signal.NSIG))

_prctl: Callable[..., int] | None = None


def load() -> None:
    """Have prctl(2) at hand, so that no child needs to import; raises OSError without it."""
    global _prctl
    if _prctl is not None:
        return
    try:
        import ctypes

        _prctl = ctypes.CDLL(None, use_errno=True).prctl
    except (ImportError, AttributeError) as lack:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from lack


def prctl(option: int, value: int | bytes) -> None:
    """prctl(2) with one argument; raises OSError."""
    load()
    import ctypes

    assert _prctl is not None
    argument = value if isinstance(value, bytes) else ctypes.c_ulong(value)
    zero = ctypes.c_ulong(0)
    if _prctl(option, argument, zero, zero, zero) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def fork(child: Callable[[], object]) -> int:
    """Fork; the child calls `child` and never returns. Its pid.

    Signals that the caller handles are blocked in the child: its handlers must not run there.
    """
    # A caller started with SIGCHLD ignored could never learn how a child ended.
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    pid = -1
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, _changed())
        pid = os.fork()
        if pid == 0:
            # A collection could finalise, and so flush, what belongs to the caller.
            gc.disable()
            child()
    finally:
        if pid == 0:
            os._exit(70)
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        except BaseException:
            # A handler of the caller raised: the child has nobody to report to.
            if pid > 0:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            raise
    return pid


def descriptors() -> dict[int, bool]:
    """The open descriptors of this process; whether an exec leaves each open."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        # The listing has also the descriptor that it was read with.
        with contextlib.suppress(OSError):
            found[int(name)] = os.get_inheritable(int(name))
    return found


def move_up(fd: int) -> int:
    """A copy of `fd` that is none of 0, 1, 2 and is closed by exec."""
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


def _changed() -> list[int]:
    """The signals whose disposition is not the default one."""
    return [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_DFL]


@dataclass(frozen=True, slots=True)
class Launch:
    """A child between fork and exec. `report` can be read when that is settled."""

    pid: int
    report: int
    argv: Sequence[str]
    executable: str | None
    cwd: int | str | Path

    def settle(self) -> None:
        """Wait until the command runs; raises OSError as its exec (or chdir) failed."""
        try:
            text = os.read(self.report, 4096)
        except BaseException:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            raise
        finally:
            os.close(self.report)
        if not text:
            return
        os.waitpid(self.pid, 0)
        number, at = json.loads(text)
        name = self.cwd if at == "cwd" else self.executable or self.argv[0]
        raise OSError(number, os.strerror(number), str(name))


def launch(
    argv: Sequence[str],
    *,
    cwd: int | str | Path,
    env: Mapping[str, str],
    stdin: int,
    stdout: int,
    stderr: int,
    executable: str | None = None,
) -> Launch:
    """Fork a command that leads its own session and is killed when this process is gone.

    It gets descriptors 0, 1 and 2 and no others, default signals and an empty mask, and
    `env` whole. `executable` is a path, relative to `cwd`; without it argv[0] is, or is
    looked for in the PATH of `env` when it has no slash.
    """
    if not argv:
        raise OSError(errno.EINVAL, "there is no command")
    parent = os.getpid()
    # The tie is a second line of defence, and may be missing.
    with contextlib.suppress(OSError):
        load()
    changed = _changed()
    surplus = [fd for fd, stays in descriptors().items() if stays and fd > 2]
    ours, theirs = os.pipe()

    def become() -> NoReturn:
        at = "exec"
        report = theirs
        try:
            report = move_up(theirs)
            os.setsid()
            with contextlib.suppress(OSError):
                prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(70)
            at = "cwd"
            os.chdir(cwd)
            at = "exec"
            for place, fd in enumerate([move_up(fd) for fd in (stdin, stdout, stderr)]):
                os.dup2(fd, place)
            for fd in surplus:
                os.close(fd)
            for number in changed:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            if executable is not None:
                os.execve(executable, list(argv), env)
            os.execvpe(argv[0], list(argv), env)
        except Exception as failure:
            # No errno: a NUL, a lone surrogate, or an "=" in the name of a variable.
            why: int = getattr(failure, "errno", None) or errno.EINVAL
        os.write(report, json.dumps([why, at]).encode())
        os._exit(70)

    try:
        pid = fork(become)
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return Launch(pid, ours, argv, executable, cwd)
