"""verify --command and --list: checks that belong to no run, with a structured result."""

from __future__ import annotations

import hashlib
import json
import signal
from typing import Any

import pytest


def command(project: Any, *words: Any, **given: Any) -> Any:
    return project.run("verify", "--command", *words, **given)


def test_a_check_that_passes(project: Any) -> None:
    done = command(project, "./check")
    assert done.status == 0
    row = done.json
    assert (row["outcome"], row["exit_code"], row["reason"]) == ("ok", 0, None)
    assert (row["command"], row["cwd"]) == (["./check"], str(project.top))
    assert (row["stdout"], row["stderr"], row["log"], row["timed_out"]) == ("", "", None, False)
    assert row["changed_files"] == []
    assert done.stderr == ""


def test_words_travel_literally_and_streams_are_kept_apart(project: Any) -> None:
    code = "import sys; print(sys.argv[1:]); sys.stderr.write('é\\n'); print(sys.stdin.read())"
    words = [word for arg in ("-c", code, "a b", "*", "$HOME", "") for word in ("--arg", arg)]
    done = command(project, "python3", *words, stdin="stray")
    assert done.json["stdout"] == "['a b', '*', '$HOME', '']\n\n"
    assert done.json["stderr"] == "é\n"
    assert done.json["command"][0] == "python3"


def test_a_check_that_says_no(project: Any) -> None:
    done = command(project, "sh", "--arg=-c", "--arg=echo why >&2; exit 3")
    assert (done.status, done.json["outcome"], done.json["exit_code"]) == (1, "verify_failed", 3)
    assert done.json["stderr"] == "why\n"
    assert done.stderr == "verify: sh: verify_failed: exit 3\n"


def test_a_check_that_is_killed(project: Any) -> None:
    done = command(project, "sh", "--arg=-c", "--arg=kill -SEGV $$")
    row = done.json
    assert (done.status, row["outcome"]) == (1, "verify_failed")
    assert (row["exit_code"], row["signal"]) == (-1, signal.SIGSEGV)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["no-such-program"], "could not be started: No such file or directory"),
        (["./README"], "could not be started: Permission denied"),
        (["sh", "--arg=-c", "--arg=no-such-program"], "was not found"),
        (["./check", "--cwd", "nowhere"], "no such folder"),
        (["./check", "--cwd", "README"], "no such folder"),
    ],
)
def test_a_check_that_cannot_be_run_is_told_apart(project: Any, words: list[str], why: str) -> None:
    done = command(project, *words)
    assert (done.status, done.json["outcome"]) == (76, "verify_not_run")
    assert why in done.json["reason"] and why in done.stderr


def test_a_check_that_hangs_is_ended_with_what_it_started(project: Any) -> None:
    line = "echo begun; (trap '' TERM; sleep 600) & setsid sleep 600 & sleep 600"
    words = ["sh", "--arg=-c", f"--arg={line}", "--timeout", "1", "--grace", "0.5"]
    done = command(project, *words)
    row = done.json
    assert (done.status, row["timed_out"], row["exit_code"]) == (1, True, -1)
    assert (row["reason"], row["stdout"]) == ("timed out after 1 s", "begun\n")
    assert row["seconds"] < 10
    assert project.idle(2)


def test_the_end_of_a_flood_is_shown_cut_on_a_character_and_the_log_has_it_all(
    project: Any,
) -> None:
    code = "print('é' * 100_000 + 'end')"
    log = project.root / "log.txt"
    words = ["python3", "--arg=-c", f"--arg={code}", "--bound", "101", "--log", log]
    done = command(project, *words)
    row = done.json
    assert (done.status, row["truncated"]) == (0, {"stdout": True, "stderr": False})
    assert row["stdout"] == "é" * 48 + "end\n"
    data = log.read_bytes()
    assert len(data) == 200_004
    assert row["log"] == {
        "path": str(log),
        "sha256": hashlib.sha256(data).hexdigest(),
        "bytes": 200_004,
    }
    assert log.stat().st_mode & 0o777 == 0o600


def test_output_within_the_bound_is_whole(project: Any) -> None:
    done = command(project, "printf", "--arg", "é1234", "--bound", "6")
    assert (done.json["stdout"], done.json["truncated"]["stdout"]) == ("é1234", False)


def test_what_a_check_changed_is_told(project: Any) -> None:
    project.write("dirty.txt", "before\n")
    line = "echo x > 'made here.txt'; rm README; echo more >> dirty.txt"
    done = command(project, "sh", "--arg=-c", f"--arg={line}")
    assert done.json["changed_files"] == ["README", "dirty.txt", "made here.txt"]


def test_outside_a_repository_nobody_can_say_what_changed(project: Any) -> None:
    done = command(project, "true", "--cwd", project.root)
    assert (done.status, done.json["changed_files"]) == (0, None)


def test_a_log_that_cannot_be_written_is_a_store_error(project: Any) -> None:
    done = command(project, "true", "--log", project.top)
    assert (done.status, done.stdout) == (73, "")
    assert "Is a directory" in done.stderr


def test_a_list_is_run_in_order_and_the_worst_status_wins(project: Any) -> None:
    (project.top / "sub").mkdir()
    rows = """\
- program: pwd
  cwd: sub
- program: sh
  args: [-c, "exit 4"]
- program: absent
- program: sleep
  args: ["600"]
  timeout: 0.5
- program: echo
  args: [last]
"""
    path = project.write("checks.yaml", rows)
    done = project.run("verify", "--list", path, "--log", "all.log")
    assert [row["outcome"] for row in done.rows] == [
        "ok",
        "verify_failed",
        "verify_not_run",
        "verify_failed",
        "ok",
    ]
    assert done.status == 76
    assert done.rows[0]["stdout"] == f"{project.top}/sub\n"
    assert done.rows[3]["timed_out"] is True
    assert (project.top / "all.log").read_text() == f"{project.top}/sub\nlast\n"
    assert len(done.stderr.splitlines()) == 3


def test_a_list_may_be_json_and_its_folders_are_below_the_one_given(project: Any) -> None:
    (project.top / "a" / "b").mkdir(parents=True)
    path = project.root / "checks.json"
    path.write_text(json.dumps([{"program": "pwd", "cwd": "b"}]))
    done = project.run("verify", "--list", path, "--cwd", "a")
    assert (done.status, done.json["stdout"]) == (0, f"{project.top}/a/b\n")


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        ("[]", 65, "violates schema verification-list"),
        ("- args: [x]\n", 65, "'program' is a required property"),
        ("- program: x\n  shell: yes please\n", 65, "Additional properties"),
        ("{", 65, "not YAML"),
        (None, 66, "cannot be read"),
    ],
)
def test_a_list_that_is_not_valid_runs_nothing(
    project: Any, text: str | None, status: int, said: str
) -> None:
    path = project.root / "checks.yaml"
    if text is not None:
        path.write_text(text)
    done = project.run("verify", "--list", path)
    assert (done.status, done.stdout) == (status, "")
    assert said in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--command", "true", "--timeout", "soon"], "--timeout"),
        (["--command", "true", "--timeout", "nan"], "--timeout"),
        (["--command", "true", "--bound", "0"], "--bound"),
        (["--command", "true", "--bound", "1.5"], "--bound"),
        (["--command", "true", "--grace", "-1"], "--grace"),
        (["--command", "true", "--list", "x"], "usage"),
        (["--arg", "x"], "usage"),
    ],
)
def test_wrong_usage_runs_nothing(project: Any, words: list[str], said: str) -> None:
    done = project.run("verify", *words)
    assert (done.status, done.stdout) == (64, "")
    assert said in done.stderr


def test_git_variables_and_other_secrets_do_not_reach_a_check(project: Any) -> None:
    done = command(project, "env", env={"GIT_DIR": "/nowhere", "MY_TOKEN": "x", "CODEX_HOME": "/x"})
    names = {line.split("=")[0] for line in done.json["stdout"].splitlines()}
    assert "PATH" in names
    assert not {"GIT_DIR", "MY_TOKEN", "CODEX_HOME"} & names


def test_an_interrupted_check_leaves_nothing_behind(project: Any) -> None:
    words = ["--command", "sh", "--arg=-c", "--arg=touch begun; setsid sleep 600 & sleep 600"]
    process = project.start("verify", *words, "--grace", "0.5")
    while not (project.top / "begun").exists():
        assert process.poll() is None
    process.terminate()
    done = project.finish(process)
    assert (done.status, done.stdout) == (143, "")
    assert project.idle(3)
