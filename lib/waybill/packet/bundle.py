"""A run's records read for judgement, with every digest compared to what lies there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from waybill.base import canonical, document, paths, schema
from waybill.base.exits import Fault
from waybill.base.files import Folder
from waybill.packet import ledger, packet, rundir
from waybill.packet import record as run_record
from waybill.packet.boundary import LEDGER, PACKET, PROMPT, RUN
from waybill.packet.judgement import Bundle, Reason


def read(path: Path, receipt_name: str) -> Bundle | None:
    """The records in a run folder; None where there is no run record.

    Raises Fault 65 or 73 for one that is there and cannot be read.
    """
    try:
        folder = Folder.open(paths.resolve(path))
    except (OSError, paths.Escape):
        return None
    with folder:
        row = run_record.load(folder)
        if row is None:
            return None
        try:
            data = folder.read(PACKET, rundir.MOST_BYTES)
        except OSError:
            data = None
        if data is None:
            return None
        found = packet.parse(document.parse(data, f"{path}/{PACKET}"), f"{path}/{PACKET}", data)
        bundle = Bundle(found, row)
        _digests(folder, bundle, data, receipt_name)
        _reviews(folder, bundle)
        _ledger(folder, bundle, receipt_name)
        return bundle


def _digests(folder: Folder, bundle: Bundle, data: bytes, receipt_name: str) -> None:
    row = bundle.record
    expected: list[tuple[str, str]] = []
    if row["receipt"] is None:
        bundle.reasons.append(Reason("digest", RUN, "names no receipt"))
    else:
        expected.append((receipt_name, row["receipt"]["sha256"]))
    if canonical.digest(data) != row["packet"]["sha256"]:
        bundle.reasons.append(_changed(PACKET))
    if row["prompt"] and row["timing"]["started"]:
        expected.append((PROMPT, row["prompt"]["sha256"]))
    for key in ("events", "stderr", "final_message", "patch"):
        if row[key]:
            expected.append((row[key]["path"], row[key]["sha256"]))
    if row["tree"]:
        expected.append((row["tree"]["base_patch"]["path"], row["tree"]["base_patch"]["sha256"]))
    expected += [(r["log"]["path"], r["log"]["sha256"]) for r in row["evidence"] if r["log"]]
    expected += [(r["path"], r["sha256"]) for r in row["reviews"]]
    for name, sha256 in expected:
        if digest(folder.path / name) != sha256:
            bundle.reasons.append(_changed(name))
    for entry in row["artifacts"]:
        if entry["sha256"] and digest(Path(row["cwd"]) / entry["path"]) != entry["sha256"]:
            bundle.reasons.append(_changed(entry["path"]))


def _changed(name: str) -> Reason:
    return Reason("digest", name, "is not what the run left: changed, or gone")


def digest(path: Path) -> str | None:
    """SHA-256 of a regular file reached without following a link at its end; else None."""
    try:
        real = paths.resolve(path.absolute().parent)
        with Folder.open(real) as folder:
            descriptor = folder.open_file(path.name, os.O_RDONLY)
    except (OSError, paths.Escape):
        return None
    try:
        return canonical.descriptor_digest(descriptor)[0]
    finally:
        os.close(descriptor)


def _reviews(folder: Folder, bundle: Bundle) -> None:
    for row in bundle.record["reviews"]:
        path = folder.path / row["path"]
        try:
            with Folder.open(path.parent) as review:
                data = review.read(path.name, rundir.MOST_BYTES)
                found: dict[str, Any] = document.parse(data or b"", row["path"])
                schema.require("review", found, row["path"])
        except (OSError, Fault):
            bundle.reasons.append(_changed(row["path"]))
            continue
        raw = found["raw"]
        if raw and digest(path.parent / raw["path"]) != raw["sha256"]:
            bundle.reasons.append(_changed(f"reviews/{row['number']}/{raw['path']}"))
        bundle.reviews.append(found)


def _ledger(folder: Folder, bundle: Bundle, receipt_name: str) -> None:
    """Receipt and run record are what the latest line of the ledger says, where there is one."""
    for place in (folder.path.parent, folder.path):
        try:
            with Folder.open(place) as beside:
                data = beside.read(LEDGER, ledger.MOST_BYTES)
        except OSError:
            continue
        if data is None:
            continue
        lines = [
            line
            for line in ledger.read(place / LEDGER, data).lines
            if line["run_id"] == bundle.record["run_id"]
        ]
        if not lines:
            continue
        for name, key in ((receipt_name, "receipt_sha256"), (RUN, "run_sha256")):
            if digest(folder.path / name) != lines[-1][key]:
                bundle.reasons.append(
                    Reason("ledger", name, "is not what the ledger's latest line says")
                )
        return
