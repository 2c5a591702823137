"""The run record: what version 1 of the receipt has no field for. See docs/run-record.md."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

from waybill.base import canonical, clock, document, schema
from waybill.base.files import Folder, storing
from waybill.packet.boundary import RUN
from waybill.packet.packet import Packet

Record = dict[str, Any]
SCHEMA_VERSION = "1.0"
MOST_BYTES = 256 << 20  # a run that changed very many files has a long record


def new(packet: Packet, attempt: int, prepared: float, cwd: Path) -> Record:
    """A record of a run that has not begun. Every key is there; what is unknown is null."""
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": f"run-{clock.compact(prepared)}-{secrets.token_hex(4)}",
        "packet_id": packet.packet_id,
        "attempt": attempt,
        "state": "prepared",
        "outcome": None,
        "reason": None,
        "retry_at": None,
        "role": packet.role,
        "cwd": str(cwd),
        "packet": packet.digest,
        "prompt": None,
        "codex": None,
        "sandbox": {"requested": packet.sandbox, "effective": None},
        "auth": None,
        "limits": {
            "wall_seconds": packet.wall_seconds,
            "start_seconds": 0,
            "idle_seconds": 0,
            "grace_seconds": 0,
            "passed": None,
        },
        "model": {"requested": None, "effective": None, "family": None},
        "rehearsal": None,
        "gateway": None,
        "thread": None,
        "turn": None,
        "usage": None,
        "events": None,
        "stderr": None,
        "final_message": None,
        "stdin": None,
        "tree": None,
        "patch": None,
        "artifacts": [],
        "evidence": [],
        "process": None,
        "masked": 0,
        "warnings": [],
        "claims": [],
        "reviews": [],
        "passes": [],
        "refusals": [],
        "relaxations": [],
        "receipt": None,
        "timing": {
            "prepared": clock.stamp(prepared),
            "started": None,
            "first_event": None,
            "last_progress": None,
            "ended": None,
        },
    }


def data(record: Record) -> bytes:
    """The bytes of run.json. A record that breaks its schema is a fault of ours."""
    found = schema.errors("run-record", record)
    if found:
        raise AssertionError(f"run record breaks its schema: {found[:3]}")
    return canonical.pretty(record)


def save(folder: Folder, record: Record) -> None:
    """Replace run.json. Raises Fault store_error."""
    with storing(f"{folder.path}/{RUN}"):
        folder.replace(RUN, data(record))


def load(folder: Folder) -> Record | None:
    """The record of a run folder; None when there is none. Raises Fault 65 or 73."""
    subject = f"{folder.path}/{RUN}"
    with storing(subject):
        found = folder.read(RUN, MOST_BYTES)
    if found is None:
        return None
    record: Record = schema.require("run-record", document.parse(found, subject), subject)
    return record


def ran(record: Record | None) -> bool:
    """Whether Codex was ever started for this record."""
    return record is not None and record["timing"]["started"] is not None
