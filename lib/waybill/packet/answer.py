"""What Codex answered and left: its verdict, its claims, its artifacts, its fit to a schema."""

from __future__ import annotations

from typing import Any

from waybill.base import document
from waybill.base.exits import Fault
from waybill.packet import outcome, receipt
from waybill.packet import verdict as grammar

MOST_CLAIM = 4000  # characters of a message that the record keeps as a claim
EXCERPT = 500  # characters of the final message that a receipt shows

# Outcomes that stopped a run before a judge could speak.
BEFORE_A_JUDGE = frozenset(
    "agent_failed launch_failed model_unavailable store_error quota already_running"
    " incomplete_stream session_lost auth refused config_error timeout_wall timeout_idle"
    " interrupted".split()
)


def verdict(
    role: str, message: str | None, facts: outcome.Facts, record: dict[str, Any], *, stream: bool
) -> dict[str, Any]:
    """The verdict of the receipt; facts and claims are filled on the way.

    Only a validator or a reviewer speaks one. What a worker says of its own work is a claim.
    """
    text = message or ""
    if role not in outcome.REVIEWERS:
        if grammar.read(text).status != grammar.NO_VERDICT:
            record["claims"].append({"kind": "verdict", "text": text[:MOST_CLAIM]})
            return receipt.no_verdict("a worker's verdict on its own work is a claim")
        if text and not facts.changed:
            record["claims"].append({"kind": "message", "text": text[:MOST_CLAIM]})
        return receipt.no_verdict("nobody has judged this run")
    found = grammar.judge(text, facts.commands if stream else None)
    failed = any(row["outcome"] != "ok" for row in facts.evidence)
    if failed and found.status in ("PASS", "WARN"):
        found.status, found.reason = "ERROR", "a good verdict beside failed evidence"
    facts.verdict, facts.verdict_reason = found.status, found.reason
    said: dict[str, Any] = {
        "status": found.status,
        "judge_source": "codex-final-message",
        "summary": found.reason[:500],
    }
    if found.status in grammar.JUDGED:
        said |= {
            "author_id": found.identity["author"],
            "judge_name": found.identity["judge"],
            "judge_program": found.identity["program"],
            "judge_model_family": found.identity["family"].lower(),
        }
    return said


def unfit(message: str | None, schema: Any) -> str | None:
    """Why an answer does not match the schema asked for; None when it does or none was."""
    if schema is None:
        return None
    if not message:
        return "the answer is absent, and a schema was asked for"
    import jsonschema
    from referencing import Registry

    try:
        found = document.parse(message.encode(), "answer")
    except Fault as fault:
        return f"the answer does not match the schema: {fault.message}"
    try:
        # An empty registry: a reference must not fetch a file or a page.
        validator = jsonschema.Draft202012Validator(schema, registry=Registry())
        wrong = jsonschema.exceptions.best_match(validator.iter_errors(found))
    except Exception as error:  # a reference that leads nowhere, a pattern that is none
        return f"the schema cannot be applied: {str(error)[:200]}"
    if wrong is None:
        return None
    return f"the answer does not match the schema: {wrong.json_path}: {wrong.message[:200]}"


def excerpt(message: str | None, facts: outcome.Facts) -> str:
    """What the receipt shows of Codex: its last message, or why there is none."""
    text = (message or facts.error or facts.last_error or facts.headline or "").strip()
    return text if len(text) <= EXCERPT else text[:EXCERPT] + " […]"
