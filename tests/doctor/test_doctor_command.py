"""The command: what it prints, and what it exits with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from codex_cli_bin import bundled_codex_path
from waybill.base import schema

PROGRAM = Path(__file__).resolve().parents[2] / "bin" / "doctor"
CHECKS = (
    "python,platform,git,state folder,disk,codex,codex version,codex flags,login,sandbox,"
    "environment,folder,project settings,runs,rehearsal"
)


@pytest.fixture
def doctor(tmp_path: Path, repository: Any) -> Callable[..., subprocess.CompletedProcess[str]]:
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()
    repository(project)

    def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        usual = {"PATH": os.environ["PATH"], "HOME": str(home)}
        return subprocess.run(
            [sys.executable, PROGRAM, *words],
            cwd=project,
            env=usual | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


def test_a_machine_where_all_works_is_healthy(doctor: Any) -> None:
    done = doctor("--codex", str(bundled_codex_path()))
    diagnosis = json.loads(done.stdout)
    assert schema.errors("diagnosis", diagnosis) == []
    assert (done.returncode, diagnosis["healthy"]) == (0, True)
    assert [check["name"] for check in diagnosis["checks"]] == CHECKS.split(",")
    wrong = [check for check in diagnosis["checks"] if check["status"] != "ok"]
    assert [check["name"] for check in wrong] == ["login"]
    assert done.stderr == ("doctor: login: Not logged in; codex login; a rehearsal needs none\n")


def test_what_fails_is_told_and_the_rest_is_looked_at_all_the_same(doctor: Any) -> None:
    done = doctor("--codex", "/no/such/codex", "--cwd", "absent")
    diagnosis = json.loads(done.stdout)
    assert (done.returncode, diagnosis["healthy"]) == (1, False)
    failed = [check["name"] for check in diagnosis["checks"] if check["status"] == "failed"]
    assert failed == ["codex", "folder"]
    lines = done.stderr.splitlines()
    assert lines[0].startswith("doctor: codex: --codex: no Codex binary at /no/such/codex")
    assert lines[0].endswith(
        "; install openai-codex-cli-bin==0.149.0, or name another with --codex"
    )
    assert lines[1].endswith("absent: not a folder; name a folder with --cwd")
    assert "rehearsal" in [check["name"] for check in diagnosis["checks"]]


def test_a_table_is_for_people_and_cuts_no_path(doctor: Any, stub: Any) -> None:
    done = doctor("--table", "--codex", stub(sandbox="exit 101"))
    assert done.returncode == 1
    head, _, *rows = done.stdout.splitlines()
    assert head.split() == ["status", "check", "found", "advice"]
    assert any(row.startswith("failed") and "sandbox" in row for row in rows)
    assert str(Path(stub())) in done.stdout


def test_quiet_answers_with_the_status_and_still_says_what_is_wrong(doctor: Any, stub: Any) -> None:
    done = doctor("--quiet", "--codex", stub(sandbox="exit 101"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "doctor: sandbox: nothing runs in it: codex sandbox true exited with 101" in done.stderr


def test_secrets_and_control_characters_are_not_shown(doctor: Any, stub: Any) -> None:
    says = "printf 'Logged in using an API key - sk-0123456789abc \\033[2Jhidden-word\\n'"
    done = doctor("--codex", stub(login=says), MY_TOKEN="hidden-word")
    assert "sk-0123" not in done.stdout + done.stderr
    assert "hidden-word" not in done.stdout + done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert "Logged in using an API key - ***" in done.stdout


def test_a_wrong_command_line_is_64(doctor: Any) -> None:
    done = doctor("--table", "--quiet")
    assert (done.returncode, done.stdout) == (64, "")
