"""The runner of every entry point, as a process: one status and at most one line of complaint."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import waybill

LIMIT = 60  # seconds for anything that should take one

ENTRY = '''#!/usr/bin/env python3
"""sample - do one thing

usage: sample [options] [--tag TAG]... [--] [FILE]
       sample (-h | --help)
       sample --version

options:
  --do WHAT   what to do [default: echo]
  --size N    a whole number [default: 1]
  --limit S   a number [default: 1]
  --tag TAG   a tag
  --dry-run   do nothing
  -h, --help  print this help and exit
  --version   print the version and exit
"""
import os
from waybill.base import command, document, exits


def main(args):
    command.whole(args, "--size", least=1)
    command.number(args, "--limit", least=0.5)
    if args["--do"] == "quiet":
        return exits.NO
    if args["--do"] == "bug":
        raise KeyError("of ours")
    if args["--do"] == "fault":
        raise exits.Fault(exits.CONFIG, "a\\nb", "two\\nlines \\x1b[31mred")
    if args["--do"] == "wait":
        command.emit_line({"ready": os.getpid()})
        while True:
            try:
                os.read(0, 1)
            except Exception:
                pass
    if args["--do"] == "many":
        for number in range(100000):
            command.emit_line({"number": number})
    found, _, _ = document.read(args["FILE"])
    command.emit({"found": found, "tags": args["--tag"]})
    return exits.OK


if __name__ == "__main__":
    command.run(main, __doc__)
'''

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words that start the entry point; what it keeps goes below tmp_path."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    entry = tmp_path / "entry"
    entry.write_text(ENTRY)
    return [sys.executable, str(entry)]


@pytest.fixture
def run(words: list[str]) -> Run:
    """Run the entry point; stdin is a sound document unless another is given."""

    def call(*arguments: str, stdin: str | int = "[1]", **given: Any) -> Any:
        given.setdefault("capture_output", True)
        given["stdin" if isinstance(stdin, int) else "input"] = stdin
        return subprocess.run([*words, *arguments], text=True, timeout=LIMIT, **given)

    return call


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--nope"], "--nope is not an option", id="an unknown option"),
        pytest.param(["--nope=1"], "--nope is not an option", id="one with a value"),
        pytest.param(["-r"], "-r is not an option", id="a letter that stands in another option"),
        pytest.param(["--dry"], "--dry is not an option", id="the beginning of an option"),
        pytest.param(["--do"], "--do requires argument", id="a value that is lacking"),
        pytest.param(["--dry-run=1"], "--dry-run must not have an argument", id="one too many"),
        pytest.param(["a", "b"], "does not match the usage", id="an operand too many"),
        pytest.param(["--", "a", "b"], "does not match the usage", id="one after --"),
        pytest.param(["--", "a", "--nope"], "does not match the usage", id="no option after --"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error_on_one_line(
    run: Run, arguments: list[str], said: str
) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr == f"sample: command line: {said}; see 'sample --help'\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--size", "0"], "--size: '0' is not a whole number from 1"),
        (["--size", "1.5"], "--size: '1.5' is not a whole number from 1"),
        (["--size", "²"], "--size: '²' is not a whole number from 1"),
        (["--limit", "x"], "--limit: 'x' is not a number from 0.5 to 1e9"),
        (["--limit", "nan"], "--limit: 'nan' is not a number from 0.5 to 1e9"),
        (["--limit", "0.4"], "--limit: '0.4' is not a number from 0.5 to 1e9"),
    ],
)
def test_a_wrong_number_is_a_usage_error_that_names_the_option(
    run: Run, arguments: list[str], said: str
) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (64, "", f"sample: {said}\n")


@pytest.mark.parametrize("arguments", [["-h"], ["--help"], ["--nope", "--help", "a", "b"]])
def test_help_is_an_answer(run: Run, arguments: list[str]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("sample - do one thing\n\nusage: sample")
    assert done.stdout.endswith("print the version and exit\n")


def test_the_version_is_an_answer(run: Run) -> None:
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"sample {waybill.__version__}\n")


def test_what_follows_two_dashes_is_an_operand(run: Run, tmp_path: Path) -> None:
    (tmp_path / "--help").write_text('"a file"')
    done = run("--tag", "a", "--tag", "b", "--", "--help", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == '{\n  "found": "a file",\n  "tags": [\n    "a",\n    "b"\n  ]\n}\n'


@pytest.mark.parametrize("arguments", [[], ["-"], ["--", "-"]])
def test_no_operand_and_a_dash_are_standard_input(run: Run, arguments: list[str]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert '"found": [\n    1\n  ]' in done.stdout


@pytest.mark.parametrize(
    ("stdin", "status", "said"),
    [
        ("", 66, "stdin: nothing on stdin: did the command before fail?"),
        (" \n", 66, "stdin: nothing on stdin: did the command before fail?"),
        ('{"a": 1, "a": 2}', 65, 'stdin: key "a" stands twice in one object'),
        ("{", 65, "stdin: not JSON"),
    ],
)
def test_unfit_input_is_a_fault(run: Run, stdin: str, status: int, said: str) -> None:
    done = run(stdin=stdin)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith(f"sample: {said}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("closed", "arguments", "status", "out", "err"),
    [
        pytest.param("<&-", "", 66, "", "sample: stdin: it is closed", id="stdin, when read"),
        pytest.param("<&-", "FILE", 0, "found", "", id="stdin, when a file is read"),
        pytest.param(">&-", "FILE", 73, "", "sample: stdout: it is closed", id="stdout, written"),
        pytest.param(">&-", "--do quiet", 1, "", "", id="stdout, when nothing is written"),
        pytest.param(">&-", "--help", 73, "", "sample: stdout: it is closed", id="stdout and help"),
        pytest.param("2>&-", "FILE", 0, "found", "", id="stderr"),
        pytest.param("2>&-", "--nope", 64, "", "", id="stderr, when there is a complaint"),
        pytest.param("<&- >&- 2>&-", "FILE", 73, "", "", id="all three"),
        pytest.param("<&- >&- 2>&-", "--do bug", 70, "", "", id="all three, and a bug"),
    ],
)
def test_a_closed_stream_is_noticed_when_it_is_needed(
    words: list[str], tmp_path: Path, closed: str, arguments: str, status: int, out: str, err: str
) -> None:
    (tmp_path / "FILE").write_text("[1]")
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" "$1" {arguments} {closed}', *words],
        cwd=tmp_path,
        input="[2]",
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert (done.returncode, out in done.stdout) == (status, True)
    assert done.stderr.startswith(err) if err else done.stderr == ""


def test_a_reader_that_left_ends_the_command_quietly(words: list[str]) -> None:
    with subprocess.Popen(
        [*words, "--do", "many"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.readline()
        child.stdout.close()
        try:
            assert child.wait(LIMIT) == 141
        finally:
            child.kill()
        assert child.stderr.read() == b""


@pytest.mark.parametrize("arguments", [[], ["--help"], ["--version"]])
def test_a_full_disk_below_stdout_is_a_store_error(run: Run, arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = run(*arguments, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 73
    assert done.stderr == "sample: stdout: cannot be written: No space left on device\n"


def test_a_bug_is_one_line_and_a_traceback_in_a_file(run: Run, tmp_path: Path) -> None:
    done = run("--do", "bug")
    assert (done.returncode, done.stdout) == (70, "")
    said = re.fullmatch(
        r"sample: a fault of ours; the traceback is in (\S+/sample-\S+\.log)\n", done.stderr
    )
    assert said is not None
    log = Path(said[1])
    assert log.parent == tmp_path / "state" / "waybill" / "log"
    assert log.read_text().rstrip().endswith("KeyError: 'of ours'")


def test_a_bug_is_told_also_where_no_file_can_be_kept(run: Run, tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    done = run("--do", "bug")
    assert done.returncode == 70
    assert done.stderr.endswith("no file (Not a directory): KeyError: 'of ours'\n")


def test_a_complaint_is_one_line_without_controls(run: Run) -> None:
    done = run("--do", "fault")
    assert (done.returncode, done.stderr) == (78, "sample: a b: two lines \\x1b[31mred\n")


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"]
)
def test_a_signal_ends_the_command_even_where_it_catches_everything(
    words: list[str], number: int, status: int
) -> None:
    with subprocess.Popen(
        [*words, "--do", "wait"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert b"ready" in child.stdout.readline()
        child.send_signal(number)
        try:
            assert child.wait(LIMIT) == status
        finally:
            child.kill()
        name = signal.Signals(number).name
        assert child.stderr.read() == f"sample: interrupted by {name}\n".encode()
