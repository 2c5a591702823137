"""Verification: the required commands of a run that has been, or one check by itself."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from waybill.base import canonical, clock, command, document, exits, schema
from waybill.base.exits import OUTCOMES, Fault, fault
from waybill.base.files import storing
from waybill.packet import (
    checks,
    environment,
    evidence,
    generation,
    opened,
    receipt,
    recovery,
)
from waybill.packet.evidence import Pin
from waybill.packet.session import Signals
from waybill.tree import repository
from waybill.tree.workshop import Workshop

NAME = "verify"
BETTERED = ("verify_not_run", "verify_failed")
GRACE = 5.0  # seconds


def verify(operand: str | None, run_dir: str | None, *, confine: bool) -> int:
    """Run a run's required commands and write a new generation of its receipt."""
    with opened.opened(operand, run_dir) as found:
        row = found.record
        if row["outcome"] not in BETTERED or not row["evidence"]:
            return found.pass_on(NAME, f"{row['outcome']}: verify cannot better it")
        with found.workshop() as workshop, Signals() as signals:
            tree = workshop.snapshot()
            if not found.at_hand(tree):
                return found.pass_on(
                    NAME, "the tree has changed since the run: not verified", "verify_not_run"
                )
            excerpts = rerun(found, workshop, tree, signals, confine=confine)
        return _write(found, excerpts, signals)


def rerun(
    found: opened.Opened, workshop: Workshop, tree: str, signals: Signals, *, confine: bool
) -> list[str]:
    """Run the commands by the pins of the launch; rows into the record, excerpts returned."""
    row, asked = found.record, found.relaxed
    pins = [Pin(r["command"], r["command"].split(), r["pinned"]) for r in row["evidence"]]
    given = environment.evidence(
        environment.worker(os.environ, found.packet.environment, asked.pass_env)
    )
    confinement = None
    with ExitStack() as stack:
        if confine or asked.confine_evidence:
            if row["codex"] is None:
                raise fault("config_error", "--confine-evidence", "the run names no Codex")
            confinement = checks.Confinement(
                row["codex"]["path"], found.boundary.cwd, writable=found.packet.writable
            )
            stack.callback(confinement.close)
            confinement.require(given)
        with storing(f"{found.held.folder.path}/evidence"):
            folder = stack.enter_context(found.held.folder.sub("evidence"))
        row["evidence"], excerpts, last = checks.run(
            pins,
            cwd=found.boundary.cwd,
            environment=given,
            folder=folder,
            limit=found.packet.wall_seconds,
            grace=GRACE,
            workshop=workshop,
            tree=tree,
            confinement=confinement,
            stopped=lambda: signals.number is not None,
        )
    row["tree"]["after_evidence"] = last if last != row["tree"]["result_tree"] else None
    return excerpts


def _write(found: opened.Opened, excerpts: list[str], signals: Signals) -> int:
    row = found.record
    session = recovery.replay(found.boundary.events)
    facts = found.facts(session.reader)
    judged = opened.judged(found, facts)
    opened.settled(found, facts)
    if signals.number is not None:
        row["outcome"], row["reason"] = "verify_not_run", "interrupted"
    first = found.receipt["commands_run"][0].get("output_excerpt", "")
    written = receipt.build(
        found.packet,
        row,
        verdict=judged,
        excerpts=[first, *excerpts],
        mask=found.mask,
        at=clock.now(),
    )
    generation.write(found.held, row, written, "verify")
    if row["outcome"] != "ok":
        said = found.mask.text(f"{row['outcome']}: {row['reason']}")
        command.complain(NAME, f"{found.packet.packet_id}: {said}; see {found.held.folder.path}")
    command.emit(written)
    if signals.number is not None:
        return 128 + signals.number
    return OUTCOMES[row["outcome"]]


def structured(rows: list[dict[str, Any]], *, bound: int, grace: float, log: str | None) -> int:
    """Run checks that belong to no run, a JSON line for each; the worst status."""
    worst = exits.OK
    for row in rows:
        result = _one(row, bound, grace, log)
        found = schema.errors("verification-result", result)
        if found:
            raise AssertionError(f"verification result breaks its schema: {found[:3]}")
        command.emit_line(result)
        said = result["reason"] or f"exit {result['exit_code']}"
        if result["outcome"] != "ok":
            command.complain(NAME, f"{row['program']}: {result['outcome']}: {said}")
        # The worst of several wins: a check that was not run proves less than one that failed.
        worst = max(worst, OUTCOMES[result["outcome"]])
    return worst


def listed(path: str, cwd: str | None, timeout: float) -> list[dict[str, Any]]:
    """The checks of a list file, with the command line's folder and limit where it has none."""
    found, subject, _ = document.read(path, yaml=True)
    schema.require("verification-list", found, subject)
    base = Path(cwd or ".")
    return [
        {
            "program": row["program"],
            "args": row.get("args", []),
            "cwd": str(base / row.get("cwd", ".")),
            "timeout": row.get("timeout", timeout),
        }
        for row in found
    ]


def _one(row: dict[str, Any], bound: int, grace: float, log: str | None) -> dict[str, Any]:
    cwd = Path(row["cwd"]).absolute()
    words = [row["program"], *row["args"]]
    given = environment.evidence(environment.worker(os.environ, {}))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, ExitStack() as stack:
        workshop = _workshop(cwd, stack)
        before = workshop.snapshot() if workshop else None
        if not os.path.isdir(cwd):
            check = evidence.not_run(f"no such folder: {cwd}")
        else:
            check = evidence.run(
                words,
                cwd=cwd,
                environment=given,
                stdout=out.fileno(),
                stderr=err.fileno(),
                limit=row["timeout"],
                grace=grace,
            )
        changed = None
        if workshop and before:
            after = workshop.snapshot()
            changed = [] if after == before else [r.path for r in workshop.changed(before, after)]
        stdout, stderr = _tail(out.fileno(), bound), _tail(err.fileno(), bound)
        kept = _log(log, [out.fileno(), err.fileno()]) if log else None
    return {
        "schema_version": "1.0",
        "command": words,
        "cwd": str(cwd),
        "exit_code": check.exit_code,
        "signal": check.signal,
        "timed_out": check.timed_out,
        "seconds": round(check.seconds, 3),
        "stdout": stdout[0],
        "stderr": stderr[0],
        "truncated": {"stdout": stdout[1], "stderr": stderr[1]},
        "log": kept,
        "outcome": check.outcome,
        "reason": check.reason,
        "changed_files": changed,
    }


def _workshop(cwd: Path, stack: ExitStack) -> Workshop | None:
    """The repository around a check; outside one, nobody can say what it changed."""
    if not os.path.isdir(cwd):
        return None
    try:
        where = repository.find(cwd, os.environ)
    except Fault:
        return None
    if where.kind == "folder":
        return None
    scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="waybill-verify-")))
    return stack.enter_context(Workshop(where, scratch / "git", [], env=os.environ))


def _tail(descriptor: int, bound: int) -> tuple[str, bool]:
    size = os.fstat(descriptor).st_size
    data = os.pread(descriptor, bound, max(0, size - bound))
    text = data.decode("utf-8", "replace")
    return (text.lstrip("\ufffd"), True) if size > bound else (text, False)


def _log(path: str, descriptors: list[int]) -> dict[str, Any]:
    """Append both streams, whole, to the log; its path, digest and length."""
    with storing(path):
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        log = os.open(path, flags, 0o600)
        try:
            for descriptor in descriptors:
                at = 0
                while block := os.pread(descriptor, 1 << 20, at):
                    view = memoryview(block)
                    while view:
                        view = view[os.write(log, view) :]
                    at += len(block)
            os.fsync(log)
            sha256, size = canonical.descriptor_digest(log)
        finally:
            os.close(log)
    return {"path": path, "sha256": sha256, "bytes": size}


def run(args: command.Arguments) -> int:
    """The command line of verify, read and followed."""
    grace = command.number(args, "--grace")
    timeout = command.number(args, "--timeout", least=0.01)
    bound = command.whole(args, "--bound", least=1)
    if args["--command"] is not None:
        row = {
            "program": args["--command"],
            "args": list(args["--arg"]),
            "cwd": args["--cwd"] or ".",
            "timeout": timeout,
        }
        return structured([row], bound=bound, grace=grace, log=args["--log"])
    if args["--list"] is not None:
        rows = listed(args["--list"], args["--cwd"], timeout)
        return structured(rows, bound=bound, grace=grace, log=args["--log"])
    return verify(args["RECEIPT"], args["--run-dir"], confine=args["--confine-evidence"])
