"""Every outcome of a run that the real Codex, playing to a scripted model, can show."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from typing import Any

import pytest

WORK = [{"exec": "echo new > new.txt"}, {"say": "It is done."}]
IDLE = [{"exec": "echo new > new.txt"}, {"hang": 600}]
THREAD = "01998000-0000-7000-8000-00000000000a"


def told(project: Any, done: Any, word: str, status: int) -> dict[str, Any]:
    """Check that receipt, record, stderr and status agree on an outcome; the record."""
    record: dict[str, Any] = project.record()
    receipt = project.receipt()
    assert done.json == receipt
    assert (record["outcome"], done.status, record["state"]) == (word, status, "receipted")
    if word == "ok":
        assert "failure_reason" not in receipt
        assert done.stderr == ""
    else:
        assert receipt["failure_reason"] == f"{word}: {record['reason']}"
        assert f"dispatch: t1: {word}: {record['reason']}; see {project.folder()}" in done.stderr
    return record


@pytest.mark.outcome("ok", by="real")
def test_a_completed_turn_with_changes_and_good_evidence_is_ok(project: Any, packet: Any) -> None:
    given = packet({"evidence.required_commands": ["./check"]})
    done = project.rehearse(WORK, given)
    record = told(project, done, "ok", 0)
    assert done.json["changed_files"] == ["new.txt"]
    assert done.json["codex_session_id"] == record["thread"]["id"]
    assert [row["exit_code"] for row in done.json["commands_run"]] == [0, 0]
    assert record["sandbox"] == {"requested": "workspace-write", "effective": "workspace-write"}
    assert record["model"]["effective"] == "gpt-5.4"
    assert record["usage"]["run"]["input_tokens"] == 200
    patch = (project.folder() / "work.patch").read_text()
    assert "+new" in patch and "new.txt" in patch


@pytest.mark.outcome("agent_failed", by="real")
def test_a_failed_turn_is_told_by_its_own_error(project: Any, packet: Any) -> None:
    done = project.rehearse([{"drop": "mid"}], packet())
    record = told(project, done, "agent_failed", 1)
    assert record["turn"]["status"] == "failed"
    assert "stream disconnected before completion" in record["reason"]
    assert (done.json["exit_code"], done.json["verdict"]["status"]) == (1, "ERROR")


@pytest.mark.outcome("no_work", by="real")
def test_a_confident_message_beside_an_unchanged_tree_is_no_work(project: Any, packet: Any) -> None:
    done = project.rehearse([{"say": "All files are updated."}], packet())
    record = told(project, done, "no_work", 1)
    assert record["claims"] == [{"kind": "message", "text": "All files are updated."}]
    assert (record["turn"]["status"], done.json["exit_code"]) == ("completed", 0)


@pytest.mark.outcome("verify_failed", by="real")
def test_a_required_command_that_says_no_fails_the_run(project: Any, packet: Any) -> None:
    project.write("check", "#!/bin/sh\necho no good\nexit 7\n", 0o755)
    given = packet({"evidence.required_commands": ["./check"]})
    done = project.rehearse(WORK, given)
    told(project, done, "verify_failed", 1)
    assert done.json["commands_run"][1] == {
        "command": "./check",
        "exit_code": 7,
        "output_excerpt": "no good",
    }


@pytest.mark.outcome("verify_not_run", by="real")
def test_a_required_command_that_lost_its_pin_is_not_run(project: Any, packet: Any) -> None:
    given = packet({"evidence.required_commands": ["./check"]})
    steps = [{"exec": "printf '#!/bin/sh\\ntouch ran\\n' > check"}, {"say": "done"}]
    done = project.rehearse(steps, given)
    record = told(project, done, "verify_not_run", 76)
    (row,) = record["evidence"]
    assert (row["exit_code"], row["pinned"] != row["found"]) == (-1, True)
    assert not (project.top / "ran").exists()


VERDICT = """\
Looked at it.
VERDICT: {word}
COMMANDS RUN: cat README
author: codex-thread:1
judge: codex-thread:2
judge_program: codex-cli
judge_model_family: other
context_id: 2
"""


def judge(packet: Any, role: str = "validator") -> Any:
    return packet({"role": role, "sandbox": "read-only"})


@pytest.mark.outcome("review_rejected", by="real")
def test_a_validator_that_says_fail_rejects(project: Any, packet: Any) -> None:
    steps = [{"exec": "cat README"}, {"say": VERDICT.format(word="FAIL")}]
    done = project.rehearse(steps, judge(packet))
    told(project, done, "review_rejected", 1)
    assert done.json["verdict"]["status"] == "FAIL"
    assert done.json["verdict"]["judge_model_family"] == "other"


@pytest.mark.parametrize("word", ["PASS", "WARN"])
def test_a_validator_that_says_pass_or_warn_is_ok(project: Any, packet: Any, word: str) -> None:
    steps = [{"exec": "cat README"}, {"say": VERDICT.format(word=word)}]
    done = project.rehearse(steps, judge(packet, "reviewer"))
    told(project, done, "ok", 0)
    assert done.json["verdict"]["status"] == word
    assert done.json["verdict"]["judge_source"] == "codex-final-message"


def test_prose_is_no_verdict(project: Any, packet: Any) -> None:
    steps = [{"exec": "cat README"}, {"say": "The code is NOT APPROVED because of line 3."}]
    done = project.rehearse(steps, judge(packet))
    told(project, done, "review_unusable", 76)
    assert done.json["verdict"]["status"] == "NO_VERDICT"


@pytest.mark.outcome("review_unusable", by="real")
@pytest.mark.parametrize(
    "message",
    [
        "VERDICT: MAYBE\nCOMMANDS RUN: cat README",
        VERDICT.format(word="PASS") + "VERDICT: FAIL\n",
        VERDICT.format(word="PASS") + "VERDICT: PASS\n",
        VERDICT.format(word="PASS").replace("COMMANDS RUN: cat README\n", ""),
        VERDICT.format(word="PASS").replace("codex-thread:2", "codex-thread:1"),
    ],
    ids=["another word", "two words", "twice", "no commands", "its own judge"],
)
def test_a_validator_without_a_proven_verdict_is_unusable(
    project: Any, packet: Any, message: str
) -> None:
    done = project.rehearse([{"exec": "cat README"}, {"say": message}], judge(packet))
    told(project, done, "review_unusable", 76)
    assert done.json["verdict"]["status"] == "ERROR"


def test_commands_that_a_validator_names_and_nobody_saw_prove_nothing(
    project: Any, packet: Any
) -> None:
    done = project.rehearse([{"say": VERDICT.format(word="PASS")}], judge(packet))
    record = told(project, done, "review_unusable", 76)
    assert "none was seen" in record["reason"]


@pytest.mark.outcome("quota", by="real")
def test_a_usage_limit_is_quota_and_says_when_to_try_again(project: Any, packet: Any) -> None:
    done = project.rehearse([{"usage_limit": 2000000000}], packet())
    record = told(project, done, "quota", 75)
    assert record["retry_at"].startswith("2033-05-18T0")
    assert "usage limit" in record["reason"]


def test_a_burst_limit_is_quota_without_a_time(project: Any, packet: Any) -> None:
    done = project.rehearse([{"http": 429}], packet())
    assert told(project, done, "quota", 75)["retry_at"] is None


@pytest.mark.outcome("model_unavailable", by="real")
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, {"error": {"message": "The model `m` does not exist", "code": "model_not_found"}}),
        (400, {"detail": "The 'm' model is not supported when using Codex with a ChatGPT account"}),
    ],
)
def test_a_model_that_the_account_has_not_is_told_apart(
    project: Any, packet: Any, status: int, body: dict[str, Any]
) -> None:
    done = project.rehearse([{"http": status, "body": body}], packet())
    told(project, done, "model_unavailable", 69)


@pytest.mark.outcome("auth", by="real")
def test_the_real_codex_says_that_nobody_is_logged_in(project: Any, packet: Any) -> None:
    done = project.run("dispatch", stdin=packet())
    assert (done.status, done.json["auth_mode"]) == (77, "unknown")
    assert "Not logged in" in done.json["auth_status"]
    assert "Not logged in; run: codex login" in done.stderr
    assert project.record()["timing"]["started"] is None


def test_a_key_in_the_environment_is_refused_in_a_rehearsal_too(project: Any, packet: Any) -> None:
    done = project.rehearse(WORK, packet(), env={"OPENAI_API_KEY": "x"})
    assert (done.status, project.record()["outcome"]) == (77, "auth")
    assert not (project.top / "new.txt").exists()


def test_a_login_that_the_provider_refuses_is_auth(project: Any, packet: Any) -> None:
    body = {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}
    done = project.rehearse([{"http": 401, "body": body}], packet())
    told(project, done, "auth", 77)


@pytest.mark.outcome("launch_failed", by="real")
def test_a_codex_that_is_not_where_it_should_be_is_told(project: Any, packet: Any) -> None:
    done = project.rehearse(WORK, packet(), env={"WAYBILL_CODEX": "/nowhere/codex"})
    assert (done.status, project.record()["outcome"]) == (69, "launch_failed")
    assert (done.json["exit_code"], done.json["commands_run"]) == (-1, [])
    assert "$WAYBILL_CODEX: no Codex binary at /nowhere/codex" in done.stderr


@pytest.mark.outcome("session_lost", by="real")
@pytest.mark.parametrize("asked", ["a-name-that-nobody-gave", THREAD])
def test_a_session_that_is_gone_is_lost(project: Any, packet: Any, asked: str) -> None:
    done = project.rehearse(WORK, resuming(packet, project, asked))
    told(project, done, "session_lost", 76)
    assert done.json["resume_from_session"] == asked


def resuming(packet: Any, project: Any, ident: str, packet_id: str = "t1") -> Any:
    argv = packet(packet_id=packet_id)["execution"]["argv"]
    argv = [*argv[:-1], "--cd", str(project.top), "resume", ident, "-"]
    resume = {"policy": "session-id", "session_id": ident, "allow_resume": True}
    return packet({"argv": argv, "resume": resume, "packet_id": packet_id})


def test_a_session_is_resumed_and_its_use_counted_once(project: Any, packet: Any) -> None:
    first = project.rehearse(WORK, packet())
    thread = first.json["codex_session_id"]
    steps = [{"exec": "echo more >> new.txt"}, {"say": "more"}]
    done = project.rehearse(steps, resuming(packet, project, thread, "t2"))
    assert (done.status, done.json["codex_session_id"]) == (0, thread)
    assert done.json["resume_from_session"] == thread
    usage = project.record("t2")["usage"]
    assert usage["run"]["input_tokens"] == 200
    assert usage["thread"]["input_tokens"] == 400


@pytest.mark.outcome("refused", by="real")
def test_a_worker_that_rewrites_its_packet_is_refused(project: Any, packet: Any) -> None:
    steps = [{"exec": "echo new > new.txt; echo '{}' > .codex/runs/t1/packet.json"}, {"say": "x"}]
    done = project.rehearse(steps, packet(sandbox="danger-full-access"))
    record = told(project, done, "refused", 77)
    assert record["refusals"] == ["packet.json was changed during the run"]
    assert done.json["changed_files"] == ["new.txt"]


@pytest.mark.outcome("config_error", by="real")
def test_a_folder_that_is_no_repository_needs_the_packets_word(project: Any, packet: Any) -> None:
    (project.top / ".git").rename(project.root / "git")
    done = project.rehearse(WORK, packet())
    assert (done.status, done.stdout) == (78, "")
    assert "--skip-git-repo-check" in done.stderr
    assert not (project.top / "new.txt").exists()
    argv = packet()["execution"]["argv"]
    done = project.rehearse(WORK, packet(argv=[*argv[:-1], "--skip-git-repo-check", "-"]))
    record = told(project, done, "ok", 0)
    assert (record["tree"]["kind"], done.json["changed_files"]) == ("folder", ["new.txt"])


@pytest.mark.outcome("timeout_wall", by="real")
def test_the_wall_clock_ends_a_run_and_its_work_is_kept(project: Any, packet: Any) -> None:
    given = packet({"execution.timeout_seconds": 4, "evidence.required_commands": ["./check"]})
    done = project.rehearse(IDLE, given, "--grace", "1")
    record = told(project, done, "timeout_wall", 124)
    assert (done.json["timed_out"], done.json["changed_files"]) == (True, ["new.txt"])
    assert len(done.json["commands_run"]) == 1
    assert record["evidence"][0]["reason"] == "not attempted: the wall limit ended the run"
    assert record["usage"]["run"] is None and record["usage"]["reason"]
    assert record["events"]["lines"] >= 4
    assert done.json["verdict"]["status"] == "ERROR"


@pytest.mark.outcome("timeout_idle", by="real")
def test_a_turn_that_makes_no_progress_is_ended(project: Any, packet: Any) -> None:
    done = project.rehearse(IDLE, packet(), "--idle-limit", "1", "--grace", "1")
    record = told(project, done, "timeout_idle", 124)
    assert record["limits"]["passed"] == "idle"
    assert record["timing"]["last_progress"] < record["timing"]["ended"]


def started(project: Any, process: subprocess.Popen[bytes], packet_id: str = "t1") -> None:
    """Wait until the worker has made its file."""
    end = time.monotonic() + 30
    while not (project.top / "new.txt").exists():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.outcome("interrupted", by="real")
@pytest.mark.parametrize(
    ("number", "status", "name"), [(signal.SIGINT, 130, "INT"), (signal.SIGTERM, 143, "TERM")]
)
def test_an_interrupted_run_keeps_its_work_and_says_who_ended_it(
    project: Any, packet: Any, number: int, status: int, name: str
) -> None:
    words = ["--rehearse", project.script(IDLE), "--grace", "1"]
    process = project.start("dispatch", *words, stdin=packet())
    started(project, process)
    process.send_signal(number)
    done = project.finish(process)
    record = told(project, done, "interrupted", status)
    assert record["reason"] == f"stopped by {name}"
    assert done.json["changed_files"] == ["new.txt"]
    assert done.json["exit_code"] == (record["process"]["exit_code"] or -1)


@pytest.mark.outcome("already_running", by="real")
def test_a_packet_that_runs_is_not_run_twice(project: Any, packet: Any) -> None:
    words = ["--rehearse", project.script(IDLE), "--grace", "1"]
    process = project.start("dispatch", *words, stdin=packet())
    started(project, process)
    second = project.rehearse(WORK, packet())
    dry = project.run("dispatch", *words, "--dry-run", stdin=packet())
    run_id = project.record()["run_id"]
    process.terminate()
    done = project.finish(process)
    assert (second.status, second.stdout) == (75, "")
    assert f"held by run {run_id} on " in second.stderr
    assert f"pid {process.pid}; wait for it to end" in second.stderr
    assert (dry.status, dry.stderr) == (75, second.stderr)
    told(project, done, "interrupted", 143)


@pytest.mark.outcome("store_error", by="real")
def test_a_receipt_that_cannot_be_written_still_goes_to_stdout(project: Any, packet: Any) -> None:
    steps = [{"exec": "echo new > new.txt; mkdir .codex/runs/t1/receipt.json"}, {"say": "x"}]
    done = project.rehearse(steps, packet(sandbox="danger-full-access"))
    assert done.status == 73
    assert done.json["failure_reason"].startswith("store_error: ")
    assert "the run's own outcome is ok" in done.json["failure_reason"]
    assert done.json["changed_files"] == ["new.txt"]
    assert json.loads((project.folder() / "run.json").read_text())["outcome"] == "ok"
    assert os.path.isdir(project.folder() / "receipt.json")


def test_a_record_that_cannot_be_written_is_told_before_anything_runs(
    project: Any, packet: Any
) -> None:
    (project.folder() / "run.json").mkdir(parents=True)
    done = project.rehearse(WORK, packet())
    assert (done.status, done.stdout) == (73, "")
    assert f"{project.folder()}/run.json: cannot be stored: not a regular file" in done.stderr
    assert not (project.top / "new.txt").exists()


def test_a_file_in_the_way_of_the_run_folder_is_told(project: Any, packet: Any) -> None:
    project.write(".codex/runs", "in the way\n")
    done = project.rehearse(WORK, packet())
    assert (done.status, done.stdout) == (77, "")
    assert "runs/t1: cannot be resolved" in done.stderr
    assert not (project.top / "new.txt").exists()


def tampering(project: Any, packet: Any, command: str) -> Any:
    steps = [{"exec": f"echo new > new.txt; {command}"}, {"say": "done"}]
    given = packet({"evidence.required_commands": ["./check"]}, sandbox="danger-full-access")
    return project.rehearse(steps, given)


RUN = ".codex/runs/t1"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (f"rm {RUN}/claim.json", "claim.json was changed during the run"),
        (f"echo x > {RUN}/prompt.md", "prompt.md was changed during the run"),
        (
            f"sleep 0.5; : > {RUN}/events.jsonl",
            "the event file was rewritten during the run",
        ),
        (
            f"cp {RUN}/events.jsonl x; mv x {RUN}/events.jsonl",
            "the event file was replaced during the run",
        ),
    ],
)
def test_a_worker_that_reaches_for_its_records_is_refused(
    project: Any, packet: Any, command: str, said: str
) -> None:
    done = tampering(project, packet, command)
    record = told(project, done, "refused", 77)
    assert said in record["refusals"]
    assert done.json["changed_files"] == ["new.txt"]
    assert done.json["verdict"]["status"] == "ERROR"


def test_a_run_folder_that_was_moved_away_is_written_to_nowhere_else(
    project: Any, packet: Any
) -> None:
    elsewhere = project.root / "elsewhere"
    elsewhere.mkdir()
    done = tampering(project, packet, f"mv {RUN} away; ln -s {elsewhere} {RUN}")
    assert (done.status, done.json["failure_reason"].split(":")[0]) == (77, "refused")
    record = json.loads((project.top / "away" / "run.json").read_text())
    assert "the run folder was moved or replaced during the run" in record["refusals"]
    # Codex itself still wrote its last message where it was told to.
    assert {path.name for path in elsewhere.iterdir()} <= {"final.md"}


@pytest.mark.parametrize("place", [".codex", f"{RUN}/scratch", ".git"])
def test_records_that_were_taken_away_are_told_and_the_receipt_is_printed(
    project: Any, packet: Any, place: str
) -> None:
    done = tampering(project, packet, f"find {place} -delete")
    assert done.status == 73
    assert done.json["failure_reason"].startswith("store_error: ")
    assert done.json["codex_session_id"]
    assert (project.top / "new.txt").exists()


def test_a_state_folder_that_cannot_be_made_is_a_store_error(project: Any, packet: Any) -> None:
    done = project.rehearse(WORK, packet(), env={"XDG_STATE_HOME": "/proc/nowhere"})
    assert (done.status, done.stdout) == (73, "")
    assert "$XDG_STATE_HOME: cannot be stored" in done.stderr


def test_a_current_folder_that_is_gone_is_told(project: Any, packet: Any, standin: Any) -> None:
    gone = project.root / "gone"
    gone.mkdir()
    line = f"rmdir {gone}; dispatch --codex {standin().path}"
    done = project.run("sh", "-c", line, stdin=packet(), cwd=gone)
    assert (done.status, done.stderr) == (
        66,
        "dispatch: current folder: No such file or directory\n",
    )


def test_after_a_kill_nothing_of_the_real_codex_survives(project: Any, packet: Any) -> None:
    steps = [{"exec": "(setsid sleep 600 &) ; echo new > new.txt; sleep 600"}, {"say": "x"}]
    words = ["--rehearse", project.script(steps)]
    process = project.start("dispatch", *words, stdin=packet())
    started(project, process)
    process.kill()
    with process:
        process.communicate()
    assert project.idle(3)
    done = project.rehearse(steps, packet())
    assert (done.status, project.record()["state"]) == (143, "recovered")
    assert done.json["changed_files"] == ["new.txt"]
