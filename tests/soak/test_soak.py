"""Large counts, run by `make soak`: races for one packet, and dispatchers killed at random."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from waybill.base import exits

pytestmark = pytest.mark.soak

RACES, RACERS = 60, 8
KILLS = 120


def turn() -> list[Any]:
    """A stream of one completed turn that takes a little while."""
    return [
        {"type": "thread.started", "thread_id": "01900000-0000-7000-8000-000000000001"},
        {"wait": 0.1},
        {"type": "turn.started"},
        {"wait": 0.1},
        {"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": "done"}},
        {"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}},
    ]


def test_of_dispatchers_of_one_packet_released_together_one_runs(
    project: Any, standin: Callable[..., Any], packet: Callable[..., dict[str, Any]]
) -> None:
    codex = standin(edit="echo x >>ran.txt")
    for number in range(RACES):
        ident = f"race-{number}"
        started = [
            project.start("dispatch", "--codex", str(codex.path), stdin=packet(packet_id=ident))
            for _ in range(RACERS)
        ]
        ended = [project.finish(process) for process in started]
        statuses = sorted(result.status for result in ended)
        assert set(statuses) <= {exits.OK, exits.BUSY}, [row.stderr for row in ended]
        assert exits.OK in statuses
        ran = (project.top / "ran.txt").read_text().count("x")
        assert ran == number + 1, f"race {number}: {ran - number} of {RACERS} ran"


def test_a_dispatcher_killed_at_any_moment_leaves_nothing_running_and_an_honest_record(
    project: Any, standin: Callable[..., Any], packet: Callable[..., dict[str, Any]]
) -> None:
    chance = random.Random(20260101)
    codex = standin(events=turn(), edit="echo x >>made.txt")
    outcomes: dict[str, int] = {}
    for number in range(KILLS):
        ident = f"kill-{number}"
        found = packet(packet_id=ident)
        process = project.start("dispatch", "--codex", str(codex.path), stdin=found)
        time.sleep(chance.random() * 1.2)
        process.send_signal(signal.SIGKILL)
        project.finish(process)
        assert project.idle(3), f"kill {number}: something was left running"
        again = project.run("dispatch", "--codex", str(codex.path), stdin=found)
        assert again.status in exits.NAMES and again.status != exits.SOFTWARE, again.stderr
        assert again.stdout, f"kill {number}: {again.status}: {again.stderr}"
        receipt = again.json
        record = project.record(ident)
        outcomes[record["outcome"]] = outcomes.get(record["outcome"], 0) + 1
        assert record["state"] in ("receipted", "recovered")
        assert receipt == project.receipt(ident)
        if record["outcome"] == "ok":
            assert again.status == exits.OK and record["turn"]["status"] == "completed"
        else:
            assert record["outcome"] == "interrupted" and again.status == exits.TERM
    assert set(outcomes) <= {"ok", "interrupted"}
    assert len(outcomes) == 2, f"the kills must fall before and after the end: {outcomes}"
