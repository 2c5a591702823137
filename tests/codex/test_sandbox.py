"""The command line of a confined check, and the sandbox's own failure."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from waybill.codex import sandbox


@pytest.mark.parametrize(("writable", "base"), [(True, ":workspace"), (False, ":read-only")])
def test_a_confined_command_writes_its_scratch_alone(writable: bool, base: str) -> None:
    scratch = Path('/s"c\\r\n')
    words = sandbox.confined("/codex", Path("/cwd"), scratch, ["./a", "-P"], writable=writable)
    profile: Any = tomllib.loads(words[3])
    assert [*words[:3], *words[4:]] == [
        *("/codex", "sandbox", "-c"),
        *("-P", "evidence", "-C", "/cwd", "--", "./a", "-P"),
    ]
    assert profile == {
        "permissions": {"evidence": {"extends": base, "filesystem": {str(scratch): "write"}}}
    }


@pytest.mark.parametrize(
    ("exit_code", "output", "answer"),
    [
        pytest.param(101, "thread panicked: Failed to execvp ./a: No such file", True, id="it"),
        pytest.param(101, "panicked", False, id="a check that ends with the same status"),
        pytest.param(1, "Failed to execvp", False, id="a check that says the same"),
    ],
)
def test_only_the_sandbox_says_that_there_is_no_program(
    exit_code: int, output: str, answer: bool
) -> None:
    assert sandbox.not_found(exit_code, output) == answer


@pytest.mark.parametrize(
    ("script", "why"),
    [
        pytest.param("exit 0", None, id="it works"),
        pytest.param("echo first >&2; echo last >&2; exit 3", "last", id="its last line"),
        pytest.param("echo out; exit 3", "out", id="its output where it has no other"),
        pytest.param("exit 3", "exit 3", id="its status where it says nothing"),
    ],
)
def test_a_sandbox_that_does_not_work_says_why(
    tmp_path: Path, script: str, why: str | None
) -> None:
    assert sandbox.fails(["/bin/sh", "-c", script], tmp_path, {}) == why


def test_a_sandbox_that_is_not_there_does_not_work(tmp_path: Path) -> None:
    assert sandbox.fails([str(tmp_path / "no")], tmp_path, {}) == "No such file or directory"
