"""The diagnosis: every check made, and told to programs and to people."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from waybill.base import command, document, exits, masking, schema
from waybill.base.exits import Fault
from waybill.doctor import binary, machine, model, project
from waybill.doctor.patient import FAILED, OK, Finding, Patient, failed

NAME = "doctor"
SCHEMA_VERSION = "1.0"

# In the order in which things are needed. The name is that of a check that cannot be made.
LOOKS: tuple[tuple[str, Callable[[Patient], Iterator[Finding]]], ...] = (
    ("python", machine.python),
    ("platform", machine.platform),
    ("git", machine.git_version),
    ("state folder", machine.store),
    ("codex", binary.codex),
    ("environment", binary.variables),
    ("folder", project.folder),
    ("runs", project.runs),
    ("rehearsal", model.rehearsal),
)


def run(args: command.Arguments) -> int:
    """Examine this machine; 1 when something failed."""
    cwd = Path(args["--cwd"] or ".").absolute()
    found = _fit(examine(args["--codex"], cwd))
    diagnosis = {
        "schema_version": SCHEMA_VERSION,
        "healthy": all(finding.status != FAILED for finding in found),
        "checks": [finding.record() for finding in found],
    }
    wrong = schema.errors("diagnosis", diagnosis)
    if wrong:
        raise AssertionError(f"diagnosis breaks its schema: {wrong[:3]}")
    for finding in found:
        if finding.status != OK:
            command.complain(NAME, f"{finding.name}: {finding.found}; {finding.advice}")
    if args["--table"]:
        command.emit_text(table(found))
    elif not args["--quiet"]:
        command.emit(diagnosis)
    return exits.OK if diagnosis["healthy"] else exits.NO


def examine(codex: str | None, cwd: Path) -> list[Finding]:
    """Every finding, in the order of LOOKS. A check that cannot be made has failed."""
    import tempfile

    found: list[Finding] = []
    with tempfile.TemporaryDirectory(prefix="waybill-doctor-") as scratch:
        patient = Patient(codex, cwd, os.environ, Path(os.path.realpath(scratch)))
        for name, look in LOOKS:
            try:
                found.extend(look(patient))
            except Fault as fault:
                found.append(failed(name, str(fault), "see to this first"))
            except OSError as error:
                where = f"{error.filename}: " if error.filename else ""
                why = f"{where}{error.strerror or error}"
                found.append(failed(name, why, "see to this first"))
    return found


def table(found: list[Finding]) -> str:
    """The findings for people."""
    from tabulate import tabulate

    rows: list[list[Any]] = [
        [finding.status, finding.name, finding.found, finding.advice or ""] for finding in found
    ]
    headers = ["status", "check", "found", "advice"]
    text = tabulate(
        rows,
        headers,
        disable_numparse=True,
        maxcolwidths=[None, None, 60, 40],
        break_long_words=False,  # a path that is cut cannot be copied
        break_on_hyphens=False,
    )
    return text + "\n"


def _fit(found: list[Finding]) -> list[Finding]:
    """The findings without secrets, and without what would move a terminal's cursor."""
    mask = masking.Mask(os.environ)

    def text(raw: str) -> str:
        return document.printable(mask.text(raw))

    return [
        Finding(each.name, each.status, text(each.found), each.advice and text(each.advice))
        for each in found
    ]
