"""What is left when one of the processes that hold a tree is killed: nothing, within 3 s."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from guard_stage import PATIENCE, eventually, named

FOLDER = Path(__file__).parent
ROLES = ("leader", "daemon", "busy", "session")
PROMISE = 3.0


class Caller:
    """guard_caller.py as a process."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(FOLDER / "guard_caller.py"), *arguments],
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self) -> dict[str, object]:
        assert self.process.stdout is not None
        return dict(json.loads(self.process.stdout.readline()))


@pytest.fixture
def callers() -> Iterator[list[Caller]]:
    made: list[Caller] = []
    yield made
    for caller in made:
        caller.process.kill()
        caller.process.communicate(timeout=PATIENCE)


def resisting(callers: list[Caller], folder: Path, grace: str) -> tuple[Caller, int]:
    """A caller whose worker is at its worst, and the pid of its guard."""
    callers.append(Caller(str(folder), grace))
    guard = callers[-1].line()["guard"]
    assert isinstance(guard, int)
    assert eventually(lambda: all((folder / role).exists() for role in ROLES))
    assert len(named(folder)) >= len(ROLES) + 2
    return callers[-1], guard


@pytest.mark.parametrize("grace", ["5", "0.2"])
def test_nothing_is_left_when_the_caller_is_killed(
    callers: list[Caller], tmp_path: Path, grace: str
) -> None:
    caller, _ = resisting(callers, tmp_path, grace)
    caller.process.kill()
    assert caller.process.wait(PATIENCE) == -signal.SIGKILL
    assert eventually(lambda: not named(tmp_path), PROMISE), named(tmp_path)


@pytest.mark.parametrize("grace", ["5", "0.2"])
def test_nothing_is_left_when_the_guard_is_killed(
    callers: list[Caller], tmp_path: Path, grace: str
) -> None:
    caller, guard = resisting(callers, tmp_path, grace)
    os.kill(guard, signal.SIGKILL)
    assert eventually(lambda: set(named(tmp_path)) <= {caller.process.pid}, PROMISE)
    end = caller.line()
    assert (end["code"], end["signal"], end["lost"], end["left"]) == (None, None, True, [])
    cleaned = end["cleaned"]
    assert isinstance(cleaned, list)
    assert {int((tmp_path / role).read_text()) for role in ROLES[1:]} <= set(cleaned)
    assert caller.process.wait(PATIENCE) == 0


def test_the_command_itself_goes_when_both_are_killed(
    callers: list[Caller], tmp_path: Path
) -> None:
    caller, guard = resisting(callers, tmp_path, "5")
    leader = int((tmp_path / "leader").read_text())
    # Stopped first, so that neither has a moment to act on the end of the other.
    for number in (signal.SIGSTOP, signal.SIGKILL):
        os.kill(guard, number)
        caller.process.send_signal(number)
    assert eventually(lambda: leader not in named(tmp_path), PROMISE)
    for pid in named(tmp_path):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    "instant",
    [
        "after the fork of the guard",
        "before the guard leaves",
        "before the fork of the command",
        "before the exec of the command",
    ],
)
def test_a_caller_killed_between_fork_and_exec_leaves_nothing(
    callers: list[Caller], tmp_path: Path, instant: str
) -> None:
    callers.append(Caller(str(tmp_path), "0.2", instant))
    assert callers[-1].process.wait(PATIENCE) == -signal.SIGKILL
    assert eventually(lambda: not named(tmp_path), PROMISE), named(tmp_path)


def test_a_guard_killed_between_fork_and_exec_is_a_command_that_did_not_start(
    callers: list[Caller], tmp_path: Path
) -> None:
    callers.append(Caller(str(tmp_path), "0.2", "the guard, before the exec of the command"))
    assert callers[-1].line() == {"errno": errno.ECANCELED}
    assert callers[-1].process.wait(PATIENCE) == 0
    assert named(tmp_path) == []


def script(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python text, with a guard and FOLDER at hand, in a process of its own."""
    prelude = (
        "import os, signal, sys, time\n"
        "from waybill.base import guard\n"
        "null = os.open(os.devnull, os.O_RDWR)\n"
        "def sh(line, **more):\n"
        "    return guard.start(['/bin/sh', '-c', line], cwd='/', env={'PATH': os.defpath},\n"
        "                       stdin=null, stdout=null, stderr=null, **more)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", prelude + text, str(folder)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_a_lost_guard_costs_no_one_else_their_processes(tmp_path: Path) -> None:
    done = script(
        "friend = os.spawnv(os.P_NOWAIT, '/bin/sleep', ['sleep', '60'])\n"
        "other = sh('exec sleep 60')\n"
        "lost = sh('exec sleep 60', grace=0.2)\n"
        "lost.spare.add(friend)\n"
        "os.kill(lost.guard_pid, signal.SIGKILL)\n"
        "assert lost.wait().lost\n"
        "assert os.waitpid(friend, os.WNOHANG) == (0, 0)\n"
        "assert other.poll(0) is None\n"
        "os.kill(friend, signal.SIGTERM)\n"
        "other.terminate(5.0)\n"
        "assert other.wait() == guard.Exit(None, signal.SIGTERM)\n",
        tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_guard_that_is_stopped_cannot_hold_up_an_ending(tmp_path: Path) -> None:
    done = script(
        "guard.KILL_LIMIT = 0.1\n"
        "run = sh('exec sleep 60')\n"
        "os.kill(run.guard_pid, signal.SIGSTOP)\n"
        "run.terminate(0.1)\n"
        "assert run.poll(10).lost\n"
        "assert not os.path.exists(f'/proc/{run.pid}')\n"
        "assert not os.path.exists(f'/proc/{run.guard_pid}')\n",
        tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_caller_without_standard_descriptors_can_start_commands(tmp_path: Path) -> None:
    done = script(
        "log = os.open(sys.argv[1] + '/log', os.O_WRONLY | os.O_CREAT, 0o600)\n"
        "os.closerange(0, 3)\n"
        "where = os.open(sys.argv[1], os.O_RDONLY)\n"
        "assert where == 0\n"
        "run = guard.start(['/bin/sh', '-c', 'pwd; echo two >&2; exit 8'], cwd=where,\n"
        "    env={'PATH': os.defpath}, stdin=null, stdout=log, stderr=log)\n"
        "os._exit(run.wait().code)\n",
        tmp_path,
    )
    assert done.returncode == 8
    assert (tmp_path / "log").read_text() == f"{tmp_path.resolve()}\ntwo\n"


def test_a_handler_that_raises_in_the_caller_ends_what_was_starting(tmp_path: Path) -> None:
    done = script(
        "from waybill.base import watch\n"
        "def stop(*_):\n"
        "    raise InterruptedError\n"
        "signal.signal(signal.SIGUSR1, stop)\n"
        "keep = watch.Watch._say\n"
        "def say(self, answer):\n"
        "    if 'pid' in answer:\n"
        "        os.kill(os.getppid(), signal.SIGUSR1)\n"
        "    keep(self, answer)\n"
        "watch.Watch._say = say\n"
        "try:\n"
        "    sh('exec sleep 60 ' + sys.argv[1])\n"
        "except InterruptedError:\n"
        "    sys.exit(0)\n"
        "sys.exit('no handler ran')\n",
        tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert named(tmp_path) == []
