"""The conclusion of a run: its facts, its outcome, and its receipt in the run folder."""

from __future__ import annotations

import signal
from typing import Any

from waybill.base import clock
from waybill.base.exits import Fault
from waybill.packet import answer, capture, generation, outcome, receipt
from waybill.packet.answer import excerpt
from waybill.packet.run import Run
from waybill.packet.session import Session

__all__ = ["conclude", "excerpt", "facts", "name"]


def facts(
    run: Run, session: Session, streams: capture.Streams, message: str | None
) -> outcome.Facts:
    """The facts as far as Codex's own end tells them."""
    reader, work = session.reader, session.reader.work
    resumed, ident = run.packet.resumes, session.reader.thread_id
    return outcome.Facts(
        role=run.packet.role,
        writable=run.packet.writable,
        stream=run.stream,
        exit_code=session.exit_code,
        signal=session.signal,
        limit=session.limit,
        limit_seconds=run.record["limits"].get(f"{session.limit}_seconds", 0),
        interrupted=_stopper(session),
        turn=reader.turn,
        error=reader.error,
        error_code=reader.error_code,
        last_error=reader.last_error,
        recognised=reader.recognised,
        headline=streams.headline(),
        resumed=resumed,
        thread=ident,
        thread_lost=bool(resumed and ident and ident.lower() != resumed.lower()),
        deferred=run.asked.defer_evidence and bool(run.ready.pins),
        allow_no_change=run.asked.allow_no_change,
        message=message,
        message_unfit=answer.unfit(message, run.ready.answer_schema),
        sandbox_failed=bool(work.commands_count and work.sandbox_failed == work.commands_count),
        commands=[str(row.get("command") or "") for row in work.commands],
    )


def _stopper(session: Session) -> str | None:
    return name(session.interrupted) or ("the death of the guard" if session.lost else None)


def name(number: int | None) -> str | None:
    """The name of a signal, without SIG."""
    return signal.Signals(number).name.removeprefix("SIG") if number else None


def conclude(
    run: Run, facts: outcome.Facts, message: str | None, stream: bool, excerpts: list[str]
) -> dict[str, Any]:
    """Decide the outcome and write the receipt; a receipt that cannot be stored says so."""
    record = run.record
    facts.evidence = record["evidence"]
    facts.changed = len(record["patch"]["files"]) if record["patch"] else 0
    facts.refusals = record["refusals"]
    facts.artifacts_missing = [row["path"] for row in record["artifacts"] if not row["sha256"]]
    judged = answer.verdict(run.packet.role, message, facts, record, stream=stream)
    record["outcome"], record["reason"], record["retry_at"] = outcome.decide(facts)
    if record["outcome"] not in ("ok", "review_rejected") and judged["status"] != "NO_VERDICT":
        judged = receipt.error_verdict(record["reason"] or judged["summary"])
    if record["outcome"] in answer.BEFORE_A_JUDGE:
        judged = receipt.error_verdict(record["reason"] or "")
    record["state"] = "receipted"
    found = receipt.build(
        run.packet,
        record,
        verdict=judged,
        excerpts=excerpts,
        mask=run.mask,
        at=clock.now(),
    )
    try:
        generation.write(run.held, run.masked(), found, "dispatch")
    except Fault as broken:
        found["failure_reason"] = (
            f"store_error: {broken.message}; the run's own outcome is {record['outcome']}"
        )
        found["verdict"] = receipt.error_verdict(found["failure_reason"])
        record["outcome"] = "store_error"
        run.ready.warnings.append(str(broken))
    return found
