"""Packets dispatched by Make: once, whatever they come to, and nothing is lost."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import pytest

A, RECEIPT = "dispatch .codex/runs/a/packet.json", ".codex/runs/a/receipt.json"


def test_a_packet_is_dispatched_once_and_its_status_kept(project: Any) -> None:
    run = project.packet("a")
    assert project.make(RECEIPT).returncode == 0
    assert project.calls() == [A]
    assert (run / "status").read_text() == "0\n"
    assert project.make(RECEIPT).returncode == 0
    assert project.calls() == []


def test_an_answer_of_no_is_kept_and_fails_no_recipe(project: Any) -> None:
    run = project.packet("a", exits=1)
    assert project.make(RECEIPT).returncode == 0
    assert (run / "receipt.json").exists()
    assert (run / "status").read_text() == "1\n"
    assert project.make(RECEIPT).returncode == 0
    assert project.calls() == [A]


@pytest.mark.parametrize("before", ["", ".DELETE_ON_ERROR:"])
def test_a_fault_fails_the_recipe_and_keeps_its_receipt(project: Any, before: str) -> None:
    project.makefile(before)
    run = project.packet("a", exits=77)
    made = project.make(RECEIPT)
    assert (made.returncode, "Error 77" in made.stderr) == (2, True)
    assert "it said" in (run / "receipt.json").read_text()
    assert (run / "status").read_text() == "77\n"


def test_a_fault_is_asked_about_again_until_it_is_gone(project: Any) -> None:
    run = project.packet("a", exits=75, silent="")
    assert project.make(RECEIPT).returncode == 2
    assert project.make(RECEIPT).returncode == 2
    (run / "exits").unlink()
    (run / "silent").unlink()
    assert project.make(RECEIPT).returncode == 0
    assert project.make(RECEIPT).returncode == 0
    assert project.calls() == [A] * 3


def test_a_packet_written_anew_is_asked_about_once_and_nothing_is_remade(project: Any) -> None:
    run = project.packet("a")
    judgement = ".codex/runs/a/judgement.json"
    assert project.make(judgement).returncode == 0
    receipt = (run / "receipt.json").stat().st_mtime_ns
    project.calls()
    project.later(run / "packet.json", run / "judgement.json")
    assert project.make(judgement).returncode == 0
    assert project.calls() == [A]
    assert (run / "receipt.json").stat().st_mtime_ns == receipt
    project.later(run / "status", run / "packet.json")
    assert project.make(judgement).returncode == 0
    assert project.calls() == []


def test_a_status_of_an_answer_without_a_receipt_is_a_fault(project: Any) -> None:
    project.packet("a", silent="")
    made = project.make(RECEIPT)
    assert made.returncode == 2
    assert "status 0, and no receipt beside it" in made.stderr


def test_a_program_that_is_not_there_is_a_fault(project: Any) -> None:
    run = project.packet("a")
    made = project.make(RECEIPT, "WAYBILL_DISPATCH=./no-such-program")
    assert (made.returncode, "Error 127" in made.stderr) == (2, True)
    assert (run / "status").read_text() == "127\n"


def test_commands_and_flags_are_taken_from_variables(project: Any) -> None:
    project.packet("a")
    (project.top / "bin" / "mine").write_text('#!/bin/sh\necho "mine $*" >>"$LOG"\ndispatch "$@"\n')
    (project.top / "bin" / "mine").chmod(0o755)
    flags = "WAYBILL_DISPATCH_FLAGS=--idle-limit 9 --rehearse x.yml"
    assert project.make(RECEIPT, "WAYBILL_DISPATCH=mine", flags).returncode == 0
    assert project.calls()[0] == f"mine {flags.partition('=')[2]} -- .codex/runs/a/packet.json"


def test_in_parallel_every_packet_runs_and_none_twice(project: Any) -> None:
    names = [f"run-{number}" for number in range(8)]
    for name in names:
        project.packet(name)
    goals = [f".codex/runs/{name}/receipt.json" for name in names]
    made = project.make("-j4", "judgements", "receipts", *goals)
    assert made.returncode == 0
    expected = [
        f"{command} .codex/runs/{name}/{operand}.json"
        for name in names
        for command, operand in (
            ("dispatch", "packet"),
            ("review", "receipt"),
            ("receipt-check", "receipt"),
        )
    ]
    assert sorted(project.calls()) == sorted(expected)
    assert project.make("-j4", "judgements", "receipts", *goals).returncode == 0
    assert project.calls() == []


@pytest.mark.parametrize("name", ["a'b", "a,b", "a(b", "a&b;c", "a+b@c=d", "-v", "a%b", 'a"<>b'])
def test_a_folder_may_have_an_unusual_name(project: Any, name: str) -> None:
    run = project.packet(name)
    made = project.make("judgements", "receipts")
    assert (made.returncode, made.stderr) == (0, "")
    assert project.calls()[0] == f"dispatch .codex/runs/{name}/packet.json"
    assert (run / "judgement.json").exists()


def test_make_that_is_told_to_end_ends_the_dispatch_and_keeps_its_receipt(
    project: Any,
) -> None:
    run = project.packet("a")
    slow = project.top / "bin" / "dispatch"
    slow.write_text(
        f"#!{sys.executable}\n"
        "import pathlib, signal, sys\n"
        "def end(*_):\n"
        "    pathlib.Path(sys.argv[-1]).with_name('receipt.json').write_text('{}')\n"
        "    sys.exit(143)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "print('started', file=sys.stderr, flush=True)\n"
        "while True:\n"
        "    signal.pause()\n"
    )
    with project.start(RECEIPT) as make:
        assert make.stderr is not None
        assert make.stderr.readline() == "started\n"
        make.send_signal(signal.SIGTERM)
        make.communicate(timeout=60)
    assert make.returncode != 0
    assert (run / "receipt.json").read_text() == "{}"
    assert (run / "status").read_text() == "143\n"


def test_the_including_makefile_keeps_its_ways(project: Any) -> None:
    project.makefile(
        "SHELL := /bin/sh\n.SHELLFLAGS := -c\n.RECIPEPREFIX := >\n.ONESHELL:",
        'first:\n> a=1\n> echo "$$0 $$a"\n'
        '.codex/runs/%/packet.json: %.task\n> mkdir -p $(@D); echo "$$0" | tee $@',
    )
    (project.top / "b.task").touch()
    assert project.make().stdout.splitlines()[-1] == "/bin/sh 1"
    assert project.make(".codex/runs/b/judgement.json").returncode == 0
    run: Path = project.top / ".codex" / "runs" / "b"
    # What a receipt needs is made in the shell of the project, and what is ours in bash.
    assert (run / "packet.json").read_text() == "/bin/sh\n"
    assert (run / "receipt.json").exists()
    assert len(project.calls()) == 3


def test_a_shell_that_is_none_does_not_reach_the_rules(project: Any) -> None:
    project.makefile("SHELL := /usr/bin/env\n.SHELLFLAGS := python3 -c")
    project.packet("a")
    made = project.make("receipts", "judgements")
    assert (made.returncode, made.stderr) == (0, "")
