"""The Makefile that docs/make.md shows."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[2]
PAGE = (TOP / "docs" / "make.md").read_text(encoding="utf-8")
RULES = (TOP / "lib" / "waybill" / "waybill.mk").read_text(encoding="utf-8")


def test_the_makefile_of_the_page_makes_packets_and_runs_them(project: Any) -> None:
    venv = project.top / ".venv" / "bin"
    venv.mkdir(parents=True)
    (venv / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    made = 'run=.codex/runs/$2\nmkdir -p "$run"\ncp "$5" "$run/packet.json"\n'
    (venv / "packet-make").write_text("#!/bin/sh\n" + made)
    for program in venv.iterdir():
        program.chmod(0o755)
    (project.top / "tasks").mkdir()
    for name in ("one", "two"):
        (project.top / "tasks" / f"{name}.yml").write_text(f"objective: {name}\n")
    found = re.search(r"^```make\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found
    (project.top / "Makefile").write_text(found[1])
    done = project.make("-j4", "receipts", "judgements")
    assert done.stderr == ""
    assert "receipts: 2 of 2 ok\n" in done.stdout
    assert "judgements: 2 of 2 passed\n" in done.stdout
    packet = project.top / ".codex" / "runs" / "one" / "packet.json"
    assert packet.read_text() == "objective: one\n"
    assert len(project.calls()) == 6
    (project.top / "tasks" / "one.yml").touch()
    assert project.make("receipts", "judgements").returncode == 0
    assert project.calls() == []


def test_the_page_names_every_variable_and_no_other() -> None:
    offered = re.findall(r"^(WAYBILL_\w+) \?=", RULES, re.MULTILINE)
    assert set(re.findall(r"WAYBILL_\w+", PAGE)) == set(offered)
