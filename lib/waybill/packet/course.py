"""The course of one run, from the claim to the receipt.

Each step leaves on disk what it found before the next begins, so that whatever dies, what was
done can be told: prepared, running, exited, evidenced, receipted.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from waybill.base import canonical
from waybill.base.exits import Fault
from waybill.base.files import storing
from waybill.codex import usage
from waybill.packet import (
    artifacts,
    capture,
    checks,
    environment,
    observe,
    rundir,
)
from waybill.packet import session as codex_session
from waybill.packet.boundary import BASE_PATCH, CLAIM, PACKET, PROMPT, WORK_PATCH
from waybill.packet.run import SCRATCH, Run, ended, fill
from waybill.packet.session import Session, Signals
from waybill.tree.workshop import Workshop


def execute(run: Run) -> tuple[dict[str, Any], int]:
    """Run the packet to its receipt; the receipt and the status to exit with."""
    fill(run)
    _prepare(run)
    home = observe.codex_home(run.ready.environment)
    before = observe.baseline(home, run.packet.resumes)
    with Signals() as signals, _scratch(run) as workshop:
        base_tree = _base(run, workshop)
        said = run.packet.invocation(run.asked.allow_flags)
        streams = capture.Streams.open(
            run.held.folder,
            run.boundary.events,
            run.boundary.final_message,
            prompt=run.ready.prompt is not None,
        )
        before_it = artifacts.identities(run.boundary)
        confinement = _confinement(run)
        try:
            session = _launch(run, streams, signals)
            from waybill.packet import conclusion

            message = _collect(run, streams, session, home, before)
            facts = conclusion.facts(run, session, streams, message)
            _tampered(run, streams, session)
            _result(run, workshop, base_tree)
            run.record["artifacts"], made = artifacts.rows(run.boundary, before_it)
            run.record["state"] = "exited"
            run.save()
            excerpts = [conclusion.excerpt(message, facts)]
            excerpts += _evidence(run, workshop, session, signals, confinement)
        finally:
            streams.close()
            if confinement:
                confinement.close()
        run.record["warnings"] += workshop.warnings + streams.warnings
        run.interrupted = session.interrupted or signals.number
        facts.interrupted = facts.interrupted or conclusion.name(run.interrupted)
        facts.artifacts_made = made
        found = conclusion.conclude(run, facts, message, said.json, excerpts)
    return found, ended(run.record, run.interrupted)


def _prepare(run: Run) -> None:
    held, record = run.held, run.record
    outside = [
        path
        for path in (run.boundary.final_message, run.boundary.events)
        if path.parent != held.folder.path
    ]
    prompt = held.folder.path / PROMPT
    if record["attempt"] == 1 and run.boundary.prompt != prompt:
        outside.append(prompt)  # not the one that this packet names
    held.set_aside(record["attempt"] - 1, outside)
    claim = held.make_claim(record)
    with storing(str(held.folder.path)):
        held.folder.replace(PACKET, run.packet.data)
        if run.ready.prompt is not None:
            held.folder.replace(PROMPT, run.ready.prompt)
    run.kept = {PACKET: canonical.digest(run.packet.data), CLAIM: canonical.digest(claim)}
    if run.ready.prompt is not None:
        run.kept[PROMPT] = canonical.digest(run.ready.prompt)


@contextmanager
def _scratch(run: Run) -> Iterator[Workshop]:
    """A workshop whose private files lie in the run folder while the run lasts."""
    assert run.ready.repository is not None
    path = run.held.folder.path / SCRATCH
    shutil.rmtree(path, ignore_errors=True)
    with Workshop(
        run.ready.repository, path, [*run.boundary.own(), path], env=run.ready.environment
    ) as workshop:
        yield workshop
    shutil.rmtree(path, ignore_errors=True)


def _base(run: Run, workshop: Workshop) -> str:
    found = run.ready.repository
    assert found is not None
    tree = workshop.snapshot()
    commit = found.base_commit
    committed = workshop.base_tree_of_commit(commit) if commit else None
    row = observe.patch(
        workshop, run.held.folder, BASE_PATCH, None if committed is None else committed, tree
    )
    run.record["tree"] = {
        "kind": found.kind,
        "top": found.top,
        "git_dir": found.git_dir,
        "object_format": found.object_format,
        "base_commit": commit,
        "base_tree": tree,
        "result_tree": None,
        "after_evidence": None,
        "base_patch": row,
        "ignored": [],
    }
    run.save()
    return tree


def _confinement(run: Run) -> checks.Confinement | None:
    if not (run.asked.confine_evidence and run.ready.pins):
        return None
    assert run.ready.binary is not None
    return checks.Confinement(run.ready.binary, run.boundary.cwd, writable=run.packet.writable)


def _launch(run: Run, streams: capture.Streams, signals: Signals) -> Session:
    def started(session: Session) -> None:
        observe.started(run.record, session, run.packet.stdin_mode)
        run.save()
        # Only the end of the run needs it, so it is loaded while Codex starts.
        from waybill.packet import conclusion  # noqa: F401

    return codex_session.run(
        run.ready.argv,
        cwd=run.boundary.cwd,
        environment=run.ready.environment,
        prompt=streams.prompt,
        events=streams.events,
        stderr=streams.stderr,
        limits=run.limits,
        stream=run.stream,
        signals=signals,
        started=started,
        spare={run.rehearsing.pid} if run.rehearsing else set(),
    )


def _collect(
    run: Run,
    streams: capture.Streams,
    session: Session,
    home: Path,
    before: usage.Usage | None,
) -> str | None:
    with storing(str(streams.events_path)):
        streams.sync()
        run.record["events"], run.record["stderr"] = capture.stream_rows(streams, session)
    observe.ended(run.record, session)
    observe.thread(run.record, session, home, run.packet.resumes, before, stream=run.stream)
    message, run.record["final_message"] = streams.final_message(session, stream=run.stream)
    return message


def _tampered(run: Run, streams: capture.Streams, session: Session) -> None:
    """What must not have changed while the worker could write."""
    record = run.record
    for name, digest in run.kept.items():
        try:
            data = run.held.folder.read(name, rundir.MOST_BYTES)
        except OSError:
            data = None
        if data is None or canonical.digest(data) != digest:
            record["refusals"].append(f"{name} was changed during the run")
    if not streams.events_in_place():
        record["refusals"].append("the event file was replaced during the run")
    elif record["events"]["sha256"] != session.seen.hexdigest():
        record["refusals"].append("the event file was rewritten during the run")
    if not run.held.folder.in_place():
        record["refusals"].append("the run folder was moved or replaced during the run")
    effective = record["sandbox"]["effective"]
    if effective not in (None, run.packet.sandbox):
        record["refusals"].append(f"the sandbox in force was {effective}, not {run.packet.sandbox}")


def _result(run: Run, workshop: Workshop, base_tree: str) -> None:
    """Take the result. Who moves the run folder away takes the private git dir with it."""
    try:
        observe.result(run.record, workshop, run.held.folder, base_tree, WORK_PATCH)
    except Fault as broken:
        if not run.record["refusals"]:
            raise
        run.record["warnings"].append(f"no patch was made: {broken}")


def _evidence(
    run: Run,
    workshop: Workshop,
    session: Session,
    signals: Signals,
    confinement: checks.Confinement | None,
) -> list[str]:
    record, pins = run.record, run.ready.pins
    confined = confinement is not None
    reason = None
    if session.limit:
        reason = f"the {session.limit} limit ended the run"
    elif session.interrupted or session.lost:
        reason = "the run was interrupted"
    elif run.asked.defer_evidence:
        reason = "deferred"
    elif record["patch"] is None:
        reason = "the run was refused"
    tree = record["tree"]["result_tree"]
    if reason is not None or not pins:
        record["evidence"] = checks.skipped(pins, reason or "", confined=confined)
        return []
    with storing(f"{run.held.folder.path}/evidence"), run.held.folder.sub("evidence") as folder:
        record["evidence"], excerpts, last = checks.run(
            pins,
            cwd=run.boundary.cwd,
            environment=environment.evidence(run.ready.environment),
            folder=folder,
            limit=run.packet.wall_seconds,
            grace=run.limits.grace,
            workshop=workshop,
            tree=tree,
            confinement=confinement,
            stopped=lambda: signals.number is not None,
        )
    record["tree"]["after_evidence"] = last if last != tree else None
    record["state"] = "evidenced"
    run.save()
    return excerpts
