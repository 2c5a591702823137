"""Whatever is changed of a run's records holds its receipt."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def judge(project: Any, *words: Any) -> tuple[int, Any]:
    done = project.run("receipt-check", "--allow", "rehearsal", *words, project.folder())
    return done.status, done.json


def rules(judgement: Any) -> set[str]:
    return {row["rule"] for row in judgement["reasons"]}


def flip(path: Path, at: int = -2) -> None:
    """Change one bit of one byte, so that text stays text."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))


def test_a_good_receipt_passes_only_when_its_rehearsal_is_allowed(judged: Any) -> None:
    held = judged.run("receipt-check", judged.folder() / "receipt.json")
    assert (held.status, held.json["pass"], rules(held.json)) == (1, False, {"rehearsal"})
    assert "held: rehearsal" in held.stderr
    status, judgement = judge(judged)
    assert (status, judgement["pass"], judgement["allowed"]) == (0, True, ["rehearsal"])
    assert judgement["reasons"] == []
    assert judgement["packet_id"] == "t1"
    assert judgement["receipt_id"] == judged.receipt()["receipt_id"]


FILES = [
    "events.jsonl",
    "stderr.log",
    "final.md",
    "work.patch",
    "base.patch",
    "prompt.md",
    "evidence/1.log",
    "reviews/1/review.json",
    "reviews/1/answer.json",
]


@pytest.mark.parametrize("name", FILES)
def test_one_changed_byte_of_a_file_holds(judged: Any, name: str) -> None:
    path = judged.folder() / name
    if not path.stat().st_size:
        path.write_text("something\n")
    else:
        flip(path)
    status, judgement = judge(judged)
    assert (status, judgement["pass"]) == (1, False)
    assert any(row["rule"] == "digest" and name in row["path"] for row in judgement["reasons"])


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_gone_or_a_link_holds(judged: Any, name: str) -> None:
    path = judged.folder() / name
    kept = path.rename(path.with_name("kept"))
    assert "digest" in rules(judge(judged)[1])
    path.symlink_to(kept)
    assert "digest" in rules(judge(judged)[1])


def test_a_changed_artifact_holds(judged: Any) -> None:
    judged.write("new.txt", "other\n")
    status, judgement = judge(judged)
    assert (status, [row["path"] for row in judgement["reasons"]]) == (1, ["new.txt"])


def edit(project: Any, name: str, change: Callable[[Any], Any]) -> None:
    path = project.folder() / name
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found, indent=2) + "\n")


def put(*keys: Any, value: Any) -> Callable[[Any], None]:
    def change(found: Any) -> None:
        for key in keys[:-1]:
            found = found[key]
        if value is None:
            del found[keys[-1]]
        else:
            found[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        put("objective", value="Something else."),
        put("execution", "timeout_seconds", value=3),
        put("evidence", "required_commands", value=["./check", "./other"]),
        put("role", value="validator"),
    ],
)
def test_a_changed_packet_holds(judged: Any, change: Any) -> None:
    edit(judged, "packet.json", change)
    status, judgement = judge(judged)
    assert (status, "digest" in rules(judgement)) == (1, True)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (put("exit_code", value=3), "agreement"),
        (put("changed_files", value=[]), "agreement"),
        (put("started_at", value="2026-01-01T00:00:00Z"), "agreement"),
        (put("sandbox", value="danger-full-access"), "agreement"),
        (put("codex_session_id", value="01998000-0000-7000-8000-00000000000a"), "agreement"),
        (put("codex_session_id", value=None), "agreement"),
        (put("resume_from_session", value="x"), "agreement"),
        (put("stdin", "bytes_written", value=7), "agreement"),
        (put("commands_run", 1, "exit_code", value=1), "agreement"),
        (put("commands_run", 1, value=None), "agreement"),
        (put("evidence", 0, "path", value="README"), "agreement"),
        (put("auth_mode", value="chatgpt-subscription"), "agreement"),
        (put("verdict", "status", value="WARN"), "identity"),
        (put("verdict", "judge_name", value="codex-thread:other"), "identity"),
        (put("verdict", "judge_model_family", value="gpt-9"), "identity"),
        (put("verdict", "author_id", value="codex-thread:other"), "identity"),
        (put("commands_run", 0, "output_excerpt", value="It is perfect."), "ledger"),
        (put("verdict", "summary", value="It is perfect."), "ledger"),
    ],
)
def test_a_changed_receipt_holds(judged: Any, change: Any, rule: str) -> None:
    edit(judged, "receipt.json", change)
    status, judgement = judge(judged)
    assert (status, judgement["pass"]) == (1, False)
    assert {rule, "ledger"} <= rules(judgement)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (put("tree", "result_tree", value="0" * 40), "tree"),
        (put("evidence", 0, "exit_code", value=1), "agreement"),
        (put("evidence", 0, "outcome", value="verify_failed"), "evidence"),
        (put("evidence", 0, "found", value="0" * 64), "evidence"),
        (put("outcome", value="review_rejected"), "outcome"),
        (put("state", value="running"), "outcome"),
        (put("refusals", value=["packet.json was changed during the run"]), "outcome"),
        (put("patch", "sha256", value="0" * 64), "digest"),
        (put("rehearsal", value=None), "schema"),
        (put("thread", "id", value="01998000-0000-7000-8000-00000000000a"), "agreement"),
        (put("reviews", value=[]), "verdict"),
        (put("warnings", value=["x"]), "ledger"),
    ],
)
def test_a_changed_run_record_holds(judged: Any, change: Any, rule: str) -> None:
    edit(judged, "run.json", change)
    done = judged.run("receipt-check", "--allow", "rehearsal", judged.folder())
    if rule == "schema":  # a key may be null, never absent
        assert (done.status, done.stdout) == (65, "")
        assert "run.json" in done.stderr
        return
    assert done.status == 1
    assert {rule, "ledger"} <= rules(done.json)


def test_a_judge_that_is_the_author_holds(judged: Any) -> None:
    thread = f"codex-thread:{judged.record()['thread']['id']}"
    edit(judged, "receipt.json", put("verdict", "judge_name", value=thread))
    _, judgement = judge(judged)
    assert any("author_neq_validator" in row["message"] for row in judgement["reasons"])


def test_a_receipt_of_the_generation_before_is_not_the_one_in_front(judged: Any) -> None:
    data = (judged.folder() / "generations" / "1-dispatch.json").read_bytes()
    (judged.folder() / "receipt.json").write_bytes(data)
    assert {"ledger", "verdict"} <= rules(judge(judged)[1])


def test_without_its_packet_or_record_a_receipt_is_judged_alone(judged: Any) -> None:
    (judged.folder() / "run.json").unlink()
    status, judgement = judge(judged)
    assert (status, rules(judgement)) == (1, {"run-record"})
    status, judgement = judge(judged, "--allow", "no-run-record")
    assert (status, judgement["allowed"]) == (0, ["no-run-record", "rehearsal"])
    (judged.folder() / "receipt.json").chmod(0o600)


def test_by_the_receipt_alone_files_do_not_count_and_the_judgement_says_so(judged: Any) -> None:
    flip(judged.folder() / "work.patch")
    status, judgement = judge(judged, "--no-files")
    assert (status, judgement["allowed"]) == (0, ["rehearsal", "no-files"])


def test_the_authors_own_word_is_no_verdict(worked: Any) -> None:
    said = {
        "status": "PASS",
        "judge_source": "codex-final-message",
        "summary": "x",
        "author_id": "a",
        "judge_name": "b",
        "judge_program": "c",
        "judge_model_family": "d",
    }
    edit(worked, "receipt.json", put("verdict", value=said))
    assert "identity" in rules(judge(worked)[1])
