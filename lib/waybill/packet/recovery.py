"""Recovery: an honest record for a run whose dispatcher died, made from what is on disk.

Nothing is run again. What the files prove is kept; the outcome is `interrupted`.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from waybill.base import clock, command, document, exits, masking
from waybill.base.exits import Fault, fault
from waybill.base.files import Folder, storing
from waybill.codex.events import Reader
from waybill.packet import (
    boundary,
    capture,
    generation,
    observe,
    packet,
    receipt,
    record,
    run,
    rundir,
)
from waybill.packet.boundary import PACKET, STDERR, WORK_PATCH, Boundary
from waybill.packet.packet import Packet
from waybill.packet.session import Session
from waybill.tree import repository
from waybill.tree.workshop import Workshop

UNFINISHED = ("prepared", "running", "exited", "evidenced")
_BLOCK = 1 << 20


def recover(run_dir: str) -> int:
    """Recover the run in a folder and print its receipt; the status of its outcome.

    Raises Fault 66 where there is no run. A run that is whole is left as it is.
    """
    path = Path(run_dir).absolute()
    try:
        with Folder.open(Path(os.path.realpath(path))) as folder:
            data = folder.read(PACKET, rundir.MOST_BYTES)
            row = record.load(folder)
    except OSError as error:
        raise Fault(exits.NOINPUT, run_dir, f"cannot be read: {error.strerror or error}") from None
    if data is None or row is None:
        raise Fault(exits.NOINPUT, run_dir, "holds no run: packet.json and run.json are needed")

    found = packet.parse(document.parse(data, PACKET), f"{run_dir}/{PACKET}", data)
    drawn = boundary.draw(found, Path(row["cwd"]))
    if drawn.run_folder != Path(os.path.realpath(path)):
        raise fault("refused", run_dir, f"its packet belongs into {drawn.run_folder}")
    with rundir.hold(drawn) as held:
        heal(held, found, drawn)
        kept = rundir.receipt_bytes(held)
        if kept is None:
            raise Fault(exits.NOINPUT, run_dir, "the run never began, and left no receipt")
        command.emit(document.parse(kept, held.receipt_name))
        word = held.record["outcome"] if held.record else "interrupted"
        return run.status(word, None)


def heal(held: rundir.RunFolder, found: Packet, drawn: Boundary) -> None:
    """Finish the record of a run that died in this folder; nothing happens without one.

    Only when its claim is that of a process that is certainly gone.
    """
    row, claim = held.record, held.claim
    if row is None or row["state"] not in UNFINISHED:
        if row is None and claim is not None and _gone(claim):
            _unbegun(held)
        if row is not None and row["receipt"] is not None:
            _mend(held, row)
        return
    if claim is not None and not _gone(claim):
        return
    who = f"pid {claim['pid']} on {claim['host']}" if claim else "its dispatcher"
    if not record.ran(row):
        command.complain("dispatch", f"{row['packet_id']}: {who} died before the run began")
        _unbegun(held)
        held.record = None
        held.folder.remove("run.json")
        return
    command.complain("dispatch", f"{row['packet_id']}: {who} died; run recovered as interrupted")
    _finish(held, found, drawn, row)


def _unbegun(held: rundir.RunFolder) -> None:
    """Take away what a dispatcher left that died before it started anything."""
    shutil.rmtree(held.folder.path / run.SCRATCH, ignore_errors=True)
    held.drop_claim()


def _mend(held: rundir.RunFolder, row: record.Record) -> None:
    if generation.mend(held):
        command.complain(
            "dispatch",
            f"{row['packet_id']}: {held.receipt_name} was not the newest generation; put back",
        )


def _gone(claim: dict[str, Any]) -> bool:
    return rundir.alive(claim) is False


def _finish(held: rundir.RunFolder, found: Packet, drawn: Boundary, row: record.Record) -> None:
    mask = masking.Mask(os.environ, found.environment)
    session = replay(drawn.events)
    stream = found.invocation(_allowed(row)).json
    with storing(str(held.folder.path)):
        _streams(held.folder, drawn, row, session, stream)
    home = observe.codex_home(dict(os.environ))
    observe.thread(row, session, home, found.resumes, None, stream=stream)
    if row["tree"] is not None and row["patch"] is None:
        _tree(held, drawn, row)
    row["outcome"], row["state"] = "interrupted", "recovered"
    row["reason"] = "the dispatcher died; recovered from what was on disk"
    ended = row["timing"]["ended"] or clock.stamp(clock.now())
    row["timing"]["ended"] = ended
    if row["stdin"]["closed_at"] is None:
        row["stdin"]["closed_at"] = ended  # at the latest; nobody was there to see it
    written = receipt.build(
        found,
        row,
        verdict=receipt.error_verdict(row["reason"]),
        excerpts=[session.reader.message or ""],
        mask=mask,
        at=clock.now(),
    )
    generation.write(held, row, written, "recover")


def _allowed(row: record.Record) -> tuple[str, ...]:
    prefix = "allow-flag "
    return tuple(r.removeprefix(prefix) for r in row["relaxations"] if r.startswith(prefix))


def replay(events: Path) -> Session:
    """What an event file says, read as if it were being written."""
    session = Session(Reader())
    try:
        with Folder.open(events.parent) as folder:
            descriptor = folder.open_file(events.name, os.O_RDONLY)
    except OSError:
        return session
    with os.fdopen(descriptor, "rb") as stream:
        while block := stream.read(_BLOCK):
            session.reader.feed(block, os.fstat(descriptor).st_mtime)
    session.reader.close()
    return session


def _streams(
    folder: Folder, drawn: Boundary, row: record.Record, session: Session, stream: bool
) -> None:
    with Folder.open(drawn.events.parent) as parent, Folder.open(drawn.final_message.parent) as end:
        streams = capture.Streams(folder, drawn.events, drawn.final_message, final_folder=end)
        try:
            streams.events = parent.open_file(drawn.events.name, os.O_RDONLY)
            streams.stderr = folder.open_file(STDERR, os.O_RDONLY)
            row["events"], row["stderr"] = capture.stream_rows(streams, session)
            _, row["final_message"] = streams.final_message(session, stream=stream)
        finally:
            streams.close()


def _tree(held: rundir.RunFolder, drawn: Boundary, row: record.Record) -> None:
    """The tree as it is now stands for the result; when it changed, nobody can say."""
    base = held.folder.path / "base.patch"
    scratch = held.folder.path / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        where = repository.find(drawn.cwd, os.environ)
        pinned = repository.Repository(
            where.kind, where.top, where.git_dir, where.common_dir, row["tree"]["base_commit"],
            where.object_format, where.excludes_file,
        )  # fmt: skip
        with Workshop(pinned, scratch, [*drawn.own(), scratch], env=os.environ) as workshop:
            tree = workshop.replay([base])
            if tree != row["tree"]["base_tree"]:
                row["warnings"].append("the base tree cannot be rebuilt; no patch was made")
                return
            observe.result(row, workshop, held.folder, tree, WORK_PATCH)
        row["warnings"].append("the result tree is that of the recovery, not of the run's end")
    except Fault as broken:
        row["warnings"].append(f"no patch was made: {broken}")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
