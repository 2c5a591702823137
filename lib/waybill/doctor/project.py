"""The folder: its repository, the settings that Codex would load, and the runs in it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from waybill.base.exits import Fault
from waybill.base.files import Folder
from waybill.doctor.patient import Finding, Patient, failed, ok, warning
from waybill.packet import ledger, preflight, record, recovery, rundir
from waybill.packet.boundary import LEDGER
from waybill.tree import repository

RUNS = Path(".codex", "runs")


def folder(patient: Patient) -> Iterator[Finding]:
    """The repository around the folder, and the settings in it."""
    try:
        found = repository.find(patient.cwd, patient.environment)
    except Fault as broken:
        yield failed("folder", f"{broken.subject}: {broken.message}", "name a folder with --cwd")
        return
    if found.kind == "folder":
        advice = "git init, or say --skip-git-repo-check in the packet's command"
        yield warning("folder", f"{found.top} is in no git repository", advice)
    else:
        at = f"at {found.base_commit}" if found.base_commit else "without a commit"
        yield ok("folder", f"{os.path.realpath(patient.cwd)} in {found.top}, {at}")
    here = Path(os.path.realpath(patient.cwd))
    loads = preflight.projects_with_settings(here, Path(found.top))
    if loads:
        names = ", ".join(f"{project}/.codex/config.toml" for project in loads)
        advice = (
            "dispatch takes a packet only with project trust turned off, as packet-make"
            " writes it, or with --trust-project, which lets Codex start what the file names"
        )
        yield warning("project settings", names, advice)
    else:
        yield ok("project settings", "no .codex/config.toml that Codex would load")


def runs(patient: Patient) -> Iterator[Finding]:
    """What is unfinished or damaged below .codex/runs."""
    if not patient.cwd.is_dir():
        return
    path = Path(os.path.realpath(patient.cwd)) / RUNS
    if not path.is_dir():
        yield ok("runs", f"none in {path}")
        return
    with os.scandir(path) as listing:
        names = sorted(entry.name for entry in listing if entry.is_dir(follow_symlinks=False))
    found = [finding for name in names if (finding := _run(path / name)) is not None]
    yield from found
    if not found:
        yield ok("runs", f"{len(names)} in {path}, none unfinished or damaged")
    yield from _ledger(path)


def _run(path: Path) -> Finding | None:
    """What is wrong with the run in a folder; None when nothing is, or it goes on."""
    advice = "set the folder aside: its receipts are in generations/, and receipt-check reads them"
    try:
        with Folder.open(path) as opened:
            row = record.load(opened)
            if row is None or row["state"] not in recovery.UNFINISHED:
                return None
            claim = rundir.read_claim(opened)
            alive = claim is not None and rundir.alive(claim)
    except OSError as error:
        return failed("run", f"{path}: cannot be read: {error.strerror}", advice)
    except Fault as damaged:
        return failed("run", f"{damaged.subject}: is damaged: {damaged.message}", advice)
    if alive is None:
        where = f"{path}: {row['state']}, by a process on {claim['host'] if claim else ''}"
        return warning("run", where, "look there whether it goes on")
    if alive:
        return None
    who = f"pid {claim['pid']}" if claim else "its dispatcher"
    found = f"{path}: {row['state']}, and {who} is gone"
    return warning("run", found, f"dispatch --recover {shlex.quote(str(path))}")


def _ledger(path: Path) -> Iterator[Finding]:
    advice = "receipt-check --ledger names the receipts that it does not vouch for"
    try:
        with Folder.open(path) as opened:
            data = opened.read(LEDGER, ledger.MOST_BYTES)
    except OSError as error:
        yield failed("ledger", f"{path / LEDGER}: cannot be read: {error.strerror}", advice)
        return
    if data is None:
        return
    read = ledger.read(path / LEDGER, data)
    if read.faults:
        more = f" (and {len(read.faults) - 1} more)" if read.faults[1:] else ""
        yield failed("ledger", f"{path / LEDGER}: {read.faults[0]}{more}", advice)
    else:
        yield ok("ledger", f"{len(read.lines)} lines, unbroken, in {path / LEDGER}")
