"""Review: an independent verdict on what a run left, and bounded passes to mend it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from waybill.base import clock, command, document, exits, schema
from waybill.base.exits import Fault, fault
from waybill.codex import rollout
from waybill.packet import (
    fixpass,
    generation,
    judging,
    opened,
    preflight,
    receipt,
    run,
    stage,
)
from waybill.packet.judging import Bench, Judged
from waybill.packet.session import Limits, Signals

NAME = "review"
# Outcomes of a run that a judge can say something about, or say it again.
REVIEWABLE = ("ok", "review_unusable", "review_unavailable", "review_stale")
MENDABLE = ("review_rejected", "not_converged")


def review(
    operand: str | None, run_dir: str | None, bench: Bench, rehearse: str | None, fixes: int
) -> int:
    """Judge the run of a receipt and write a new generation of it; the status."""
    with opened.opened(operand, run_dir) as found:
        why = _unreviewable(found, fixes)
        if why is not None:
            return found.pass_on(NAME, *why)
        with (
            _receipt_kept(found),
            _bench(found, bench, rehearse) as sat,
            Signals() as signals,
        ):
            with found.workshop() as workshop:
                here = workshop.snapshot()
            if not found.at_hand(here):
                judged = _stale(found)
            else:
                judged = _rounds(found, sat, signals, fixes)
            return _finish(found, judged, signals)


@contextmanager
def _receipt_kept(found: opened.Opened) -> Iterator[None]:
    """When no judge can be asked, the receipt goes on as it is: the next in a pipe reads it."""
    try:
        yield
    except Fault:
        command.emit(found.receipt)
        raise


def _unreviewable(found: opened.Opened, fixes: int) -> tuple[str, str | None] | None:
    """Why there is nothing for a judge, with the outcome to answer; None when there is."""
    row = found.record
    if found.packet.role != "worker":
        return f"a {found.packet.role}'s run is not judged", None
    if _mendable(row) and fixes:
        return None
    if row["outcome"] not in REVIEWABLE:
        return f"{row['outcome']}: review cannot better it", None
    if row["patch"] is None or not row["patch"]["files"]:
        return "the patch is empty: there is nothing to judge", "review_unusable"
    if row["outcome"] == "ok" and found.receipt["verdict"]["status"] in ("PASS", "WARN"):
        return "has its verdict", None
    if row["thread"] is None or row["thread"]["id"] is None:
        return "the author's thread is unknown: nobody could prove independence", "review_unusable"
    return None


def _mendable(row: dict[str, Any]) -> bool:
    """Whether blockers wait to be mended, also where a pass at them was cut short."""
    cut = bool(row["passes"]) and row["passes"][-1]["outcome"] != "ok"
    return cut or row["outcome"] in MENDABLE


@contextmanager
def _bench(found: opened.Opened, bench: Bench, rehearse: str | None) -> Iterator[Bench]:
    """The bench, seated at a scripted model when this is a rehearsal."""
    asked = replace(found.relaxed, codex=bench.asked.codex, rehearse=rehearse)
    bench = replace(bench, asked=asked)
    author = found.record["model"]["family"]
    if bench.other_family and bench.model and rollout.family(bench.model) == author:
        raise fault(
            "review_unavailable",
            "--judge-family",
            f"{bench.model} is of the author's family, {author}; name a model of another",
        )
    script = stage.script(asked)
    if script is None or rehearse is None:
        yield bench
        return
    from waybill.rehearsal import home

    with stage.rehearse(rehearse, script, f"{found.record['run_id']}-review") as seated:
        ambient, rehearsing = seated
        overrides = tuple(home.overrides(rehearsing.base_url))
        # A scripted judge, or a scripted pass, makes a rehearsal of any run.
        found.record["rehearsal"] = found.record["rehearsal"] or rehearsing.record
        yield replace(bench, ambient=ambient, rehearsing=rehearsing, overrides=overrides)


def _stale(found: opened.Opened) -> Judged:
    reason = "the tree at hand is not the one that the run left"
    return Judged({}, "", "review_stale", reason, None)


def _author(found: opened.Opened) -> str:
    """Whoever wrote last: the thread of the run, or that of the last pass."""
    threads = [row["thread"] for row in found.record["passes"] if row["thread"]]
    return f"codex-thread:{threads[-1] if threads else found.record['thread']['id']}"


def _rounds(found: opened.Opened, bench: Bench, signals: Signals, fixes: int) -> Judged:
    """Judge; while the answer is no and passes are left, mend and judge again."""
    left = fixes
    judged = _last_review(found) if _mendable(found.record) else None
    judged = judged or _judge(found, bench, signals)
    while judged.outcome == "review_rejected" and left:
        left -= 1
        blockers = judged.record["blockers"]
        word, reason, retry, excerpts = fixpass.run(found, bench, signals, blockers)
        _excerpts(found, excerpts)
        if word == "no_work":
            # The tree is the one that was judged: to ask again would be to shop for an answer.
            left = 0
        elif word != "ok":
            return Judged({}, "", word, f"fix pass: {reason}", retry)
        else:
            judged = _judge(found, bench, signals)
    if judged.outcome == "review_rejected" and fixes:
        judged.outcome = "not_converged"
        judged.reason = f"blockers remain after {fixes - left} fix passes: {judged.reason}"
    return judged


def _last_review(found: opened.Opened) -> Judged | None:
    """The last review, to go on from its blockers; None when it cannot be read."""
    rows = found.record["reviews"]
    if not rows:
        return None
    try:
        with (
            found.held.folder.sub("reviews") as reviews,
            reviews.sub(str(rows[-1]["number"])) as folder,
        ):
            data = folder.read(judging.RECORD, 16 << 20) or b""
        row = schema.require("review", document.parse(data, judging.RECORD), judging.RECORD)
    except (OSError, Fault):
        return None
    return Judged(row, rows[-1]["sha256"], "review_rejected", row["reason"], None)


def _judge(found: opened.Opened, bench: Bench, signals: Signals) -> Judged:
    try:
        judged = judging.judge(found, bench, signals, _author(found))
    except Fault as missing:
        if missing.outcome != "launch_failed":
            raise
        said = f"{missing.subject}: {missing.message}"
        return Judged({}, "", "review_unavailable", said, None)
    found.record["reviews"].append(
        {
            "number": judged.record["number"],
            "path": f"reviews/{judged.record['number']}/{judging.RECORD}",
            "sha256": judged.sha256,
            "verdict": judged.record["verdict"],
            "tree": judged.record["tree"],
        }
    )
    if judged.outcome in ("ok", "review_rejected"):
        with found.workshop() as workshop:
            if not found.at_hand(workshop.snapshot()):
                reason = "the tree changed during the review"
                return Judged(judged.record, judged.sha256, "review_stale", reason, None)
    return judged


def _excerpts(found: opened.Opened, excerpts: list[str]) -> None:
    """The receipt's excerpts of the checks are those of the last time they ran."""
    for row, text in zip(found.receipt["commands_run"][1:], excerpts, strict=False):
        row["output_excerpt"] = text


def _verdict(judged: Judged) -> dict[str, Any]:
    row = judged.record
    if judged.outcome not in ("ok", "review_rejected", "not_converged"):
        return receipt.error_verdict(judged.reason or judged.outcome)
    return {
        "status": row["verdict"],
        "judge_source": "codex-review",
        "summary": row["summary"][:500] or row["verdict"],
        "author_id": row["author"],
        "judge_name": row["judge"]["id"],
        "judge_program": row["judge"]["program"],
        "judge_model_family": row["judge"]["family"],
    }


def _finish(found: opened.Opened, judged: Judged, signals: Signals) -> int:
    row = found.record
    row["outcome"], row["reason"], row["retry_at"] = judged.outcome, judged.reason, judged.retry_at
    written = receipt.build(
        found.packet,
        row,
        verdict=_verdict(judged),
        excerpts=[r.get("output_excerpt", "") for r in found.receipt["commands_run"]],
        mask=found.mask,
        at=clock.now(),
    )
    row = found.mask.record(row, spare=run.SPARED)
    generation.write(found.held, row, written, "review")
    verdict = written["verdict"]["status"]
    said = f"{row['outcome']}: {row['reason']}" if row["reason"] else row["outcome"]
    path = found.held.folder.path
    command.complain(NAME, f"{found.packet.packet_id}: {verdict}: {found.mask.text(said)}; {path}")
    command.emit(written)
    return run.status("interrupted" if signals.number else row["outcome"], signals.number)


def main(args: command.Arguments) -> int:
    """The command line of review, read and followed."""
    if args["--judge-family"] not in (None, "other"):
        raise Fault(
            exits.USAGE, "--judge-family", f"{args['--judge-family']!r}: only 'other' is known"
        )
    timeout = command.number(args, "--timeout", least=0.1)
    bench = Bench(
        asked=preflight.Asked(codex=args["--codex"]),
        ambient=dict(os.environ),
        model=args["--model"],
        effort=args["--effort"],
        other_family=args["--judge-family"] == "other",
        limits=Limits(timeout, min(90.0, timeout), timeout),
        rehearsing=None,
    )
    fixes = command.whole(args, "--fix")
    return review(args["RECEIPT"], args["--run-dir"], bench, args["--rehearse"], fixes)
