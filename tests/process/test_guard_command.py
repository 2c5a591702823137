"""What a command under a guard is given, and what is said of it."""

from __future__ import annotations

import errno
import os
import select
import signal
from pathlib import Path

import pytest
from guard_stage import ENV, Start
from waybill.base import descendants, process
from waybill.base.guard import Exit


@pytest.mark.parametrize(
    ("line", "end"),
    [
        ("exit 0", Exit(0, None)),
        ("exit 77", Exit(77, None)),
        ("exit 255", Exit(255, None)),
        ("kill -KILL $$", Exit(None, signal.SIGKILL)),
        ("kill -PIPE $$", Exit(None, signal.SIGPIPE)),
        ("kill -INT $$", Exit(None, signal.SIGINT)),
    ],
)
def test_the_exit_of_a_command_is_passed_on(guarded: Start, line: str, end: Exit) -> None:
    assert guarded(line).wait() == end


def test_an_end_is_seen_on_the_descriptor_and_told_again(guarded: Start) -> None:
    run = guarded("exit 3")
    poller = select.poll()
    poller.register(run, select.POLLIN)
    assert poller.poll(20_000)
    assert run.poll(20) == Exit(3, None)
    assert run.poll(0) == run.wait() == Exit(3, None)
    assert run.fileno() == -1


def test_a_command_that_goes_on_has_no_end_yet(guarded: Start) -> None:
    run = guarded("exec sleep 60")
    assert run.poll(0) is None
    assert run.poll(0.01) is None
    assert process.start_time(run.pid) == run.started


def test_nothing_of_a_command_stays_in_the_process_table(guarded: Start) -> None:
    before = descendants.below(os.getpid())
    descriptors = os.listdir("/proc/self/fd")
    guarded("sleep 60 & exit 0", drain=0.0).wait()
    with pytest.raises(FileNotFoundError):
        guarded(["/absent"])
    assert descendants.below(os.getpid()) == before
    assert os.listdir("/proc/self/fd") == descriptors


def plain(folder: Path, mode: int) -> str:
    path = folder / "plain"
    path.write_text("neither a binary nor a script\n")
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize(
    ("number", "argv", "cwd"),
    [
        (errno.ENOENT, ["/absent"], "."),
        (errno.ENOENT, ["absent-from-the-path"], "."),
        (errno.EACCES, ["0644"], "."),
        (errno.ENOEXEC, ["0755"], "."),
        (errno.E2BIG, ["/bin/true", "x" * 200_000], "."),
        (errno.EINVAL, ["/bin/true", "a\0b"], "."),
        (errno.EINVAL, ["/bin/true", "\ud800"], "."),
        (errno.EINVAL, [], "."),
        (errno.ENOENT, ["/bin/true"], "absent"),
        (errno.ENOTDIR, ["/bin/true"], "out"),
    ],
)
def test_why_a_command_cannot_start_is_exact(
    guarded: Start, tmp_path: Path, number: int, argv: list[str], cwd: str
) -> None:
    if argv and argv[0].isdigit():
        argv = [plain(tmp_path, int(argv[0], 8))]
    with pytest.raises(OSError) as caught:
        guarded(argv, cwd=str(tmp_path / cwd))
    assert caught.value.errno == number
    if argv:
        assert caught.value.filename == (argv[0] if cwd == "." else str(tmp_path / cwd))


def test_a_descriptor_that_is_not_open_is_an_error(guarded: Start) -> None:
    with pytest.raises(OSError) as caught:
        guarded("exit 0", stdin=9999)
    assert caught.value.errno == errno.EBADF


def test_a_bad_variable_is_an_error(guarded: Start) -> None:
    with pytest.raises(OSError) as caught:
        guarded("exit 0", env={"A=B": "C"})
    assert caught.value.errno == errno.EINVAL


def test_the_environment_is_the_given_one_and_no_more(guarded: Start, tmp_path: Path) -> None:
    guarded(["/usr/bin/env"], env={"ONLY": "this"}).wait()
    assert (tmp_path / "out").read_text() == "ONLY=this\n"


def test_a_name_is_looked_for_in_the_given_path(guarded: Start, tmp_path: Path) -> None:
    tool = tmp_path / "bin" / "tool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\nexit 21\n")
    tool.chmod(0o755)
    assert guarded(["tool"], env={"PATH": str(tool.parent)}).wait() == Exit(21, None)


def test_the_executable_may_differ_from_the_name(guarded: Start, tmp_path: Path) -> None:
    guarded(["renamed", "-c", "echo $0 $1", "a", "b"], executable="/bin/sh").wait()
    guarded(
        ["renamed", "-c", "readlink /proc/$$/exe; tr '\\0' ' ' </proc/$$/cmdline"],
        executable="/bin/sh",
    ).wait()
    lines = (tmp_path / "out").read_text().splitlines()
    assert lines[:2] == ["a b", str(Path("/bin/sh").resolve())]
    assert lines[2].startswith("renamed -c ")


def test_stdin_and_the_folder_are_those_of_the_descriptors(guarded: Start, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("what to do\n")
    (tmp_path / "sub").mkdir()
    stdin = os.open(tmp_path / "in", os.O_RDONLY)
    folder = os.open(tmp_path / "sub", os.O_RDONLY)
    guarded("pwd -P; cat; echo oops >&2", stdin=stdin, cwd=folder).wait()
    os.close(stdin)
    os.close(folder)
    assert (tmp_path / "out").read_text() == f"{tmp_path.resolve() / 'sub'}\nwhat to do\n"
    assert (tmp_path / "err").read_text() == "oops\n"


def test_a_pipe_ends_for_the_command_when_the_caller_closes_it(guarded: Start) -> None:
    reader, writer = os.pipe()
    run = guarded("cat; exit 4", stdin=reader)
    os.close(reader)
    assert run.poll(0) is None
    os.close(writer)
    assert run.wait() == Exit(4, None)


def test_no_other_descriptor_reaches_the_command(guarded: Start, tmp_path: Path) -> None:
    leak = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(leak, True)
    try:
        guarded(["/bin/ls", "/proc/self/fd"]).wait()
    finally:
        os.close(leak)
    # The fourth is the one that ls reads the listing with.
    assert (tmp_path / "out").read_text().split() == ["0", "1", "2", "3"]


def test_the_command_starts_with_default_signals(guarded: Start, tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    try:
        guarded(["/bin/grep", "^Sig[BI]", "/proc/self/status"]).wait()
    finally:
        signal.signal(signal.SIGHUP, before)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    lines = (tmp_path / "out").read_text().splitlines()
    # The C library keeps two signals for itself, which nobody can set and a caller can inherit.
    ours = sum(1 << (number - 1) for number in signal.valid_signals())
    assert [int(line.split()[1], 16) & ours for line in lines] == [0, 0]


def test_the_command_leads_a_session_that_is_not_the_guards(guarded: Start) -> None:
    run = guarded("read line", stdin=os.pipe()[0])
    seen, above = descendants.look(run.pid), descendants.look(run.guard_pid)
    assert seen is not None
    assert above is not None
    assert (seen.parent, seen.group, seen.session) == (run.guard_pid, run.pid, run.pid)
    assert above.session == run.guard_pid != os.getsid(0)


def test_the_guard_leaves_signals_to_the_caller(guarded: Start) -> None:
    reader, writer = os.pipe()
    run = guarded("read line; exit 5", stdin=reader)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        os.kill(run.guard_pid, number)
    os.write(writer, b"go on\n")
    assert run.wait() == Exit(5, None)
    os.close(reader)
    os.close(writer)


def test_a_caller_that_ignores_its_children_still_learns_the_end(guarded: Start) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert guarded("exit 6").wait() == Exit(6, None)
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_the_usual_variables_are_enough(guarded: Start) -> None:
    assert guarded(["true"], env=ENV).wait() == Exit(0, None)
