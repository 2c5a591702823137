"""Required commands: their grammar, their pins, and what their end means."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from waybill.packet import evidence


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param("./check", id="a program"),
        pytest.param("./scripts/check.sh", id="one further down"),
        pytest.param("./check --all -n 2 a=b a,b @x %y #z ^ +", id="words of any other kind"),
        pytest.param("./check   two", id="blanks between"),
        pytest.param("./check ../x /y", id="arguments that lead anywhere"),
        pytest.param("./.hidden/./check", id="dots that do not lead upward"),
        pytest.param("./..check", id="a name that begins with dots"),
        pytest.param("./prüfung é", id="letters of any script"),
    ],
)
def test_a_command_of_literal_words_is_in_the_grammar(entry: str) -> None:
    assert evidence.unfit(entry) is None


@pytest.mark.parametrize("character", list("|&;<>()$`\\\"'*!?[]{}~\r\n\t"))
@pytest.mark.parametrize("entry", ["./check{}", "./check a{}b", "./{}check"])
def test_a_character_that_belongs_to_a_shell_is_refused(character: str, entry: str) -> None:
    found = evidence.unfit(entry.replace("{}", character))
    assert found == f"{character!r} belongs to a shell; write the program and its words literally"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        pytest.param("", "must begin with ./", id="nothing"),
        pytest.param("make test", "must begin with ./", id="a program on PATH"),
        pytest.param("/bin/true", "must begin with ./", id="an absolute path"),
        pytest.param("scripts/check", "must begin with ./", id="a relative path without ./"),
        pytest.param("../check", "must begin with ./", id="upward at once"),
        pytest.param(".\u002f../check", "must not lead upward", id="upward"),
        pytest.param("./a/../../check", "must not lead upward", id="upward after a step down"),
        pytest.param("./a/..", "must not lead upward", id="upward at the end"),
        pytest.param("A=1 ./check", "must begin with ./", id="a variable before it"),
    ],
)
def test_a_program_is_named_below_the_folder(entry: str, said: str) -> None:
    found = evidence.unfit(entry)
    assert found is not None
    assert said in found


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    """A folder with programs, and what only looks like one."""
    work = tmp_path / "work"
    (work / "folder").mkdir(parents=True)
    for path, mode in (
        (work / "check", 0o755),
        (work / "folder" / "deep", 0o711),
        (work / "text", 0o644),
        (tmp_path / "outside", 0o755),
    ):
        path.write_text(f"#!/bin/sh\n# {path.name}\n")
        path.chmod(mode)
    (work / "link").symlink_to("folder/deep")
    (work / "out-link").symlink_to("../outside")
    (work / "up").symlink_to("..")
    (work / "dangling").symlink_to("nowhere")
    os.mkfifo(work / "fifo", 0o755)
    return work


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        pytest.param("./check --all", "check", id="a program"),
        pytest.param("./folder/deep", "folder/deep", id="one further down"),
        pytest.param("./link", "folder/deep", id="a link to one inside"),
    ],
)
def test_a_program_is_pinned_by_its_bytes(cwd: Path, entry: str, name: str) -> None:
    expected = hashlib.sha256((cwd / name).read_bytes()).hexdigest()
    assert evidence.digest(cwd, entry) == expected
    (cwd / name).write_text("changed")
    assert evidence.digest(cwd, entry) != expected


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        pytest.param("./nothing", "No such file", id="nothing there"),
        pytest.param("./nowhere/check", "No such file", id="no folder there"),
        pytest.param("./text", "not executable", id="a file that cannot be run"),
        pytest.param("./folder", "", id="a folder"),
        pytest.param("./fifo", "not a regular file", id="a FIFO"),
        pytest.param("./out-link", "leads outside cwd", id="a link to one elsewhere"),
        pytest.param("./up/outside", "leads outside cwd", id="one elsewhere through a link"),
        pytest.param("./dangling", "leads nowhere", id="a link that leads nowhere"),
        pytest.param("./check/x", "cannot be resolved", id="below a file"),
        pytest.param("./", "leads outside cwd", id="the folder itself"),
    ],
)
def test_what_cannot_be_run_is_not_pinned(cwd: Path, entry: str, said: str) -> None:
    with pytest.raises(evidence.Unpinned) as caught:
        evidence.digest(cwd, entry)
    assert str(caught.value).startswith(f"{entry}: ")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("exit_code", "signal", "timed_out", "found"),
    [
        pytest.param(0, None, False, (0, None, "ok"), id="it says yes"),
        pytest.param(1, None, False, (1, None, "verify_failed"), id="it says no"),
        pytest.param(7, None, False, (7, None, "verify_failed"), id="its own status is kept"),
        pytest.param(126, None, False, (126, None, "verify_failed"), id="126 is a no"),
        pytest.param(
            127,
            None,
            False,
            (127, "a program that it needs was not found", "verify_not_run"),
            id="127: a shell did not find a program",
        ),
        pytest.param(
            None, 11, False, (-1, "ended by signal 11", "verify_failed"), id="a signal ended it"
        ),
        pytest.param(
            None, 15, True, (-1, "timed out after 2.5 s", "verify_failed"), id="its time passed"
        ),
        pytest.param(
            0, None, True, (-1, "timed out after 2.5 s", "verify_failed"), id="too late for a yes"
        ),
    ],
)
def test_the_end_of_a_command_is_an_answer(
    exit_code: int | None, signal: int | None, timed_out: bool, found: tuple[int, str | None, str]
) -> None:
    check = evidence.judge(exit_code, signal, timed_out, 2.5)
    assert (check.exit_code, check.reason, check.outcome) == found
    assert (check.signal, check.timed_out) == (signal, timed_out)


def test_a_command_that_was_not_run_has_no_answer() -> None:
    check = evidence.not_run("why")
    assert (check.exit_code, check.outcome, check.reason) == (-1, "verify_not_run", "why")


Log = Callable[[bytes], str]


@pytest.fixture
def shown(tmp_path: Path) -> Log:
    """The excerpt of a log of these bytes."""

    def show(data: bytes) -> str:
        (tmp_path / "log").write_bytes(data)
        with (tmp_path / "log").open("rb") as stream:
            return evidence.excerpt(stream.fileno())

    return show


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param(b"", "", id="nothing"),
        pytest.param(b"\n all of it \n", "all of it", id="a short log"),
        pytest.param(b"x" * 2000, "x" * 2000, id="just all of it"),
        pytest.param(b"a" + b"x" * 2000, "[… 1 bytes before] " + "x" * 2000, id="the end of more"),
        pytest.param(
            "é".encode() + b"x" * 1999,
            "[… 1 bytes before] " + "x" * 1999,
            id="a cut through a character",
        ),
        pytest.param(b"a\xffb", "a\ufffdb", id="bytes that are no text"),
    ],
)
def test_an_excerpt_is_the_end_of_a_log_and_says_what_is_missing(
    shown: Log, data: bytes, text: str
) -> None:
    assert shown(data) == text
