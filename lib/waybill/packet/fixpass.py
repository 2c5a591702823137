"""A fix pass: the worker's Codex once more, with the blockers of a judge as its task.

It runs under the packet's own sandbox, limits and checks, into passes/<n>/; the patch that it
leaves takes the base to the new result, like the one before it, which is kept beside it.
"""

from __future__ import annotations

import secrets
from typing import Any

from waybill.base.files import Folder, storing
from waybill.packet import (
    capture,
    judging,
    observe,
    opened,
    outcome,
    preflight,
    reviewer,
    verification,
)
from waybill.packet import session as codex_session
from waybill.packet.boundary import BASE_PATCH, FINAL, PROMPT, WORK_PATCH
from waybill.packet.preflight import Ready
from waybill.packet.session import Signals

# Outcome, reason, when to try again, and the excerpts of the checks.
Passed = tuple[str, str | None, str | None, list[str]]


def run(
    found: opened.Opened, bench: judging.Bench, signals: Signals, blockers: list[str]
) -> Passed:
    """One pass; record and patch are updated."""
    number = len(found.record["passes"]) + 1
    with (
        storing(str(found.held.folder.path)),
        found.held.folder.sub("passes") as passes,
        passes.sub(str(number)) as folder,
    ):
        for name in folder.names():
            folder.remove(name)
        prompt = reviewer.fix(
            nonce=secrets.token_hex(8),
            objective=found.packet.document["objective"],
            stop_condition=found.packet.document["stop_condition"],
            blockers=blockers,
        )
        ready = Ready(prompt=prompt.text.encode())
        argv = _argv(found, folder)
        said = found.packet.invocation(found.relaxed.allow_flags)
        preflight.codex(
            found.packet, found.boundary.cwd, argv, said, bench.asked, bench.ambient, ready
        )
        return _run(found, bench, signals, number, folder, ready)


def _argv(found: opened.Opened, folder: Folder) -> list[str]:
    """The packet's command as a new thread, its final message into the pass's folder."""
    argv = found.packet.argv
    if "resume" in argv[2:]:
        at = argv.index("resume", 2)
        argv = argv[:at] + argv[at + 2 :]
    for index, word in enumerate(argv):
        if word == "--output-last-message":
            argv[index + 1] = str(folder.path / FINAL)
        elif word.startswith("--output-last-message="):
            argv[index] = f"--output-last-message={folder.path / FINAL}"
    return argv


def _run(
    found: opened.Opened,
    bench: judging.Bench,
    signals: Signals,
    number: int,
    folder: Folder,
    ready: Ready,
) -> Passed:
    record, limits = found.record, found.record["limits"]
    folder.replace(PROMPT, ready.prompt or b"")
    streams = capture.Streams.open(
        folder, folder.path / "events.jsonl", folder.path / FINAL, prompt=True
    )
    stream = found.packet.invocation(found.relaxed.allow_flags).json
    try:
        session = codex_session.run(
            ready.argv,
            cwd=found.boundary.cwd,
            environment=ready.environment,
            prompt=streams.prompt,
            events=streams.events,
            stderr=streams.stderr,
            limits=codex_session.Limits(
                limits["wall_seconds"],
                limits["start_seconds"],
                limits["idle_seconds"],
                limits["grace_seconds"],
            ),
            stream=stream,
            signals=signals,
            started=lambda _: None,
            spare={bench.rehearsing.pid} if bench.rehearsing else set(),
        )
        streams.sync()
        message, _ = streams.final_message(session, stream=stream)
        headline = streams.headline()
    finally:
        streams.close()
    with found.workshop() as workshop:
        before = record["tree"]["result_tree"]
        base = workshop.replay([found.held.folder.path / BASE_PATCH])
        _keep_patch(found, folder)
        tree = observe.result(record, workshop, found.held.folder, base, WORK_PATCH)
        excerpts: list[str] = []
        stopped = session.limit or session.interrupted or session.lost
        if record["evidence"] and not stopped:
            excerpts = verification.rerun(found, workshop, tree, signals, confine=False)
        else:
            record["tree"]["after_evidence"] = None
    facts = _facts(found, session, headline, message, limits)
    facts.changed = int(tree != before)
    word, reason, retry = outcome.decide(facts)
    record["passes"].append(
        {
            "number": number,
            "path": f"passes/{number}",
            "thread": session.reader.thread_id,
            "outcome": word,
            "result_tree": tree,
        }
    )
    return word, reason, retry, excerpts


def _keep_patch(found: opened.Opened, folder: Folder) -> None:
    """The patch as it was before this pass, beside what the pass did."""
    with storing(f"{folder.path}/before.patch"):
        found.held.folder.move(WORK_PATCH, folder, "before.patch")


def _facts(
    found: opened.Opened,
    session: codex_session.Session,
    headline: str | None,
    message: str | None,
    limits: dict[str, Any],
) -> outcome.Facts:
    reader = session.reader
    facts = found.facts()
    facts.exit_code, facts.signal = session.exit_code, session.signal
    facts.limit = session.limit
    facts.limit_seconds = limits.get(f"{session.limit}_seconds", 0)
    facts.interrupted = "a signal" if session.interrupted else None
    facts.turn, facts.error, facts.error_code = reader.turn, reader.error, reader.error_code
    facts.last_error, facts.recognised = reader.last_error, reader.recognised
    facts.headline, facts.message = headline, message
    facts.evidence = found.record["evidence"]
    return facts
