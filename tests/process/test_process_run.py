"""Short calls: what they give back, and that they always end."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from guard_stage import ENV, PATIENCE, eventually, lives, named
from waybill.base import process
from waybill.base.process import Finished

USUAL: dict[str, Any] = {"cwd": "/", "env": ENV, "limit": PATIENCE}


def sh(line: str, **given: Any) -> Finished:
    return process.run(["/bin/sh", "-c", line], **{**USUAL, **given})


@pytest.fixture(params=["pidfd", "no pidfd"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel as it is, and one that lacks pidfd_open."""

    def absent(pid: int) -> int:
        raise OSError(errno.ENOSYS, "Function not implemented")

    if request.param == "no pidfd":
        monkeypatch.setattr(os, "pidfd_open", absent)


@pytest.mark.usefixtures("kernel")
def test_output_and_exit_are_passed_on() -> None:
    done = sh("echo out; echo err >&2; exit 3")
    assert done == Finished(3, None, b"out\n", b"err\n", timed_out=False, cut=False)
    assert not done.ok
    assert sh("exit 0").ok


def test_a_signal_is_no_exit_code() -> None:
    assert sh("kill -TERM $$") == Finished(None, signal.SIGTERM, b"", b"", timed_out=False)


def test_the_environment_and_the_folder_are_the_given_ones(tmp_path: Path) -> None:
    done = process.run(["/usr/bin/env"], **{**USUAL, "env": {"ONLY": "this"}})
    assert done.stdout == b"ONLY=this\n"
    assert sh("pwd -P", cwd=tmp_path).stdout == f"{tmp_path.resolve()}\n".encode()


def test_stdin_is_empty_unless_bytes_are_given() -> None:
    assert sh("cat").stdout == b""
    assert sh("cat", stdin=b"").stdout == b""
    assert sh("cat", stdin=b"to\0you").stdout == b"to\0you"


def test_a_big_stdin_arrives_whole() -> None:
    assert sh("wc -c", stdin=b"x" * 20_000_000).stdout.strip() == b"20000000"


def test_a_child_that_does_not_read_holds_nothing_up() -> None:
    done = sh("exit 4", stdin=b"x" * 20_000_000)
    assert (done.exit_code, done.timed_out) == (4, False)


def test_output_beyond_what_is_kept_is_dropped_and_said() -> None:
    done = sh("head -c 300000 /dev/zero; echo all >&2", keep=1000)
    assert done == Finished(0, None, bytes(1000), b"all\n", timed_out=False, cut=True)
    assert not sh("head -c 1000 /dev/zero", keep=1000).cut


def test_a_child_may_write_to_a_descriptor_itself(tmp_path: Path) -> None:
    with (tmp_path / "patch").open("wb") as file:
        done = sh("head -c 300000 /dev/zero; echo err >&2", stdout_to=file.fileno(), keep=10)
    assert done == Finished(0, None, b"", b"err\n", timed_out=False, cut=False)
    assert (tmp_path / "patch").stat().st_size == 300_000


@pytest.mark.usefixtures("kernel")
def test_a_call_ends_at_its_limit_with_what_it_said() -> None:
    began = time.monotonic()
    done = sh("echo early; exec sleep 60", limit=0.2)
    assert done == Finished(None, signal.SIGTERM, b"early\n", b"", timed_out=True)
    assert not done.ok
    assert 0.2 <= time.monotonic() - began < 10


@pytest.mark.usefixtures("kernel")
def test_a_call_that_ignores_term_is_killed() -> None:
    done = sh("trap '' TERM; echo ready; exec sleep 60", limit=0.3, grace=0.1)
    assert (done.signal, done.timed_out) == (signal.SIGKILL, True)


def test_a_call_that_never_stops_talking_ends_at_its_limit() -> None:
    done = process.run(["yes"], **{**USUAL, "limit": 0.2, "keep": 100})
    assert (done.signal, done.timed_out, done.cut) == (signal.SIGTERM, True, True)
    assert done.stdout == b"y\n" * 50


@pytest.mark.usefixtures("kernel")
def test_a_grandchild_that_holds_the_pipes_is_ended() -> None:
    began = time.monotonic()
    done = sh("sleep 60 & echo $!; exit 5")
    assert (done.exit_code, done.timed_out) == (5, False)
    assert time.monotonic() - began < 10
    assert eventually(lambda: not lives(int(done.stdout)) or is_dead(int(done.stdout)))


def is_dead(pid: int) -> bool:
    return process.start_time(pid) is None


def test_a_grandchild_that_left_the_group_holds_nothing_up() -> None:
    began = time.monotonic()
    done = sh("setsid sleep 60 & echo $!; exit 5")
    assert (done.exit_code, done.timed_out) == (5, False)
    assert time.monotonic() - began < 10
    os.kill(int(done.stdout), signal.SIGKILL)


@pytest.mark.parametrize(
    ("number", "argv", "cwd"),
    [
        (errno.ENOENT, ["/absent"], "/"),
        (errno.EACCES, ["/etc/passwd"], "/"),
        (errno.E2BIG, ["/bin/true", "x" * 200_000], "/"),
        (errno.EINVAL, ["/bin/true", "a\0b"], "/"),
        (errno.EINVAL, [], "/"),
        (errno.ENOENT, ["/bin/true"], "/absent"),
    ],
)
def test_why_a_call_cannot_start_is_exact(number: int, argv: list[str], cwd: str) -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError) as caught:
        process.run(argv, **{**USUAL, "cwd": cwd})
    assert caught.value.errno == number
    assert os.listdir("/proc/self/fd") == before


def test_calls_leave_no_descriptor_and_no_zombie() -> None:
    before = os.listdir("/proc/self/fd")
    pending = process.start(["/bin/true"], cwd="/", env=ENV)
    assert pending.finish(PATIENCE).ok
    assert os.listdir("/proc/self/fd") == before
    assert not lives(pending.pid)


def test_no_other_descriptor_reaches_a_call() -> None:
    leak = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(leak, True)
    try:
        done = process.run(["/bin/ls", "/proc/self/fd"], **USUAL)
    finally:
        os.close(leak)
    # The fourth is the one that ls reads the listing with.
    assert done.stdout.split() == [b"0", b"1", b"2", b"3"]


def test_calls_run_at_the_same_time(tmp_path: Path) -> None:
    # Each can end only while the other runs.
    os.mkfifo(tmp_path / "one")
    os.mkfifo(tmp_path / "two")
    lines = ("cat one; echo second >two", "echo first >one; cat two")
    pending = [process.start(["/bin/sh", "-c", line], cwd=tmp_path, env=ENV) for line in lines]
    assert [each.finish(PATIENCE).stdout for each in pending] == [b"first\n", b"second\n"]


def test_a_call_that_is_not_wanted_any_more_is_ended(tmp_path: Path) -> None:
    pending = process.start(
        ["/bin/sh", "-c", "trap '' TERM; : >ready; exec sleep 60"], cwd=tmp_path, env=ENV
    )
    assert eventually((tmp_path / "ready").exists)
    began = time.monotonic()
    pending.cancel()
    assert time.monotonic() - began < 10
    assert not lives(pending.pid)


def test_a_caller_that_ignores_its_children_still_learns_the_exit() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert sh("exit 6").exit_code == 6
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_call_ends_with_its_caller(tmp_path: Path) -> None:
    text = (
        "import sys\n"
        "from waybill.base import process\n"
        "process.run(['/bin/sh', '-c', 'trap \"\" TERM; : >ready; read x </dev/null; "
        "while :; do sleep 1; done', sys.argv[1]], cwd=sys.argv[1], env={}, limit=60)\n"
    )
    caller = subprocess.Popen([sys.executable, "-c", text, str(tmp_path)])
    assert eventually((tmp_path / "ready").exists)
    caller.kill()
    caller.wait()
    assert eventually(lambda: not named(tmp_path), 3.0)


def test_a_handler_that_raises_while_a_call_starts_leaves_no_call() -> None:
    # In a process of one thread, where the signal waits until the mask is put back.
    text = """
import os, signal
from waybill.base import descendants, process

def stop(*_):
    raise InterruptedError

def fork():
    pid = real()
    if pid:
        os.kill(os.getpid(), signal.SIGUSR1)
    return pid

signal.signal(signal.SIGUSR1, stop)
real, os.fork = os.fork, fork
descriptors = os.listdir("/proc/self/fd")
try:
    process.run(["/bin/sleep", "60"], cwd="/", env={}, limit=60)
except InterruptedError:
    assert os.listdir("/proc/self/fd") == descriptors
    assert descendants.below(os.getpid()) == []
    print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, check=False)
    assert (done.stdout, done.stderr) == (b"interrupted\n", b"")
