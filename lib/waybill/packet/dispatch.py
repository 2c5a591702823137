"""Dispatch: one packet through every check, to a run and its receipt, or to a refusal."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waybill.base import canonical, clock, command, document, exits, masking
from waybill.base.exits import OUTCOMES, Fault, fault
from waybill.codex.argv import Invocation
from waybill.packet import (
    boundary,
    course,
    crosscheck,
    packet,
    preflight,
    record,
    run,
    rundir,
    stage,
)
from waybill.packet.boundary import Boundary
from waybill.packet.packet import Packet
from waybill.packet.preflight import Asked, Ready
from waybill.packet.run import Run
from waybill.packet.session import Limits

NAME = "dispatch"
# A refusal with one of these outcomes leaves a receipt: the path boundary has been checked.
RECEIPTED = ("launch_failed", "auth", "refused")


@dataclass(frozen=True)
class Orders:
    """A dispatch's command line, read."""

    operand: str | None
    asked: Asked
    start_limit: float
    idle_limit: float
    grace: float
    attempt: int | None
    dry_run: bool
    run_dir: str | None


def orders(args: command.Arguments) -> Orders:
    """The command line, read. Raises Fault 64 with the option's name."""
    asked = Asked(
        codex=args["--codex"],
        pass_env=tuple(args["--pass-env"]),
        allow_flags=tuple(args["--allow-flag"]),
        allow_unpinned=args["--allow-unpinned"],
        trust_project=args["--trust-project"],
        allow_no_change=args["--allow-no-change"],
        defer_evidence=args["--defer-evidence"],
        confine_evidence=args["--confine-evidence"],
        rehearse=args["--rehearse"],
    )
    attempt = args["--attempt"]
    return Orders(
        operand=args["PACKET"],
        asked=asked,
        start_limit=command.number(args, "--start-limit", least=0.1),
        idle_limit=command.number(args, "--idle-limit", least=0.1),
        grace=command.number(args, "--grace"),
        attempt=None if attempt is None else command.whole(args, "--attempt", least=1),
        dry_run=args["--dry-run"],
        run_dir=args["--run-dir"],
    )


def dispatch(orders: Orders) -> int:
    """Dispatch one packet; the status to exit with. Receipts and plans go to stdout."""
    found = packet.read(orders.operand)
    if orders.run_dir is not None:
        found = _moved(found, orders.run_dir)
    played = stage.script(orders.asked)
    base = Path.cwd()
    checks = crosscheck.Options(
        orders.asked.allow_flags,
        orders.asked.trust_project,
        orders.asked.confine_evidence,
        played.get("model", stage.DEFAULT_MODEL) if played is not None else None,
    )
    said = crosscheck.check(found, base, checks)
    drawn = boundary.draw(found, base)
    if orders.dry_run:
        return _plan(orders, found, drawn, said)
    with rundir.hold(drawn) as held:
        if held.record is not None or held.claim is not None:
            from waybill.packet import recovery

            recovery.heal(held, found, drawn)
        attempt = rundir.judge(held, found, orders.attempt)
        if attempt is None:
            return _again(held)
        return _attempt(orders, found, drawn, said, held, attempt, played)


def _moved(found: Packet, run_dir: str) -> Packet:
    """The packet with its run folder elsewhere, as --run-dir asks, and what lay in it too."""
    target = str(Path(run_dir).absolute())
    changed = json.loads(json.dumps(found.document))
    output, old = changed["output"], os.path.dirname(found.output["receipt_path"])
    moved: dict[str, str] = {}
    for key in ("receipt_path", "final_message_path", "jsonl_path"):
        path = output.get(key, "")
        if path.strip() and os.path.dirname(path) == old:
            moved[path] = output[key] = os.path.join(target, os.path.basename(path))
    changed["evidence"]["receipt_path"] = output["receipt_path"]
    # Whoever gives the command may let the run lie where the packet could not.
    changed["allowed_paths"] = [*changed.get("allowed_paths", []), target]
    for words in (changed["dispatch"]["command"], changed["execution"]["argv"]):
        words[:] = [moved.get(word, word) for word in words]
    return packet.parse(changed, found.subject, canonical.pretty(changed))


def _limits(orders: Orders, found: Packet) -> Limits:
    return Limits(found.wall_seconds, orders.start_limit, orders.idle_limit, orders.grace)


def _again(held: rundir.RunFolder) -> int:
    """The receipt of a run that has already been, and its status."""
    assert held.record is not None
    data = rundir.receipt_bytes(held)
    if data is None:
        raise Fault(
            exits.STORE, str(held.folder.path), "the receipt of this run is gone", outcome=None
        )
    word = held.record["outcome"]
    command.complain(
        NAME,
        f"{held.record['packet_id']}: already ran as attempt {held.record['attempt']}, {word};"
        f" nothing was started; --attempt {held.record['attempt'] + 1} runs it again",
    )
    command.emit(document.parse(data, held.receipt_name))
    return run.ended(held.record)


def _attempt(
    orders: Orders,
    found: Packet,
    drawn: Boundary,
    said: Invocation,
    held: rundir.RunFolder,
    attempt: int,
    played: dict[str, Any] | None,
) -> int:
    ready = Ready()
    mask = masking.Mask(os.environ, found.environment)
    this = Run(
        held,
        found,
        drawn,
        orders.asked,
        ready,
        _limits(orders, found),
        record.new(found, attempt, clock.now(), drawn.cwd),
        None,
        mask,
    )
    with _rehearsal(orders.asked, played, this) as ambient:
        try:
            preflight.check(found, drawn, said, orders.asked, ambient, ready)
            written, status = course.execute(this)
        except Fault as refusal:
            if record.ran(this.record):
                _unstored(this, refusal)
                raise fault("store_error", refusal.subject, refusal.message) from None
            if refusal.outcome in RECEIPTED:
                _refuse(this, refusal)
            raise
    word, reason = this.record["outcome"], this.record["reason"]
    for warning in this.record["warnings"]:
        command.complain(NAME, f"{found.packet_id}: warning: {mask.text(warning)}")
    if word != "ok":
        path = held.folder.path
        command.complain(NAME, f"{found.packet_id}: {word}: {mask.text(reason or '')}; see {path}")
    command.emit(written)
    return status


def _refuse(this: Run, refusal: Fault) -> None:
    """Leave the receipt of a refusal, unless one of a run stands there."""
    run.fill(this)
    row = this.record
    row["outcome"], row["reason"] = refusal.outcome, f"{refusal.subject}: {refusal.message}"
    row["state"] = "receipted"
    row["refusals"].append(row["reason"])
    from waybill.packet import generation, receipt

    found = receipt.build(
        this.packet,
        row,
        verdict=receipt.error_verdict(row["reason"]),
        excerpts=[],
        mask=this.mask,
        at=clock.now(),
    )
    if not record.ran(this.held.record):
        this.held.drop_claim()
        generation.write(this.held, this.masked(), found, "dispatch")
    command.emit(found)


def _unstored(this: Run, broken: Fault) -> None:
    """Print what is known of a run whose records could not all be kept; nothing is hidden."""
    row = this.record
    row["outcome"], row["reason"] = "store_error", f"{broken.subject}: {broken.message}"
    from waybill.packet import receipt

    known = receipt.build(
        this.packet,
        row,
        verdict=receipt.error_verdict(row["reason"]),
        excerpts=[],
        mask=this.mask,
        at=clock.now(),
    )
    command.emit(known)


@contextmanager
def _rehearsal(asked: Asked, played: dict[str, Any] | None, this: Run) -> Iterator[dict[str, str]]:
    """The environment to dispatch under: ours, or one that leads to a scripted model."""
    if played is None or asked.rehearse is None:
        yield dict(os.environ)
        return
    with stage.rehearse(asked.rehearse, played, this.record["run_id"]) as (ambient, rehearsing):
        this.rehearsing = rehearsing
        yield ambient


def _plan(orders: Orders, found: Packet, drawn: Boundary, said: Invocation) -> int:
    """What a dispatch would do, on stdout; the same outcome, status and message."""
    ready = Ready()
    refusal: Fault | None = None
    try:
        attempt = rundir.peek(drawn, found, orders.attempt)
        if attempt is None:
            with rundir.hold(drawn) as held:
                return _again(held)
        preflight.check(found, drawn, said, orders.asked, dict(os.environ), ready)
    except Fault as fault:
        refusal = fault
    word = "ok" if refusal is None else refusal.outcome
    plan = {
        "schema_version": "1.0",
        "packet_id": found.packet_id,
        "outcome": word,
        "status": OUTCOMES[word] if word else (refusal.status if refusal else exits.OK),
        "reason": f"{refusal.subject}: {refusal.message}" if refusal else None,
        "run_folder": str(drawn.run_folder),
        "codex": {"path": ready.binary, "version": ready.version, "argv": ready.argv}
        if ready.version
        else None,
        "cwd": str(drawn.cwd),
        "auth": ready.auth.record() if ready.auth else None,
        "prompt": preflight.prompt_digest(ready.prompt),
        "evidence": [{"command": pin.entry, "pinned": pin.sha256} for pin in ready.pins],
        "relaxations": orders.asked.relaxations(),
    }
    command.emit(masking.Mask(os.environ, found.environment).record(plan, spare=("sha256",)))
    if refusal is not None:
        raise refusal
    return exits.OK
