"""The machine looked at: Python, kernel, git, state and disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from waybill.base import guard
from waybill.doctor import machine


def test_an_older_python_than_needed_has_failed(
    patient: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (finding,) = machine.python(patient())
    assert finding.status == "ok"
    monkeypatch.setattr(machine, "LEAST_PYTHON", (9, 9))
    (finding,) = machine.python(patient())
    assert (finding.status, finding.advice) == ("failed", "install Python 9.9")


def test_a_kernel_without_subreapers_has_failed(
    patient: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (finding,) = machine.platform(patient())
    assert finding.status == "ok"

    def refuse() -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(guard, "adopt", refuse)
    (finding,) = machine.platform(patient())
    assert (finding.status, "no process can adopt orphans" in finding.found) == ("failed", True)


@pytest.mark.parametrize(
    ("says", "status"),
    [
        ("echo git version 2.30.0", "ok"),
        ("echo git version 2.50.1 '(Apple Git-155)'", "ok"),
        ("echo git version 3.0.rc1", "ok"),
        ("echo git version 2.29.9", "failed"),
        ("echo git version 1.99", "failed"),
        ("echo something else", "failed"),
        ("exit 1", "failed"),
    ],
)
def test_git_must_be_recent_enough(patient: Any, tmp_path: Path, says: str, status: str) -> None:
    program = tmp_path / "git"
    program.write_text(f"#!/bin/sh\n{says}\n")
    program.chmod(0o755)
    (finding,) = machine.git_version(patient(PATH=f"{tmp_path}:/bin"))
    assert finding.status == status


def test_state_that_can_be_written_leaves_nothing_behind(
    patient: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    state, disk = machine.store(patient())
    assert (state.status, state.found) == ("ok", f"{tmp_path}/state/waybill can be written")
    assert disk.name == "disk"
    assert list((tmp_path / "state" / "waybill").iterdir()) == []


def test_state_that_cannot_be_written_has_failed(
    patient: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    (finding,) = machine.store(patient())
    assert finding.status == "failed"
    assert finding.found.startswith(f"{tmp_path}/file/waybill cannot be written: ")


def test_too_little_room_is_a_warning(tmp_path: Path) -> None:
    assert machine.room([tmp_path], least=0).status == "ok"
    finding = machine.room([tmp_path], least=1 << 80)
    assert (finding.status, "GiB free for" in finding.found) == ("warning", True)
