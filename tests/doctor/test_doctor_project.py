"""The folder looked at: repository, settings, runs and ledger."""

from __future__ import annotations

import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from waybill.base import canonical, files, process
from waybill.doctor import project
from waybill.packet import ledger, record


@pytest.fixture
def run_folder(patient: Any) -> Any:
    """Make a run folder in the state given, claimed by the process given."""

    def make(name: str, state: str, claim: dict[str, Any] | None) -> Path:
        who = patient()
        folder: Path = who.cwd / ".codex" / "runs" / name
        folder.mkdir(parents=True)
        packet: Any = SimpleNamespace(
            packet_id=name,
            role="worker",
            sandbox="workspace-write",
            wall_seconds=60,
            digest={"sha256": "0" * 64, "bytes": 2},
        )
        row = record.new(packet, 1, 0.0, who.cwd)
        row["state"] = state
        (folder / "run.json").write_bytes(record.data(row))
        if claim is not None:
            about = {"schema_version": "1.0", "run_id": row["run_id"], "packet_id": name}
            about |= {"attempt": 1, "claimed_at": row["timing"]["prepared"]}
            (folder / "claim.json").write_bytes(canonical.pretty(about | claim))
        return folder

    return make


def here(**changed: Any) -> dict[str, Any]:
    """The identity of this process, or one like it."""
    return {**process.Identity.here().to_dict(), **changed}


def test_a_repository_is_named_with_its_commit(patient: Any, by_name: Any, repository: Any) -> None:
    who = patient()
    repository(who.cwd)
    found = by_name(project.folder(who))
    assert [finding.status for finding in found.values()] == ["ok", "ok"]
    assert found["folder"].found.startswith(f"{who.cwd} in {who.cwd}, at ")


def test_a_folder_in_no_repository_is_a_warning(patient: Any, by_name: Any) -> None:
    finding = by_name(project.folder(patient()))["folder"]
    assert (finding.status, "is in no git repository" in finding.found) == ("warning", True)


def test_a_broken_repository_has_failed_with_the_sentence_of_git(
    patient: Any, by_name: Any
) -> None:
    who = patient()
    (who.cwd / ".git").write_text("gitdir: /nowhere\n")
    finding = by_name(project.folder(who))["folder"]
    assert (finding.status, "/nowhere" in finding.found) == ("failed", True)


def test_settings_that_codex_would_load_are_named(
    patient: Any, by_name: Any, repository: Any
) -> None:
    who = patient()
    repository(who.cwd)
    settings = who.cwd / ".codex" / "config.toml"
    settings.parent.mkdir()
    settings.write_text("")
    finding = by_name(project.folder(who))["project settings"]
    assert (finding.status, finding.found) == ("warning", str(settings))


def test_a_run_whose_dispatcher_is_gone_is_to_be_recovered(patient: Any, run_folder: Any) -> None:
    folder = run_folder("it's dead", "running", here(started=1))
    (finding,) = project.runs(patient())
    assert finding.status == "warning"
    assert f"{folder}: running, and pid " in finding.found
    assert finding.advice == f"dispatch --recover {shlex.quote(str(folder))}"


def test_a_run_without_a_claim_is_to_be_recovered(patient: Any, run_folder: Any) -> None:
    run_folder("unclaimed", "exited", None)
    (finding,) = project.runs(patient())
    assert (finding.status, "its dispatcher is gone" in finding.found) == ("warning", True)


def test_runs_that_go_on_or_are_finished_are_well(patient: Any, run_folder: Any) -> None:
    run_folder("alive", "running", here())
    run_folder("done", "receipted", here(started=1))
    run_folder("mended", "recovered", here(started=1))
    (finding,) = project.runs(patient())
    assert (finding.status, finding.found.split()[0]) == ("ok", "3")


@pytest.mark.parametrize("claim", [{"host": "elsewhere"}, {"started": None}])
def test_a_run_that_cannot_be_judged_from_here_is_left_alone(
    patient: Any, run_folder: Any, claim: dict[str, Any]
) -> None:
    run_folder("far", "running", here(**claim))
    (finding,) = project.runs(patient())
    assert (finding.status, finding.advice) == ("warning", "look there whether it goes on")


@pytest.mark.parametrize("text", [b"", b"{}", b'{"state": "run', b"\xff"])
def test_a_damaged_record_has_failed_and_hides_no_other_run(
    patient: Any, run_folder: Any, text: bytes
) -> None:
    damaged = run_folder("a", "running", here())
    (damaged / "run.json").write_bytes(text)
    run_folder("b", "running", here(started=1))
    first, second = project.runs(patient())
    assert (first.status, str(damaged) in first.found) == ("failed", True)
    assert second.status == "warning"


def test_a_damaged_claim_has_failed(patient: Any, run_folder: Any) -> None:
    folder = run_folder("a", "running", here())
    (folder / "claim.json").write_text("{}\n")
    (finding,) = project.runs(patient())
    assert (finding.status, "claim.json" in finding.found) == ("failed", True)


def test_a_ledger_is_read_to_its_end(patient: Any, by_name: Any) -> None:
    who = patient()
    path = who.cwd / ".codex" / "runs"
    path.mkdir(parents=True)
    with files.Folder.open(path) as folder:
        for attempt in (1, 2):
            ledger.append(
                folder,
                run_id="run-1",
                attempt=attempt,
                by="dispatch",
                receipt=b"%d" % attempt,
                run=b"{}",
            )
    finding = by_name(project.runs(who))["ledger"]
    assert (finding.status, finding.found.split(",")[0]) == ("ok", "2 lines")
    lines = (path / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (path / "ledger.jsonl").write_bytes(lines[1])
    finding = by_name(project.runs(who))["ledger"]
    assert (finding.status, "line 1: " in finding.found) == ("failed", True)


def test_a_folder_without_runs_is_well(patient: Any) -> None:
    (finding,) = project.runs(patient())
    assert finding.status == "ok"
