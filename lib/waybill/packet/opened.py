"""A run that has been, opened again by its receipt: for verify, review and their receipts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waybill.base import command, document, exits, masking, paths, schema
from waybill.base.exits import Fault, fault
from waybill.base.files import Folder, storing
from waybill.codex.events import Reader
from waybill.packet import (
    answer,
    boundary,
    outcome,
    packet,
    preflight,
    record,
    recovery,
    run,
    rundir,
)
from waybill.packet.boundary import PACKET, Boundary
from waybill.packet.packet import Packet
from waybill.tree import repository
from waybill.tree.workshop import Workshop

Document = dict[str, Any]


@dataclass
class Opened:
    """A run folder that this process holds, with everything that lies in it."""

    held: rundir.RunFolder
    packet: Packet
    boundary: Boundary
    record: record.Record
    receipt: Document
    mask: masking.Mask

    @property
    def relaxed(self) -> preflight.Asked:
        """What the dispatch was asked for and recorded, as far as it goes on to matter."""
        flags = self.record["relaxations"]

        def named(prefix: str) -> tuple[str, ...]:
            return tuple(row.removeprefix(prefix) for row in flags if row.startswith(prefix))

        return preflight.Asked(
            pass_env=named("pass-env "),
            allow_flags=named("allow-flag "),
            allow_no_change="allow-no-change" in flags,
            confine_evidence="confine-evidence" in flags,
        )

    def pass_on(self, name: str, why: str, word: str | None = None) -> int:
        """Print the receipt as it is and say why; the status of its outcome, or of `word`."""
        command.complain(name, f"{self.packet.packet_id}: {why}; nothing was started")
        command.emit(self.receipt)
        return run.status(word or self.record["outcome"], None)

    @contextmanager
    def workshop(self) -> Iterator[Workshop]:
        """The working tree as it is now, on the commit that the run began with."""
        kept = self.record["tree"]
        where = repository.find(self.boundary.cwd, os.environ)
        pinned = repository.Repository(
            where.kind, where.top, where.git_dir, where.common_dir, kept["base_commit"],
            where.object_format, where.excludes_file,
        )  # fmt: skip
        scratch = self.held.folder.path / run.SCRATCH
        with Workshop(pinned, scratch, [*self.boundary.own(), scratch], env=os.environ) as found:
            yield found

    def at_hand(self, tree: str) -> bool:
        """Whether a tree is the one that the run left, with or without what the checks made."""
        return tree in (
            self.record["tree"]["result_tree"],
            self.record["tree"]["after_evidence"],
        )

    def message(self) -> str | None:
        """The final message, as the record points to it."""
        row = self.record["final_message"]
        if row is None:
            return None
        try:
            path = paths.resolve(self.held.folder.path / row["path"])
        except paths.Escape as escape:
            raise fault("store_error", f"{self.held.folder.path}/run.json", str(escape)) from None
        with storing(str(path)), Folder.open(path.parent) as folder:
            data = folder.read(path.name, rundir.MOST_BYTES)
        return None if data is None else data.decode("utf-8", "replace")

    def facts(self, reader: Reader | None = None) -> outcome.Facts:
        """The facts of a run whose turn was completed, from its record."""
        row, asked = self.record, self.relaxed
        before = self.receipt["verdict"]
        return outcome.Facts(
            role=self.packet.role,
            writable=self.packet.writable,
            stream=self.packet.invocation(asked.allow_flags).json,
            evidence=row["evidence"],
            changed=len(row["patch"]["files"]) if row["patch"] else 0,
            artifacts_missing=[r["path"] for r in row["artifacts"] if not r["sha256"]],
            artifacts_made=len(row["artifacts"]),
            allow_no_change=asked.allow_no_change,
            message=self.message(),
            refusals=row["refusals"],
            verdict=before["status"],
            verdict_reason=before["summary"],
            commands=[str(r.get("command")) for r in reader.work.commands] if reader else [],
        )


def locate(operand: str | None, run_dir: str | None) -> Path:
    """The run folder that a receipt or a packet, given as a file or on stdin, belongs to."""
    found, subject, _ = document.read(operand)
    kind = "task-packet" if isinstance(found, dict) and "execution" in found else "run-receipt"
    schema.require(kind, found, subject)
    if run_dir is not None:
        path = Path(run_dir)
    elif operand not in (None, "-") and kind == "run-receipt":
        path = Path(str(operand)).parent
    else:
        outputs = found["output"] if kind == "task-packet" else found["outputs"]
        path = (Path(found["cwd"]) / outputs["receipt_path"]).parent
    try:
        return paths.resolve(path.absolute())
    except paths.Escape as escape:
        raise Fault(exits.NOINPUT, str(path), str(escape)) from None


@contextmanager
def opened(operand: str | None, run_dir: str | None) -> Iterator[Opened]:
    """Open and hold the run of a receipt. Raises Fault 66 where there is no run."""
    path = locate(operand, run_dir)
    try:
        with Folder.open(path) as folder:
            data = folder.read(PACKET, rundir.MOST_BYTES)
            row = record.load(folder)
    except OSError as error:
        raise Fault(
            exits.NOINPUT, str(path), f"cannot be read: {error.strerror or error}"
        ) from None
    if data is None or row is None:
        raise Fault(exits.NOINPUT, str(path), "holds no run: packet.json and run.json are needed")
    found = packet.parse(document.parse(data, PACKET), f"{path}/{PACKET}", data)
    drawn = boundary.draw(found, Path(row["cwd"]))
    if drawn.run_folder != path:
        raise fault("refused", str(path), f"its packet belongs into {drawn.run_folder}")
    with rundir.hold(drawn) as held:
        recovery.heal(held, found, drawn)
        kept = rundir.receipt_bytes(held)
        if kept is None or held.record is None:
            raise Fault(exits.NOINPUT, str(path), "holds no receipt: it was never dispatched")
        if held.record["outcome"] is None:
            raise fault("store_error", f"{path}/run.json", "is damaged: it names no outcome")
        written = schema.require(
            "run-receipt", document.parse(kept, held.receipt_name), f"{path}/{held.receipt_name}"
        )
        mask = masking.Mask(os.environ, found.environment)
        yield Opened(held, found, drawn, held.record, written, mask)


def settled(found: Opened, facts: outcome.Facts) -> None:
    """Put the outcome that follows from the facts into the record."""
    row = found.record
    row["outcome"], row["reason"], row["retry_at"] = outcome.decide(facts)


def judged(found: Opened, facts: outcome.Facts) -> Document:
    """The verdict that a validator's own message holds, judged again."""
    stream = found.packet.invocation(found.relaxed.allow_flags).json
    return answer.verdict(found.packet.role, facts.message, facts, found.record, stream=stream)
