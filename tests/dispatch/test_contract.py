"""The published contract of packet and receipt, end to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from waybill.base import schema

ROOT = Path(__file__).resolve().parents[2]


def play(project: Any, packet: Any, codex: Any, *words: str, **changes: Any) -> Any:
    return project.run("dispatch", "--codex", codex.path, *words, stdin=packet(changes))


@pytest.mark.parametrize(
    ("key", "value", "path"),
    [
        ("auth.forbid_api_key", False, "$.auth.forbid_api_key"),
        ("auth.required_mode", "api-key", "$.auth.required_mode"),
        ("auth.reject_env", [], "$.auth.reject_env"),
        ("auth.login_status_must_contain", "Logged in", "$.auth.login_status_must_contain"),
        ("author_identity", "me", "$"),
        ("auth.extra", 1, "$.auth"),
        ("created_at", None, "$"),
        ("created_at", "yesterday", "$.created_at"),
        ("output.capture_mode", "everything", "$.output.capture_mode"),
        ("execution.stdin", {"mode": "tty", "close_after_prompt": True}, "$.execution.stdin.mode"),
        ("resume", {"policy": "latest", "allow_resume": True}, "$.resume.policy"),
        ("execution.environment", {"A": 1}, "$.execution.environment.A"),
        ("schema_version", 2, "$.schema_version"),
        ("dispatch.mutates_repo", True, "$.dispatch.mutates_repo"),
        ("dispatch.mode", "mutating", "$.dispatch.mode"),
        ("execution.timeout_seconds", 0, "$.execution.timeout_seconds"),
        ("execution.timeout_seconds", 1.5, "$.execution.timeout_seconds"),
        ("role", "boss", "$.role"),
        ("evidence.required_commands", "./check", "$.evidence.required_commands"),
    ],
)
def test_one_violation_of_the_schema_is_named_and_nothing_runs(
    project: Any, packet: Any, standin: Any, key: str, value: Any, path: str
) -> None:
    codex = standin()
    done = play(project, packet, codex, **{key: value})
    assert (done.status, done.stdout, codex.ran) == (65, "", False)
    assert f"dispatch: stdin: {path}: violates schema task-packet: " in done.stderr
    assert not (project.top / ".codex").exists()


def test_a_sandbox_that_does_not_exist_violates_the_schema(
    project: Any, packet: Any, standin: Any
) -> None:
    codex = standin()
    done = play(project, packet, codex, sandbox="none")
    assert (done.status, codex.ran) == (65, False)
    assert "$.sandbox: violates" in done.stderr


def test_further_violations_are_counted(project: Any, packet: Any, standin: Any) -> None:
    done = play(project, packet, standin(), role="boss", schema_version=2)
    assert "$.role: violates" in done.stderr and "(and 1 more)" in done.stderr


def test_the_refused_difference_names_both_fields(project: Any, packet: Any, standin: Any) -> None:
    done = play(project, packet, standin(), **{"dispatch.command": ["codex", "exec", "-"]})
    assert "dispatch.command" in done.stderr and "execution.argv" in done.stderr


def test_the_schemas_that_are_used_are_the_published_ones() -> None:
    used = ROOT / "lib" / "waybill" / "schemas"
    for name in ("task-packet", "run-receipt"):
        published = (ROOT / "schemas" / f"{name}.schema.json").read_bytes()
        assert (used / f"{name}.schema.json").read_bytes() == published
        jsonschema.Draft202012Validator.check_schema(json.loads(published))


def test_the_packet_that_is_made_fills_every_required_field(project: Any) -> None:
    made = project.run("packet-make", "--objective", "x").json
    found = schema.load("task-packet")
    assert schema.errors("task-packet", made) == []
    assert len(found["required"]) == 13
    assert set(found["required"]) <= set(made) <= set(found["properties"])
    assert found["additionalProperties"] is False
    assert made["auth"]["login_status_must_contain"] == "Logged in using ChatGPT"
    assert "OPENAI_API_KEY" in made["auth"]["reject_env"]
    assert made["dispatch"]["mutates_repo"] is False
    assert made["execution"]["stdin"]["close_after_prompt"] is True
    assert made["execution"]["timeout_seconds"] > 0


def test_a_receipt_is_valid_printed_as_it_is_stored_and_complete(
    project: Any, packet: Any, standin: Any
) -> None:
    codex = standin()
    done = play(project, packet, codex)
    found = schema.load("run-receipt")
    assert (done.status, codex.stdin) == (0, b"Do it.")
    assert (project.folder() / "receipt.json").read_text() == done.stdout
    assert schema.errors("run-receipt", done.json) == []
    assert len(found["required"]) == 18
    assert set(found["required"]) <= set(done.json) <= set(found["properties"])
    assert done.json["auth_mode"] == "chatgpt-subscription"
    assert done.json["auth_status"] == "Logged in using ChatGPT"
    assert done.json["stdin"]["bytes_written"] == 6
    began, ended = done.json["started_at"], done.json["ended_at"]
    assert began <= done.json["stdin"]["closed_at"] <= ended
    compact = began.split(".")[0].replace("-", "").replace(":", "")
    assert done.json["receipt_id"] == f"codex-receipt-{compact}Z-t1"
    assert done.json["commands_run"][0]["command"] == " ".join(packet()["execution"]["argv"])


def test_a_limit_leaves_a_receipt_with_one_command(project: Any, packet: Any, standin: Any) -> None:
    given = {"execution.timeout_seconds": 1, "evidence.required_commands": ["./check"]}
    done = play(project, packet, standin(hang_at=1), "--grace", "0.5", **given)
    assert (done.status, done.json["timed_out"], done.json["exit_code"]) == (124, True, -1)
    assert len(done.json["commands_run"]) == 1
    assert done.json["failure_reason"] == "timeout_wall: wall clock of 1 s passed"
    assert done.json == project.receipt()


@pytest.mark.parametrize("through_a_link", [False, True])
def test_a_receipt_may_lie_in_an_allowed_root(
    project: Any, packet: Any, standin: Any, through_a_link: bool
) -> None:
    root = project.root / "receipts"
    root.mkdir()
    named = root
    if through_a_link:
        named = project.root / "link"
        named.symlink_to(root)
    path = str(named / "t1" / "receipt.json")
    changes = {
        "output.receipt_path": path,
        "evidence.receipt_path": path,
        "allowed_paths": [str(named)],
    }
    done = play(project, packet, standin(), **changes)
    assert done.status == 0
    assert json.loads((root / "t1" / "receipt.json").read_text()) == done.json
    assert done.json["changed_files"] == ["made.txt"]
    assert (root / "ledger.jsonl").exists()


def test_resume_none_is_accepted(project: Any, packet: Any, standin: Any) -> None:
    resume = {"policy": "none", "allow_resume": False}
    done = play(project, packet, standin(), resume=resume)
    assert (done.status, "resume_from_session" in done.json) == (0, False)


def test_an_unlisted_flag_that_is_let_through_is_recorded(
    project: Any, packet: Any, standin: Any
) -> None:
    argv = packet()["execution"]["argv"]
    codex = standin()
    done = play(
        project,
        packet,
        codex,
        "--allow-flag",
        "--ignore-rules",
        "--allow-flag=-c:model_verbosity",
        argv=[*argv[:-1], "--ignore-rules", "-c", "model_verbosity=low", "-"],
    )
    assert (done.status, codex.call["argv"][-4:-1]) == (
        0,
        ["--ignore-rules", "-c", "model_verbosity=low"],
    )
    relaxed = project.record()["relaxations"]
    assert relaxed == ["allow-flag --ignore-rules", "allow-flag -c:model_verbosity"]


@pytest.mark.parametrize(
    ("changes", "argv"),
    [
        ({"execution.environment": {"CODEX_HOME": "/x"}}, []),
        ({"execution.environment": {"OPENAI_BASE_URL": "http://x"}}, []),
        ({}, ["--model", "gpt-9"]),
    ],
)
def test_a_packet_that_leads_out_of_a_rehearsal_is_refused(
    project: Any, packet: Any, changes: dict[str, Any], argv: list[str]
) -> None:
    words = packet()["execution"]["argv"]
    given = packet({**changes, "argv": [*words[:-1], *argv, "-"]})
    done = project.rehearse([{"say": "x"}], given)
    assert (done.status, done.stdout) == (65, "")
    assert "rehearsal-escape" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--grace", "soon"], "--grace"),
        (["--idle-limit", "0"], "--idle-limit"),
        (["--attempt", "0"], "--attempt"),
        (["--attempt", "1.0"], "--attempt"),
        (["--no-such-option"], "--no-such-option"),
        (["a", "b"], "usage"),
    ],
)
def test_wrong_usage_starts_nothing(
    project: Any, packet: Any, standin: Any, words: list[str], said: str
) -> None:
    codex = standin()
    done = play(project, packet, codex, *words)
    assert (done.status, done.stdout, codex.ran) == (64, "", False)
    assert said in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "command", ["dispatch", "packet-make", "verify", "review", "receipt-check", "rehearsal-model"]
)
def test_help_and_version_are_answers(project: Any, command: str) -> None:
    help_text = project.run(command, "--help")
    version = project.run(command, "--version")
    assert (help_text.status, version.status) == (0, 0)
    assert help_text.stdout.startswith(f"{command} - ") and "exit status" in help_text.stdout
    assert version.stdout.split()[0] == command


def test_a_reader_that_left_is_no_fault_of_the_run(project: Any, packet: Any, standin: Any) -> None:
    (project.root / "packet.json").write_text(json.dumps(packet()))
    line = f"dispatch --codex {standin().path} ../packet.json | true; exit ${{PIPESTATUS[0]}}"
    done = project.run("bash", "-c", line)
    assert (done.status, done.stderr) == (141, "")
    assert project.record()["outcome"] == "ok"


def test_a_full_disk_behind_stdout_is_told_and_the_receipt_is_there(
    project: Any, packet: Any, standin: Any
) -> None:
    (project.root / "packet.json").write_text(json.dumps(packet()))
    line = f"dispatch --codex {standin().path} ../packet.json > /dev/full"
    done = project.run("bash", "-c", line)
    assert (done.status, project.record()["outcome"]) == (73, "ok")
    assert "stdout: cannot be written: No space left on device" in done.stderr
