"""A run of a packet: what its steps share, and what a status is made of."""

from __future__ import annotations

from dataclasses import dataclass, field

from waybill.base import masking
from waybill.base.exits import OUTCOMES, TERM
from waybill.packet import outcome, preflight, rundir
from waybill.packet import record as run_record
from waybill.packet.boundary import Boundary
from waybill.packet.packet import Packet
from waybill.packet.preflight import Asked, Ready
from waybill.packet.session import Limits
from waybill.packet.stage import Rehearsing

SCRATCH = "scratch"
SPARED = (
    "sha256", "run_id", "packet_id", "id", "boot_id", "host", "path", "pinned", "found",
    "base_tree", "result_tree", "base_commit", "after_evidence", "tree",
)  # fmt: skip


@dataclass
class Run:
    """Everything that the steps of one run share."""

    held: rundir.RunFolder
    packet: Packet
    boundary: Boundary
    asked: Asked
    ready: Ready
    limits: Limits
    record: run_record.Record
    rehearsing: Rehearsing | None
    mask: masking.Mask
    kept: dict[str, str] = field(default_factory=dict)  # digests that must not change
    interrupted: int | None = None

    @property
    def stream(self) -> bool:
        """Whether the packet asks for an event stream."""
        return self.packet.invocation(self.asked.allow_flags).json

    def save(self) -> None:
        """Store the record as it is, without secrets."""
        run_record.save(self.held.folder, self.masked())

    def masked(self) -> run_record.Record:
        """The record as it is stored."""
        self.record["masked"] = self.mask.count
        masked: run_record.Record = self.mask.record(self.record, spare=SPARED)
        return masked


def fill(run: Run) -> None:
    """Put what the checks before the launch found into the record."""
    ready, record = run.ready, run.record
    record["prompt"] = preflight.prompt_digest(ready.prompt)
    if ready.version is not None:
        record["codex"] = {"path": ready.binary, "version": ready.version, "argv": ready.argv}
    record["auth"] = ready.auth.record() if ready.auth else None
    record["relaxations"] = run.asked.relaxations()
    record["warnings"] = list(ready.warnings)
    record["limits"] |= {
        "start_seconds": run.limits.start,
        "idle_seconds": run.limits.idle,
        "grace_seconds": run.limits.grace,
    }
    said = run.packet.invocation(run.asked.allow_flags)
    record["model"]["requested"] = said.flags.get("--model")
    record["rehearsal"] = run.rehearsing.record if run.rehearsing else None


def ended(record: run_record.Record, interrupted: int | None = None) -> int:
    """The status of a dispatch: 0 also for a run whose commands were put off, as was asked."""
    if (record["outcome"], record["reason"]) == ("verify_not_run", outcome.DEFERRED):
        return OUTCOMES["ok"]
    return status(record["outcome"], interrupted)


def status(word: str, interrupted: int | None) -> int:
    """The exit status of an outcome; an interruption names its signal."""
    if word == "interrupted":
        return 128 + interrupted if interrupted else TERM
    return OUTCOMES[word]
