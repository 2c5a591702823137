"""What a run came to: one word, one sentence, decided from facts alone.

Several things can be true of one run; the first in the published order is its outcome, and
the others stay in the record.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

REVIEWERS = ("validator", "reviewer")
DEFERRED = "deferred: run verify"  # the reason of a run whose commands were put off on request


@dataclass
class Facts:
    """Everything that decides, as measured."""

    role: str
    writable: bool
    stream: bool  # an event stream was asked for
    exit_code: int | None = 0
    signal: int | None = None
    limit: str | None = None
    limit_seconds: float = 0
    interrupted: str | None = None  # by what
    turn: str = "completed"
    error: str | None = None
    error_code: str | None = None
    last_error: str | None = None
    recognised: int = 1
    headline: str | None = None  # the last meaningful line of stderr
    refusals: list[str] = field(default_factory=list)
    resumed: str | None = None
    thread: str | None = None
    thread_lost: bool = False
    evidence: list[dict[str, Any]] = field(default_factory=list)
    deferred: bool = False
    changed: int = 0
    artifacts_missing: list[str] = field(default_factory=list)
    artifacts_made: int = 0
    allow_no_change: bool = False
    message: str | None = None
    message_unfit: str | None = None
    commands: list[str] = field(default_factory=list)
    sandbox_failed: bool = False  # every command failed because the sandbox could not start
    verdict: str = "NO_VERDICT"
    verdict_reason: str = ""


Answer = tuple[str, str | None, str | None]  # outcome, reason, retry_at


def decide(facts: Facts) -> Answer:
    """The outcome, why, and when to try again where the source said so."""
    for rule in (_refused, _limits, _turn, _evidence, _work, _judged):
        found = rule(facts)
        if found is not None:
            return found
    return "ok", None, None


def _refused(facts: Facts) -> Answer | None:
    return ("refused", facts.refusals[0], None) if facts.refusals else None


def _limits(facts: Facts) -> Answer | None:
    if facts.limit == "wall":
        return "timeout_wall", f"wall clock of {facts.limit_seconds:g} s passed", None
    if facts.limit == "idle":
        return "timeout_idle", f"no progress for {facts.limit_seconds:g} s", None
    if facts.interrupted:
        return "interrupted", f"stopped by {facts.interrupted}", None
    if facts.limit == "start":
        return (
            "launch_failed",
            f"no event within {facts.limit_seconds:g} s; a stdin that stays open is the usual"
            " cause, and this one was closed",
            None,
        )
    return None


def _turn(facts: Facts) -> Answer | None:
    if facts.thread_lost:
        return "session_lost", f"asked for {facts.resumed}, answered by {facts.thread}", None
    if not facts.stream:
        return _without_stream(facts)
    if facts.turn == "failed":
        return _failure(facts.error or "the turn failed", facts.error_code)
    if facts.turn == "completed":
        if facts.exit_code == 0:
            return None
        return "agent_failed", f"the turn completed, but {_ended(facts)}", None
    said = facts.last_error or facts.headline
    if said is not None and facts.exit_code != 0:
        found = _failure(said, None)
        if found[0] != "agent_failed":
            return found
    event = "no event" if not facts.recognised else "no terminal event"
    reason = f"the stream holds {event}, and {_ended(facts)}"
    return "incomplete_stream", f"{reason}: {said}" if said else reason, None


def _without_stream(facts: Facts) -> Answer | None:
    if facts.exit_code == 0:
        return None
    return _failure(facts.headline or _ended(facts), None)


def _failure(text: str, code: str | None) -> Answer:
    from waybill.codex import failure

    found = failure.classify(text, code)
    return found.outcome, found.sentence, found.retry_at


def _ended(facts: Facts) -> str:
    if facts.exit_code is not None:
        return f"Codex exited {facts.exit_code}"
    return f"Codex was ended by signal {facts.signal}"


def _evidence(facts: Facts) -> Answer | None:
    if facts.deferred:
        return "verify_not_run", DEFERRED, None
    for outcome, said in (("verify_failed", "failed"), ("verify_not_run", "was not run")):
        for row in facts.evidence:
            if row["outcome"] == outcome:
                detail = row["reason"] or f"exit {row['exit_code']}"
                return outcome, f"{row['command']} {said}: {detail}", None
    return None


def _work(facts: Facts) -> Answer | None:
    if facts.sandbox_failed:
        return "no_work", "every command failed because the sandbox could not start", None
    if facts.role == "worker" and facts.writable:
        if facts.artifacts_missing:
            return "no_work", f"artifact not there: {facts.artifacts_missing[0]}", None
        if not (facts.changed or facts.artifacts_made or facts.allow_no_change):
            return "no_work", "the turn completed, and no file was changed", None
    elif not (facts.message or "").strip():
        return "no_work", "the turn completed without a final message", None
    if facts.message_unfit:
        kind = "review_unusable" if facts.role in REVIEWERS else "no_work"
        return kind, facts.message_unfit, None
    return None


def _judged(facts: Facts) -> Answer | None:
    if facts.role not in REVIEWERS or facts.verdict in ("PASS", "WARN"):
        return None
    if facts.verdict == "FAIL":
        return "review_rejected", facts.verdict_reason or "the verdict is FAIL", None
    return "review_unusable", facts.verdict_reason, None
