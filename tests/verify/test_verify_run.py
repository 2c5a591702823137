"""verify RECEIPT: the required commands of a run that has been, by the pins of its launch."""

from __future__ import annotations

import json
from typing import Any

import pytest


@pytest.fixture
def deferred(project: Any, packet: Any, standin: Any) -> Any:
    """A run whose one command is still to be run."""
    given = packet({"evidence.required_commands": ["./check"]})
    codex = standin()
    done = project.run("dispatch", "--codex", codex.path, "--defer-evidence", stdin=given)
    assert done.status == 0
    return done


@pytest.mark.parametrize("way", ["stdin", "receipt", "packet on stdin", "packet", "run-dir"])
def test_a_run_is_found_by_its_receipt_or_its_packet(
    project: Any, packet: Any, deferred: Any, way: str
) -> None:
    given = packet({"evidence.required_commands": ["./check"]})
    (project.root / "packet.json").write_text(json.dumps(given))
    words: list[Any] = []
    stdin: Any = None
    if way == "stdin":
        stdin = deferred.stdout
    elif way == "receipt":
        words = [project.folder() / "receipt.json"]
    elif way == "packet on stdin":
        stdin = given
    elif way == "packet":
        words = [project.root / "packet.json"]
    else:
        words, stdin = ["--run-dir", project.folder()], deferred.stdout
    done = project.run("verify", *words, stdin=stdin, cwd=project.root)
    assert (done.status, project.record()["outcome"]) == (0, "ok")


def test_a_receipt_is_held_until_verify_ran(project: Any, deferred: Any) -> None:
    held = project.run("receipt-check", stdin=deferred.stdout).json["reasons"]
    assert {row["rule"] for row in held} == {"outcome", "verdict", "evidence"}
    project.run("verify", stdin=deferred.stdout)
    held = project.run("receipt-check", project.folder()).json["reasons"]
    assert {row["rule"] for row in held} == {"verdict"}


def test_a_failed_check_can_be_run_again(project: Any, deferred: Any) -> None:
    project.write("broken.txt", "x")
    stale = project.run("verify", stdin=deferred.stdout)
    assert (stale.status, stale.stdout) == (76, deferred.stdout)
    assert "the tree has changed since the run" in stale.stderr
    (project.top / "broken.txt").unlink()
    done = project.run("verify", stdin=deferred.stdout)
    assert done.status == 0


def test_a_check_that_says_no_is_recorded_and_can_be_bettered(
    project: Any, packet: Any, standin: Any
) -> None:
    outside = project.root / "answer"
    outside.write_text("1")
    project.write("tool", f"#!/bin/sh\nexit $(cat {outside})\n", 0o755)
    given = packet({"evidence.required_commands": ["./tool"]})
    first = project.run("dispatch", "--codex", standin().path, stdin=given)
    again = project.run("verify", stdin=first.stdout)
    outside.write_text("0")
    last = project.run("verify", stdin=again.stdout)
    assert (first.status, again.status, last.status) == (1, 1, 0)
    assert again.json["failure_reason"] == "verify_failed: ./tool failed: exit 1"
    assert "failure_reason" not in last.json
    names = sorted(path.name for path in (project.folder() / "generations").iterdir())
    assert names == ["1-dispatch.json", "2-verify.json", "3-verify.json"]
    ledger = project.folder().parent / "ledger.jsonl"
    assert [json.loads(row)["by"] for row in ledger.read_text().splitlines()] == [
        "dispatch",
        "verify",
        "verify",
    ]


def test_a_program_that_lost_its_pin_is_still_not_run(
    project: Any, packet: Any, standin: Any
) -> None:
    project.write(".gitignore", "/tool\n/ran\n")
    project.commit()
    project.write("tool", "#!/bin/sh\ntrue\n", 0o755)
    given = packet({"evidence.required_commands": ["./tool"]})
    words = ["--codex", standin().path, "--defer-evidence"]
    first = project.run("dispatch", *words, stdin=given)
    project.write("tool", "#!/bin/sh\ntouch ran\n", 0o755)
    done = project.run("verify", stdin=first.stdout)
    assert (done.status, project.record()["outcome"]) == (76, "verify_not_run")
    assert "the program changed during the run: pinned" in done.stderr
    assert not (project.top / "ran").exists()


def test_a_receipt_that_verify_cannot_better_passes_unchanged(
    project: Any, packet: Any, standin: Any
) -> None:
    first = project.run("dispatch", "--codex", standin().path, stdin=packet())
    done = project.run("verify", stdin=first.stdout)
    assert (done.status, done.stdout) == (0, first.stdout)
    assert "ok: verify cannot better it; nothing was started" in done.stderr


def test_a_validators_verdict_is_judged_again_with_the_checks(
    project: Any, packet: Any, standin: Any
) -> None:
    message = (
        "VERDICT: PASS\nCOMMANDS RUN: cat README\nauthor: a\njudge: b\n"
        "judge_program: p\njudge_model_family: f\ncontext_id: c\n"
    )
    item = {"id": "1", "type": "command_execution", "command": "cat README", "exit_code": 0,
            "status": "completed"}  # fmt: skip
    events = [
        {"type": "thread.started", "thread_id": "01998000-0000-7000-8000-00000000000a"},
        {"type": "item.completed", "item": item},
        {"type": "item.completed", "item": {"id": "2", "type": "agent_message", "text": message}},
        {"type": "turn.completed"},
    ]
    codex = standin(events=events, say=message, edit="true")
    given = packet({"role": "validator", "evidence.required_commands": ["./check"]})
    done = project.run("dispatch", "--codex", codex.path, "--defer-evidence", stdin=given)
    assert done.status == 0
    verified = project.run("verify", stdin=done.stdout)
    assert (verified.status, verified.json["verdict"]["status"]) == (0, "PASS")
    assert verified.json["verdict"]["judge_source"] == "codex-final-message"
    assert project.run("receipt-check", project.folder()).status == 0


@pytest.mark.parametrize(
    ("stdin", "status", "said"),
    [
        ("{}", 65, "violates schema run-receipt"),
        ("no json", 65, "not JSON"),
    ],
)
def test_what_is_no_receipt_is_told(project: Any, stdin: str, status: int, said: str) -> None:
    done = project.run("verify", stdin=stdin)
    assert (done.status, done.stdout) == (status, "")
    assert said in done.stderr


def test_a_receipt_without_a_run_is_told(project: Any, deferred: Any) -> None:
    found = {**deferred.json, "outputs": {**deferred.json["outputs"], "receipt_path": "r.json"}}
    done = project.run("verify", stdin=found)
    assert (done.status, done.stdout) == (66, "")
    assert "holds no run" in done.stderr
