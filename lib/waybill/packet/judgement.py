"""Whether a receipt may pass, by rules with names. Every reason is reported, not the first.

The rules are pure: they read a receipt, a packet, a run record and digests that were found,
and give reasons. An allowance lifts the reasons that it names, and the judgement says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from waybill.base import masking, schema
from waybill.packet import auth, outcome, receipt
from waybill.packet import verdict as grammar
from waybill.packet.packet import Packet

# What --allow may name, with what it lifts.
KINDS = {
    "rehearsal": "a scripted model took the part of the real one",
    "api-key": "the worker was logged in with an API key",
    "unknown": "the login was not seen",
    "unpinned": "a required command was absent when the run began",
    "trust-project": "Codex was let load the project's own settings",
    "flag": "an unlisted flag was let through",
    "no-run-record": "nothing but the receipt is there to judge by",
}
GOOD = ("PASS", "WARN")

Document = dict[str, Any]


@dataclass(frozen=True)
class Reason:
    """One reason to hold a receipt; `kind` is the allowance that would lift it, if any."""

    rule: str
    path: str
    message: str
    kind: str | None = None


@dataclass
class Bundle:
    """A run's records, as far as they were found beside a receipt."""

    packet: Packet
    record: Document
    reviews: list[Document] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)  # what the files themselves showed


def judge(
    found: Document,
    bundle: Bundle | None,
    *,
    source: str,
    allow: frozenset[str],
    files: bool,
    further: tuple[Reason, ...] = (),
) -> Document:
    """The judgement of one receipt, schema-valid or not."""
    wrong = schema.errors("run-receipt", found)
    if wrong:
        reasons = [Reason("schema", path, words) for path, words in wrong[:20]]
        return _document(found, source, reasons, frozenset(), [])
    reasons = alone(found)
    if bundle is not None:
        reasons += together(found, bundle) + bundle.reasons
    elif files:
        reasons.append(
            Reason(
                "run-record",
                "$",
                "no run record beside it: judged by what the receipt says of itself alone",
                "no-run-record",
            )
        )
    reasons += further
    lifted = sorted({row.kind for row in reasons if row.kind and row.kind in allow})
    if not files:
        lifted.append("no-files")
    return _document(found, source, reasons, allow, lifted)


def _document(
    found: Any, source: str, reasons: list[Reason], allow: frozenset[str], lifted: list[str]
) -> Document:
    held = [row for row in reasons if not (row.kind and row.kind in allow)]

    def named(key: str) -> str | None:
        value = found.get(key) if isinstance(found, dict) else None
        return value if isinstance(value, str) else None

    return {
        "schema_version": "1.0",
        "source": source,
        "receipt_id": named("receipt_id"),
        "packet_id": named("packet_id"),
        "pass": not held,
        "head": None,
        "allowed": lifted,
        "reasons": [
            {"rule": row.rule, "path": row.path, "message": row.message}
            for row in dict.fromkeys(held)
        ],
    }


def alone(found: Document) -> list[Reason]:
    """What a receipt says of itself."""
    reasons = [Reason("semantics", path, words) for path, words in receipt.gaps(found)]
    if found.get("failure_reason"):
        reasons.append(Reason("outcome", "$.failure_reason", found["failure_reason"]))
    if found["timed_out"]:
        reasons.append(Reason("outcome", "$.timed_out", "a limit passed"))
    if found["exit_code"] != 0:
        reasons.append(Reason("outcome", "$.exit_code", f"Codex exited {found['exit_code']}"))
    for index, row in enumerate(found["commands_run"][1:], 1):
        if row["exit_code"] != 0:
            path = f"$.commands_run[{index}].exit_code"
            reasons.append(Reason("evidence", path, f"{row['command']}: {row['exit_code']}"))
    status = found["verdict"]["status"]
    if status not in GOOD:
        said = f"{status}: {found['verdict']['summary']}"
        reasons.append(Reason("verdict", "$.verdict.status", said))
    mode = found["auth_mode"]
    if found["auth_status"] == auth.REHEARSAL:
        reasons.append(Reason("rehearsal", "$.auth_status", KINDS["rehearsal"], "rehearsal"))
    elif mode != "chatgpt-subscription":
        words = KINDS["api-key" if mode == "api-key" else "unknown"]
        reasons.append(Reason("auth", "$.auth_mode", f"{mode}: {words}", mode))
    return reasons


def together(found: Document, bundle: Bundle) -> list[Reason]:
    """Whether packet, run record, reviews and receipt agree."""
    record, packet = bundle.record, bundle.packet
    reasons = _rebuilt(found, bundle)
    if record["rehearsal"] is not None and found["auth_status"] != auth.REHEARSAL:
        reasons.append(Reason("rehearsal", "run.json", KINDS["rehearsal"], "rehearsal"))
    if record["outcome"] != "ok":
        reasons.append(Reason("outcome", "run.json", f"{record['outcome']}: {record['reason']}"))
    if record["state"] not in ("receipted", "recovered"):
        reasons.append(Reason("outcome", "run.json", f"the run is {record['state']}, not ended"))
    for text in record["refusals"]:
        reasons.append(Reason("outcome", "run.json", text))
    reasons += _evidence(found, packet, record)
    for text in record["relaxations"]:
        word = text.split()[0]
        kind = {"allow-flag": "flag", "trust-project": "trust-project"}.get(word)
        if kind:
            reasons.append(Reason("relaxation", "run.json", text, kind))
    return reasons + _judges(found, bundle)


def _rebuilt(found: Document, bundle: Bundle) -> list[Reason]:
    """The receipt is what its packet and its run record make, word for word."""
    mask = masking.Mask(bundle.packet.environment)
    expected = receipt.build(
        bundle.packet,
        bundle.record,
        verdict=found["verdict"],
        excerpts=[row.get("output_excerpt", "") for row in found["commands_run"]],
        mask=mask,
        at=0.0,
    )
    ran = bundle.record["timing"]["started"] is not None
    untold = () if ran else ("started_at", "ended_at", "stdin")
    return [
        Reason("agreement", f"$.{key}", "is not what packet.json and run.json say")
        for key in dict.fromkeys([*expected, *found])
        if key not in untold and expected.get(key) != found.get(key)
    ]


def _evidence(found: Document, packet: Packet, record: Document) -> list[Reason]:
    reasons = []
    told = [row["command"] for row in found["commands_run"][1:]]
    for entry in packet.required_commands:
        if entry not in told:
            reasons.append(
                Reason("evidence", "$.commands_run", f"no evidence of the required {entry}")
            )
    for row in record["evidence"]:
        if row["outcome"] != "ok":
            said = row["reason"] or f"exit {row['exit_code']}"
            reasons.append(Reason("evidence", "run.json", f"{row['command']}: {said}"))
        if row["pinned"] is None:
            said = f"{row['command']}: {KINDS['unpinned']}"
            reasons.append(Reason("relaxation", "run.json", said, "unpinned"))
        elif row["found"] not in (None, row["pinned"]):
            reasons.append(Reason("evidence", "run.json", f"{row['command']}: lost its pin"))
    return reasons


def _judges(found: Document, bundle: Bundle) -> list[Reason]:
    """The verdict is that of the last review, which is of this tree and by another."""
    record, said = bundle.record, found["verdict"]
    if said["status"] not in grammar.JUDGED:
        return []
    if said["judge_source"] != "codex-review":
        if bundle.packet.role in outcome.REVIEWERS:
            return []
        return [Reason("identity", "$.verdict.judge_source", "no review: the author's own word")]
    if not bundle.reviews:
        return [Reason("verdict", "$.verdict", "no review record bears it out")]
    last, tree = bundle.reviews[-1], record["tree"]
    reasons = []
    pairs = (
        ("status", last["verdict"]),
        ("author_id", last["author"]),
        ("judge_name", last["judge"]["id"]),
        ("judge_program", last["judge"]["program"]),
        ("judge_model_family", last["judge"]["family"]),
    )
    for key, value in pairs:
        if said.get(key) != value:
            reasons.append(Reason("identity", f"$.verdict.{key}", "is not what the review says"))
    if tree is None or last["tree"] != tree["result_tree"]:
        reasons.append(Reason("tree", "reviews", "the verdict is about another tree"))
    if record["patch"] is None or last["patch_sha256"] != record["patch"]["sha256"]:
        reasons.append(Reason("tree", "reviews", "the verdict is about another patch"))
    threads = [record["thread"]["id"]] if record["thread"] else []
    threads += [row["thread"] for row in record["passes"]]
    if last["judge"]["id"] in [f"codex-thread:{ident}" for ident in threads if ident]:
        reasons.append(Reason("identity", "$.verdict.judge_name", "the judge is the author"))
    return reasons
