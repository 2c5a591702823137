"""Who a process is, and whether it still lives."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from guard_stage import eventually
from waybill.base import descendants, process
from waybill.base.process import Identity


def test_this_process_lives() -> None:
    me = Identity.here()
    assert (me.pid, me.boot_id) == (os.getpid(), process.boot_id())
    assert len(me.boot_id) == 36
    assert me.alive() is True


@pytest.mark.parametrize(
    ("change", "alive"),
    [
        ({"host": "elsewhere"}, None),
        ({"boot_id": "an-earlier-boot"}, False),
        ({"started": 1}, False),
        ({"pid": 2**30}, False),
    ],
)
def test_another_host_boot_or_start_is_another_process(
    change: dict[str, object], alive: bool | None
) -> None:
    assert replace(Identity.here(), **change).alive() is alive


def test_a_process_that_ended_is_dead_before_it_is_reaped() -> None:
    child = subprocess.Popen(["/bin/sleep", "60"])
    started = process.start_time(child.pid)
    assert started is not None
    identity = replace(Identity.here(), pid=child.pid, started=started)
    assert identity.alive() is True
    child.kill()
    assert eventually(lambda: identity.alive() is False)
    seen = descendants.look(child.pid)
    assert seen is not None
    assert seen.dead
    child.wait()
    assert descendants.look(child.pid) is None
    assert identity.alive() is False


def test_a_start_time_is_read_past_any_name(tmp_path: Path) -> None:
    tool = tmp_path / "a) Z 1 (b c"
    shutil.copy("/bin/sleep", tool)
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    child = subprocess.Popen([str(tool), "60"])
    after = time.clock_gettime(time.CLOCK_BOOTTIME)
    try:
        ticks = os.sysconf("SC_CLK_TCK")
        started = process.start_time(child.pid)
        assert started is not None
        assert int(before * ticks) - 1 <= started <= after * ticks + 1
        seen = descendants.look(child.pid)
        assert seen is not None
        assert (seen.parent, seen.session, seen.dead) == (os.getpid(), os.getsid(0), False)
    finally:
        child.kill()
        child.wait()


def test_an_identity_survives_as_a_record() -> None:
    me = Identity.here()
    record = me.to_dict()
    assert set(record) == {"host", "boot_id", "pid", "started"}
    assert Identity.from_dict({**record, "more": 1}) == me


@pytest.mark.parametrize(
    "change",
    [{"host": None}, {"boot_id": 3}, {"pid": True}, {"pid": 0}, {"pid": "7"}, {"started": -1}],
)
def test_a_record_that_is_no_identity_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="an identity"):
        Identity.from_dict({**Identity.here().to_dict(), **change})


def test_descendants_are_listed_with_parents_first_and_without_the_spared() -> None:
    child = subprocess.Popen(
        ["/bin/sh", "-c", "sh -c 'sleep 60 & echo $$ $!; wait' & wait"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert child.stdout is not None
        middle, last = map(int, child.stdout.readline().split())
        pids = [seen.pid for seen in descendants.below(os.getpid())]
        assert pids.index(child.pid) < pids.index(middle) < pids.index(last)
        assert [seen.pid for seen in descendants.below(child.pid)] == [middle, last]
        assert descendants.below(child.pid, {middle}) == []
        assert descendants.below(child.pid, {last}) == descendants.below(child.pid)[:1]
    finally:
        os.killpg(child.pid, 9)
        child.communicate()
