"""A receipt: its name, what it is built from, and what a valid one still lacks."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from good import ARGV, RUN, make
from waybill.base import masking, schema
from waybill.packet import receipt, record

NOW = 1767323045.5
BEGAN = "2026-01-02T03:04:05.500Z"


@pytest.mark.parametrize(
    ("packet_id", "attempt", "name"),
    [
        pytest.param("t1", 1, "t1", id="a safe name"),
        pytest.param("A_b.c-1", 1, "A_b.c-1", id="every safe character"),
        pytest.param("a b/c", 1, "a-b-c", id="unsafe characters"),
        pytest.param("a  b", 1, "a--b", id="each for itself"),
        pytest.param("-a-", 1, "a", id="outer dashes"),
        pytest.param("/é/", 1, "packet", id="nothing left"),
        pytest.param("t1", 3, "t1-3", id="a further attempt"),
    ],
)
def test_a_receipt_is_named_by_its_start_and_its_packet(
    packet_id: str, attempt: int, name: str
) -> None:
    found = receipt.receipt_id(packet_id, BEGAN, attempt)
    assert found == f"codex-receipt-20260102T030405Z-{name}"


def ran() -> dict[str, Any]:
    """The record of a run that ended well."""
    found = record.new(make(), 1, NOW, Path("/w"))
    found["timing"] |= {"started": BEGAN, "ended": "2026-01-02T03:05:05.000Z"}
    found |= {
        "outcome": "ok",
        "auth": {"mode": "chatgpt-subscription", "status": "Logged in", "environment_names": []},
        "thread": {"id": "th-1", "resumed_from": None},
        "process": {"exit_code": 0},
        "stdin": {"mode": "pipe-prompt", "bytes_written": 6, "closed_at": BEGAN},
        "tree": {"kind": "git"},
        "patch": {"files": [{"path": "a.txt", "status": "A"}]},
        "final_message": {"path": "final.md"},
        "artifacts": [
            {"path": "docs/schema.json", "sha256": "a" * 64},
            {"path": "gone.txt", "sha256": None},
        ],
        "evidence": [
            {"command": "./check", "exit_code": 7, "reason": None},
            {"command": "./later", "exit_code": -1, "reason": receipt.NOT_ATTEMPTED + "x"},
        ],
    }
    return found


def build(row: dict[str, Any], **given: Any) -> dict[str, Any]:
    verdict = receipt.no_verdict("nobody has judged this run")
    usual = {"verdict": verdict, "excerpts": ["said", ""], "mask": masking.Mask(), "at": NOW}
    found = receipt.build(make(), row, **{**usual, **given})
    assert schema.errors("run-receipt", found) == []
    return found


def test_a_run_is_told_as_it_was() -> None:
    found = build(ran())
    assert (found["exit_code"], found["timed_out"], found["codex_session_id"]) == (0, False, "th-1")
    assert (found["started_at"], found["ended_at"]) == (BEGAN, "2026-01-02T03:05:05.000Z")
    assert found["changed_files"] == ["a.txt"]
    assert found["commands_run"] == [
        {"command": " ".join(ARGV), "exit_code": 0, "output_excerpt": "said"},
        {"command": "./check", "exit_code": 7},
    ]
    assert found["evidence"] == [
        {"path": "docs/schema.json", "kind": "schema"},
        {"path": f"{RUN}/final.md", "kind": "final-message"},
    ]
    assert found["stdin"] == {"mode": "pipe-prompt", "closed_at": BEGAN, "bytes_written": 6}
    assert not {"failure_reason", "resume_from_session"} & set(found)


def test_a_refusal_holds_nothing_that_did_not_happen() -> None:
    row = record.new(make(), 1, NOW, Path("/w"))
    row |= {"outcome": "auth", "reason": "no login"}
    found = build(row, verdict=receipt.error_verdict("no login"), excerpts=[])
    assert (found["exit_code"], found["stdin"]["bytes_written"]) == (-1, 0)
    assert (found["commands_run"], found["changed_files"], found["evidence"]) == ([], [], [])
    assert found["started_at"] == found["ended_at"] == found["stdin"]["closed_at"] == BEGAN
    assert (found["auth_mode"], found["failure_reason"]) == ("unknown", "auth: no login")
    assert found["verdict"]["status"] == "ERROR"


@pytest.mark.parametrize(
    ("change", "key", "value"),
    [
        pytest.param({"process": {"exit_code": None}}, "exit_code", -1, id="ended by a signal"),
        pytest.param({"process": None}, "exit_code", -1, id="never started"),
        pytest.param({"tree": None}, "changed_files", [], id="no tree to compare"),
        pytest.param({"patch": None}, "changed_files", [], id="no patch"),
        pytest.param(
            {"thread": {"id": "b", "resumed_from": "a"}}, "resume_from_session", "a", id="resumed"
        ),
        pytest.param(
            {"outcome": "no_work", "reason": "why"}, "failure_reason", "no_work: why", id="a reason"
        ),
    ],
)
def test_what_is_unknown_is_not_made_up(change: dict[str, Any], key: str, value: Any) -> None:
    assert build({**ran(), **change})[key] == value


def test_secrets_are_masked_and_names_and_digests_are_not() -> None:
    row = ran() | {"outcome": "no_work", "reason": "s3cr3t-value"}
    mask = masking.Mask({"A_KEY": "s3cr3t-value", "B_KEY": "t1-t1-t1"})
    found = build(row, mask=mask, excerpts=["x s3cr3t-value"])
    assert found["failure_reason"] == "no_work: ***"
    assert found["commands_run"][0]["output_excerpt"] == "x ***"
    assert mask.count == 2


IDENTITY = {
    "author_id": "a",
    "judge_name": "j",
    "judge_program": "codex-cli 0.149.0",
    "judge_model_family": "gpt-5",
}
PASS = {"status": "PASS", "judge_source": "x", "summary": "", **IDENTITY}


def lacking(key: str) -> dict[str, Any]:
    return {name: value for name, value in PASS.items() if name != key}


@pytest.mark.parametrize(
    ("change", "gaps"),
    [
        pytest.param({}, [], id="nobody has judged it"),
        pytest.param({"verdict": PASS}, [], id="a proven judge"),
        pytest.param({"verdict": receipt.error_verdict("x")}, [], id="a judge who did not speak"),
        pytest.param({"commands_run": []}, ["$.commands_run"], id="no command"),
        pytest.param(
            {"commands_run": [{"command": "x", "exit_code": 0}, {"command": " ", "exit_code": 0}]},
            ["$.commands_run[1].command"],
            id="a blank command",
        ),
        *(
            pytest.param({"verdict": lacking(key)}, ["$.verdict"], id=f"no {key}")
            for key in IDENTITY
        ),
        pytest.param(
            {"verdict": {**PASS, "judge_model_family": "Unknown"}}, ["$.verdict"], id="no family"
        ),
        pytest.param({"verdict": {**PASS, "judge_name": "A"}}, ["$.verdict"], id="judge is author"),
        pytest.param(
            {"verdict": {"status": "FAIL", "judge_source": "x", "summary": ""}},
            ["$.verdict"] * 4,
            id="an anonymous no",
        ),
        pytest.param(
            {"timed_out": True, "exit_code": 0}, ["$.exit_code"], id="a limit and a success"
        ),
        pytest.param({"timed_out": True, "exit_code": -1}, [], id="a limit"),
        pytest.param(
            {"ended_at": "2026-01-02T03:04:05.499Z"}, ["$.ended_at"], id="an end before the start"
        ),
        pytest.param({"ended_at": BEGAN}, [], id="an end at the start"),
        pytest.param(
            {"started_at": "2026-01-02T10:00:00+02:00", "ended_at": "2026-01-02T09:00:00Z"},
            [],
            id="another zone",
        ),
        pytest.param(
            {"started_at": "2026-01-02T09:00:00Z", "ended_at": "2026-01-02T10:00:00+02:00"},
            ["$.ended_at"],
            id="another zone, and before the start",
        ),
        pytest.param(
            {"started_at": "2026-01-02T09:00:00Z", "ended_at": "2026-01-02t09:00:00.5z"},
            [],
            id="another precision",
        ),
    ],
)
def test_what_a_valid_receipt_lacks_is_told(change: dict[str, Any], gaps: list[str]) -> None:
    found = {**copy.deepcopy(build(ran())), **change}
    assert schema.errors("run-receipt", found) == []
    told = receipt.gaps(found)
    assert [path for path, _ in told] == gaps
    assert all(sentence for _, sentence in told)
