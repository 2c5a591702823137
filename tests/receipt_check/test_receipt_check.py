"""receipt-check: what it reads, how it answers, and what it makes of foreign receipts."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest


def receipt(**changes: Any) -> dict[str, Any]:
    """A good receipt of another tool, without a run beside it."""
    made: dict[str, Any] = {
        "schema_version": 1,
        "receipt_id": "r",
        "packet_id": "foreign",
        "started_at": "2026-01-02T03:04:05Z",
        "ended_at": "2026-01-02T03:05:05Z",
        "cwd": "/nowhere",
        "sandbox": "workspace-write",
        "auth_mode": "chatgpt-subscription",
        "auth_status": "Logged in using ChatGPT",
        "command": {"argv": ["codex", "exec", "-"]},
        "stdin": {"mode": "closed", "closed_at": "2026-01-02T03:04:05Z", "bytes_written": 0},
        "timeout_seconds": 60,
        "timed_out": False,
        "exit_code": 0,
        "outputs": {"final_message_path": "final.md", "receipt_path": "receipt.json"},
        "changed_files": ["a"],
        "commands_run": [{"command": "codex exec -", "exit_code": 0, "output_excerpt": "x"}],
        "verdict": {
            "status": "PASS",
            "judge_source": "codex-final-message",
            "summary": "x",
            "author_id": "a",
            "judge_name": "b",
            "judge_program": "codex-cli",
            "judge_model_family": "gpt-5",
        },
    }
    for key, value in changes.items():
        place = made
        *parents, last = key.split("__")
        for name in parents:
            place = place[name]
        if value is None:
            del place[last]
        else:
            place[last] = value
    return made


def check(project: Any, *words: Any, stdin: Any = None) -> Any:
    return project.run("receipt-check", *words, stdin=stdin)


def reasons(done: Any) -> list[tuple[str, str]]:
    return [(row["rule"], row["path"]) for row in done.json["reasons"]]


def test_a_foreign_receipt_is_held_unless_its_lone_word_is_allowed(project: Any) -> None:
    held = check(project, stdin=receipt())
    assert (held.status, reasons(held)) == (1, [("run-record", "$")])
    passed = check(project, "--allow", "no-run-record", stdin=receipt())
    assert (passed.status, passed.json["allowed"]) == (0, ["no-run-record"])


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"verdict__status": "FAIL"}, ("verdict", "$.verdict.status")),
        ({"verdict__status": "ERROR"}, ("verdict", "$.verdict.status")),
        ({"verdict__status": "NO_VERDICT"}, ("verdict", "$.verdict.status")),
        ({"exit_code": 1}, ("outcome", "$.exit_code")),
        ({"timed_out": True, "exit_code": -1}, ("outcome", "$.timed_out")),
        ({"failure_reason": "verify_failed: no"}, ("outcome", "$.failure_reason")),
        ({"commands_run": []}, ("semantics", "$.commands_run")),
        ({"auth_mode": "api-key"}, ("auth", "$.auth_mode")),
        ({"auth_mode": "unknown"}, ("auth", "$.auth_mode")),
        ({"verdict__judge_name": "A"}, ("semantics", "$.verdict")),
        ({"verdict__judge_model_family": "unknown"}, ("semantics", "$.verdict")),
        ({"verdict__author_id": None}, ("semantics", "$.verdict")),
        ({"ended_at": "2026-01-02T03:04:04Z"}, ("semantics", "$.ended_at")),
        (
            {
                "commands_run": [
                    {"command": "codex", "exit_code": 0, "output_excerpt": ""},
                    {"command": "./check", "exit_code": 1, "output_excerpt": ""},
                ]
            },
            ("evidence", "$.commands_run[1].exit_code"),
        ),
    ],
)
def test_every_gap_of_a_receipt_holds_it(
    project: Any, changes: dict[str, Any], found: tuple[str, str]
) -> None:
    done = check(project, "--allow", "no-run-record", stdin=receipt(**changes))
    assert (done.status, done.json["pass"]) == (1, False)
    assert found in reasons(done)


def test_all_gaps_are_told_and_not_the_first(project: Any) -> None:
    given = receipt(commands_run=[], verdict__judge_name=None, verdict__author_id=None, exit_code=3)
    done = check(project, stdin=given)
    messages = " ".join(row["message"] for row in done.json["reasons"])
    assert "missing author" in messages and "missing judge" in messages
    assert {rule for rule, _ in reasons(done)} == {"semantics", "outcome", "run-record"}
    assert "(and 4 more)" in done.stderr


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"verdict__status": "GOOD"}, "$.verdict.status"),
        ({"changed_files": None}, "$"),
        ({"auth_mode": "guest"}, "$.auth_mode"),
        ({"extra": 1}, "$"),
        ({"schema_version": 2}, "$.schema_version"),
        ({"timeout_seconds": 0}, "$.timeout_seconds"),
        ({"command__argv": []}, "$.command.argv"),
        ({"started_at": "yesterday"}, "$.started_at"),
    ],
)
def test_a_receipt_that_breaks_its_schema_is_not_valid(
    project: Any, changes: dict[str, Any], path: str
) -> None:
    done = check(project, "--allow", "no-run-record", stdin=receipt(**changes))
    assert done.status == 65
    assert ("schema", path) in reasons(done)


@pytest.mark.parametrize(("mode", "kind"), [("api-key", "api-key"), ("unknown", "unknown")])
def test_a_login_can_be_allowed_by_its_name_alone(project: Any, mode: str, kind: str) -> None:
    words = ["--allow", "no-run-record", "--allow"]
    other = {"api-key": "unknown", "unknown": "api-key"}[kind]
    assert check(project, *words, other, stdin=receipt(auth_mode=mode)).status == 1
    done = check(project, *words, kind, stdin=receipt(auth_mode=mode))
    assert (done.status, done.json["allowed"]) == (0, sorted([kind, "no-run-record"]))


def test_an_unknown_kind_is_wrong_usage(project: Any) -> None:
    done = check(project, "--allow", "everything", stdin=receipt())
    assert (done.status, done.stdout) == (64, "")
    assert "'everything' is none of: rehearsal, api-key" in done.stderr


def test_lines_are_judged_one_by_one_and_the_worst_status_wins(project: Any) -> None:
    rows = [receipt(packet_id="a"), receipt(packet_id="b", exit_code=1), receipt(packet_id="c")]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    done = check(project, "--allow", "no-run-record", stdin=text)
    assert (done.status, [row["pass"] for row in done.rows]) == (1, [True, False, True])
    assert [row["source"] for row in done.rows] == ["stdin:1", "stdin:2", "stdin:3"]
    assert len(done.stderr.splitlines()) == 3
    worse = check(project, stdin=text + json.dumps(receipt(extra=1)) + "\n")
    assert (worse.status, len(worse.rows)) == (65, 4)


def test_files_and_folders_are_read_and_what_cannot_be_is_told(judged: Any) -> None:
    other = judged.write("other.json", json.dumps(receipt()))
    words = ["--allow", "rehearsal", "--allow", "no-run-record"]
    done = check(judged, *words, other, judged.folder(), ".codex/runs", judged.folder("t1"))
    assert (done.status, len(done.rows)) == (0, 4)
    missing = check(judged, *words, other, "absent.json", judged.folder())
    assert (missing.status, "absent.json" in missing.stderr) == (66, True)
    assert check(judged, judged.root / "kept" / "project" / ".git").status == 66


def test_a_receipt_on_stdin_is_compared_with_the_one_that_lies_there(judged: Any) -> None:
    same = check(judged, "--allow", "rehearsal", stdin=judged.receipt())
    assert (same.status, same.json["pass"]) == (0, True)
    changed = {**judged.receipt(), "receipt_id": "another"}
    done = check(judged, "--allow", "rehearsal", stdin=changed)
    assert done.status == 1
    assert ("agreement", "$") in reasons(done)


def test_a_table_is_for_people_and_quiet_says_nothing(judged: Any) -> None:
    table = check(judged, "--table", judged.folder())
    assert table.status == 1
    assert table.stdout.splitlines()[0].split() == ["packet", "gate", "allowed", "reasons"]
    assert "held" in table.stdout and "rehearsal: $.auth_status" in table.stdout
    for words in ([], ["--allow", "rehearsal"]):
        quiet = check(judged, "--quiet", *words, judged.folder())
        assert (quiet.status, quiet.stdout, quiet.stderr) == (0 if words else 1, "", "")


def test_a_pass_is_told_in_one_line_too(judged: Any) -> None:
    done = check(judged, "--allow", "rehearsal", judged.folder())
    line = f"receipt-check: {judged.folder()}/receipt.json: pass (allowed: rehearsal)\n"
    assert done.stderr == line


@pytest.mark.parametrize(
    ("words", "changes", "kind"),
    [
        (["--allow-unpinned"], {"evidence.required_commands": ["./later"]}, "unpinned"),
        (["--trust-project"], {}, "trust-project"),
        (["--allow-flag", "--ignore-rules"], {"argv": "--ignore-rules"}, "flag"),
    ],
)
def test_what_was_let_through_holds_until_it_is_allowed(
    project: Any, packet: Any, standin: Any, words: list[str], changes: Any, kind: str
) -> None:
    if "argv" in changes:
        argv = packet()["execution"]["argv"]
        changes = {"argv": [*argv[:-1], changes["argv"], "-"]}
    edit = "printf '#!/bin/sh\\ntrue\\n' > later; chmod +x later"
    done = project.run(
        "dispatch", "--codex", standin(edit=edit).path, *words, stdin=packet(changes)
    )
    assert done.status == 0
    found = check(project, project.folder())
    assert ("relaxation", "run.json") in reasons(found)
    lifted = check(project, "--allow", kind, project.folder())
    assert (lifted.json["allowed"], [rule for rule, _ in reasons(lifted)]) == ([kind], ["verdict"])


def test_a_required_command_without_evidence_is_named(judged: Any) -> None:
    path = judged.folder() / "receipt.json"
    found = json.loads(path.read_text())
    del found["commands_run"][1]
    path.write_text(json.dumps(found))
    done = check(judged, "--allow", "rehearsal", judged.folder())
    messages = [row["message"] for row in done.json["reasons"]]
    assert "no evidence of the required ./check" in messages


def test_a_moved_run_folder_can_be_judged_where_it_is(judged: Any) -> None:
    other = judged.root / "elsewhere"
    shutil.rmtree(other, ignore_errors=True)
    shutil.copytree(judged.folder().parent, other)
    done = check(judged, "--allow", "rehearsal", other / "t1")
    assert (done.status, done.json["reasons"]) == (0, [])


def test_a_replay_makes_the_result_again(judged: Any) -> None:
    before = judged.git("status", "--short")
    done = check(judged, "--allow", "rehearsal", "--replay", judged.folder())
    assert (done.status, done.json["reasons"]) == (0, [])
    assert judged.git("status", "--short") == before


def clone(project: Any) -> Any:
    path = project.root / "clone"
    shutil.rmtree(path, ignore_errors=True)
    project.git("clone", "-q", str(project.top), str(path))
    return path


def test_a_replay_in_a_clone_needs_nothing_of_the_place_of_the_run(judged: Any) -> None:
    path = clone(judged)
    done = check(judged, "--allow", "rehearsal", "--replay", "--repo", path, judged.folder())
    assert (done.status, done.json["reasons"]) == (0, [])
    assert not (path / "new.txt").exists()


def test_a_replay_of_a_changed_patch_makes_another_tree(judged: Any) -> None:
    patch = judged.folder() / "work.patch"
    patch.write_text(patch.read_text().replace("+new\n", "+NEW\n"))
    done = check(
        judged, "--allow", "rehearsal", "--replay", "--repo", clone(judged), judged.folder()
    )
    assert done.status == 1
    assert {rule for rule, _ in reasons(done)} == {"digest", "replay"}


def test_a_replay_without_the_base_commit_is_held(judged: Any) -> None:
    path = judged.root / "unrelated"
    shutil.rmtree(path, ignore_errors=True)
    judged.git("init", "-q", str(path))
    done = check(judged, "--allow", "rehearsal", "--replay", "--repo", path, judged.folder())
    assert done.status == 1
    assert {rule for rule, _ in reasons(done)} == {"replay"}


def test_a_replay_of_a_receipt_without_a_run_is_held(project: Any) -> None:
    done = check(project, "--replay", stdin=receipt())
    assert done.status == 1
    assert ("replay", "$") in reasons(done)


def ledger(project: Any) -> Any:
    return project.folder().parent / "ledger.jsonl"


def test_a_sound_ledger_passes_and_shows_its_head(judged: Any) -> None:
    done = check(judged, "--ledger")
    head = json.loads(ledger(judged).read_text().splitlines()[-1])["digest"]
    assert (done.status, done.json["pass"], done.json["head"]) == (0, True, head)
    for operand in (ledger(judged), ledger(judged).parent):
        assert check(judged, "--ledger", "--head", head, operand).status == 0


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace('"seq": 2', '"seq": 3'), "its digest is not that"),
        (lambda text: "".join(lines(text)[1:]), "does not follow the line before"),
        (lambda text: "".join(reversed(lines(text))), "does not follow the line before"),
        (lambda text: text + lines(text)[-1], "does not follow the line before"),
        (lambda text: lines(text)[0], "differs from its latest line, 1"),
        (lambda text: text[:-20], "not a ledger line"),
    ],
    ids=["edited", "first line gone", "swapped", "repeated", "end cut", "torn"],
)
def test_a_changed_ledger_is_held(judged: Any, change: Any, said: str) -> None:
    ledger(judged).write_text(change(ledger(judged).read_text()))
    done = check(judged, "--ledger")
    assert done.status == 1
    assert any(said in row["message"] for row in done.json["reasons"])


def test_receipts_without_lines_and_lines_without_receipts_are_told(judged: Any) -> None:
    shutil.copytree(judged.folder(), judged.folder("t2"))
    found = json.loads((judged.folder("t2") / "run.json").read_text())
    (judged.folder("t2") / "run.json").write_text(json.dumps({**found, "run_id": "run-other"}))
    done = check(judged, "--ledger")
    assert any("no line of the ledger is of its run" in r["message"] for r in done.json["reasons"])
    shutil.rmtree(judged.folder("t2"))
    (judged.folder() / "receipt.json").unlink()
    done = check(judged, "--ledger")
    assert any("is gone" in row["message"] for row in done.json["reasons"])
    shutil.rmtree(judged.folder())
    done = check(judged, "--ledger")
    assert any("is gone" in row["message"] for row in done.json["reasons"])


def test_an_edited_receipt_differs_from_its_line(judged: Any) -> None:
    path = judged.folder() / "receipt.json"
    path.write_text(path.read_text().replace("Looked at", "Gazed at"))
    done = check(judged, "--ledger")
    assert any("differs from its latest line" in row["message"] for row in done.json["reasons"])


def test_a_head_kept_elsewhere_shows_a_cut_ledger(judged: Any) -> None:
    kept = ledger(judged).read_text()
    head = check(judged, "--ledger").json["head"]
    shutil.rmtree(judged.folder())
    ledger(judged).write_text("\n")
    assert check(judged, "--ledger").status == 66
    done = check(judged, "--ledger", "--head", head)
    assert done.status == 66
    ledger(judged).write_text("".join(lines(kept)[:1]))
    done = check(judged, "--ledger", "--head", head)
    assert done.status == 1
    assert f"the head {head[:12]} is in no line" in done.stdout


def test_refusals_and_attempts_keep_the_ledger_sound(
    project: Any, packet: Any, standin: Any
) -> None:
    codex = standin()
    for _ in range(2):
        project.run("dispatch", "--codex", "/nowhere/codex", stdin=packet())
    project.run("dispatch", "--codex", codex.path, stdin=packet())
    project.run("dispatch", "--codex", codex.path, "--attempt", "2", stdin=packet())
    done = check(project, "--ledger")
    assert (done.status, done.json["reasons"]) == (0, [])
