"""How a guard ends a tree that is to end, or that outlives its command."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from pathlib import Path

import pytest
from guard_stage import Start, eventually, lives, named
from waybill.base import descendants
from waybill.base.guard import Exit
from waybill.base.watch import Watch

FOLDER = Path(__file__).parent


def started(tmp_path: Path, *names: str) -> bool:
    return eventually(lambda: all((tmp_path / name).exists() for name in names))


def test_a_grandchild_that_holds_stdout_does_not_delay_the_end(guarded: Start) -> None:
    reader, writer = os.pipe()
    run = guarded("sleep 60 & echo $!; exit 3", stdout=writer, drain=0.1)
    os.close(writer)
    began = time.monotonic()
    end = run.wait()
    with os.fdopen(reader, "rb") as output:
        pid = int(output.read())
    assert end == Exit(3, None, cleaned=[pid])
    assert time.monotonic() - began < 5
    assert not lives(pid)


def test_a_grandchild_that_left_its_session_is_ended(guarded: Start, tmp_path: Path) -> None:
    end = guarded("setsid sh -c 'echo $$ >pid; exec sleep 60' & exit 0", drain=0.3).wait()
    pid = int((tmp_path / "pid").read_text())
    assert end == Exit(0, None, cleaned=[pid])
    assert not lives(pid)


def test_what_ends_by_itself_in_time_is_not_cleaned(guarded: Start) -> None:
    began = time.monotonic()
    assert guarded("sleep 0.1 & exit 0", drain=30.0).wait() == Exit(0, None)
    assert time.monotonic() - began < 10


def test_a_command_that_obeys_needs_no_grace(guarded: Start) -> None:
    run = guarded("exec sleep 60")
    began = time.monotonic()
    run.terminate(30.0)
    assert run.wait() == Exit(None, signal.SIGTERM)
    assert time.monotonic() - began < 10


def test_a_command_may_use_its_grace(guarded: Start, tmp_path: Path) -> None:
    run = guarded("trap 'echo bye; exit 9' TERM; : >ready; while :; do sleep 0.01; done")
    assert started(tmp_path, "ready")
    run.terminate()
    assert run.wait().code == 9
    assert (tmp_path / "out").read_text() == "bye\n"


def test_a_command_that_ignores_term_is_killed_after_the_grace(
    guarded: Start, tmp_path: Path
) -> None:
    run = guarded("trap '' TERM; : >ready; exec sleep 60", grace=0.3)
    assert started(tmp_path, "ready")
    began = time.monotonic()
    run.terminate()
    assert run.poll(0) is None
    assert run.wait() == Exit(None, signal.SIGKILL)
    assert 0.3 <= time.monotonic() - began < 5


def test_a_second_call_can_only_hasten_the_end(guarded: Start, tmp_path: Path) -> None:
    run = guarded("trap '' TERM; : >ready; exec sleep 60")
    assert started(tmp_path, "ready")
    began = time.monotonic()
    for grace in (60.0, 0.2, 60.0):
        run.terminate(grace)
    assert run.wait() == Exit(None, signal.SIGKILL)
    assert time.monotonic() - began < 10


def test_a_stopped_command_gets_to_its_term(guarded: Start) -> None:
    run = guarded("kill -STOP $$")
    run.terminate(30.0)
    began = time.monotonic()
    assert run.wait() == Exit(None, signal.SIGTERM)
    assert time.monotonic() - began < 10


def test_a_tree_that_resists_is_gone_after_the_grace(guarded: Start, tmp_path: Path) -> None:
    run = guarded([sys.executable, "-IS", str(FOLDER / "hostile_worker.py"), str(tmp_path)])
    assert started(tmp_path, "leader", "daemon", "busy", "session")
    run.terminate(0.2)
    end = run.wait()
    assert (end.code, end.signal, end.lost, end.left) == (None, signal.SIGKILL, False, [])
    named_in_files = {int((tmp_path / role).read_text()) for role in ("daemon", "busy", "session")}
    assert named_in_files <= set(end.cleaned)
    assert named(tmp_path) == []


@pytest.mark.parametrize("walk", ["as it is", "always too late"])
def test_a_process_cannot_hop_away_from_its_end(
    guarded: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, walk: str
) -> None:
    if walk == "always too late":
        monkeypatch.setattr(descendants, "below", lambda root, spare=(): [])
    reader, writer = os.pipe()
    run = guarded(
        [sys.executable, "-IS", str(FOLDER / "hopping_worker.py"), str(tmp_path)],
        stdout=writer,
        drain=0.2,
        grace=0.1,
    )
    os.close(writer)
    end = run.wait()
    assert (end.code, end.lost, end.left) == (0, False, [])
    assert (tmp_path / "hopping").exists()
    assert end.cleaned
    # No list of processes could prove it: the pipe ends with the last that holds it.
    poller = select.poll()
    poller.register(reader, select.POLLIN)
    assert poller.poll(1000)
    os.close(reader)


def test_a_fault_of_the_guard_still_ends_the_tree(
    guarded: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(watch: Watch) -> bool:
        raise RuntimeError

    monkeypatch.setattr(Watch, "_obey", fail)
    run = guarded([sys.executable, "-IS", str(FOLDER / "hostile_worker.py"), str(tmp_path)])
    assert started(tmp_path, "leader", "daemon", "busy", "session")
    run.terminate()
    end = run.wait()
    assert (end.signal, end.lost, end.left) == (signal.SIGKILL, True, [])
    assert named(tmp_path) == []


def test_a_block_that_is_left_ends_its_command(guarded: Start) -> None:
    with pytest.raises(KeyError), guarded("exec sleep 60") as run:
        raise KeyError
    assert run.poll(0) is not None
    assert not lives(run.pid)
    assert not lives(run.guard_pid)
