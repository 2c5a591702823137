"""receipt-check: receipts from files, folders and streams, each with its judgement."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waybill.base import command, document, exits, schema
from waybill.base.exits import Fault
from waybill.packet import bundle, judgement, ledger, replay
from waybill.packet.boundary import LEDGER, RECEIPT, RUN
from waybill.packet.judgement import Document, Reason

NAME = "receipt-check"
MOST_STREAM = 4 << 30  # bytes of a stream of receipts
_INNER = frozenset(("attempts", "generations", "passes", "reviews", "evidence"))


@dataclass(frozen=True)
class Orders:
    """The command line, read."""

    allow: frozenset[str]
    files: bool
    table: bool
    quiet: bool
    replay: bool
    repo: str | None


@dataclass(frozen=True)
class Source:
    """One receipt: its name for messages, the document, and its file when it has one."""

    name: str
    found: Any
    path: Path | None


def check(operands: list[str], orders: Orders) -> int:
    """Judge every receipt; judgements on stdout, one line each on stderr, the worst status."""
    worst, rows = exits.OK, []
    for source in _sources(operands):
        try:
            found = _judge(source, orders)
        except Fault as fault:
            command.complain(NAME, f"{source.name}: {fault.subject}: {fault.message}")
            worst = max(worst, fault.status)
            continue
        wrong = schema.errors("judgement", found)
        if wrong:
            raise AssertionError(f"judgement breaks its schema: {wrong[:3]}")
        worst = max(worst, _status(found))
        rows.append(found)
        if not orders.quiet:
            command.complain(NAME, f"{source.name}: {summary(found)}")
            if not orders.table:
                command.emit_line(found)
    if orders.table and not orders.quiet:
        command.emit_text(_table(rows))
    return worst


def _status(found: Document) -> int:
    if found["pass"]:
        return exits.OK
    return exits.DATA if any(r["rule"] == "schema" for r in found["reasons"]) else exits.NO


def summary(found: Document) -> str:
    """One line for a judgement, whichever way it went."""
    if found["pass"]:
        allowed = f" (allowed: {', '.join(found['allowed'])})" if found["allowed"] else ""
        return f"pass{allowed}"
    first, more = found["reasons"][0], len(found["reasons"]) - 1
    tail = f" (and {more} more)" if more else ""
    return f"held: {first['rule']}: {first['path']}: {first['message']}{tail}"


def _judge(source: Source, orders: Orders) -> Document:
    found, beside = source.found, None
    further: list[Reason] = []
    if orders.files and schema.is_valid("run-receipt", found):
        folder, name = _folder(source)
        beside = bundle.read(folder, name)
        if beside is not None and source.path is None:
            further += _same(folder / name, found)
        if beside is not None and orders.replay:
            further += replay.reasons(folder, beside, orders.repo)
    if orders.replay and beside is None:
        further.append(Reason("replay", "$", "there is no run to replay"))
    return judgement.judge(
        found,
        beside,
        source=source.name,
        allow=orders.allow,
        files=orders.files,
        further=tuple(further),
    )


def _folder(source: Source) -> tuple[Path, str]:
    """The run folder of a receipt, and the receipt's name in it."""
    if source.path is not None:
        path = source.path.absolute()
    else:
        path = Path(source.found["cwd"]).absolute() / source.found["outputs"]["receipt_path"]
    return path.parent, path.name


def _same(path: Path, found: Any) -> list[Reason]:
    """A receipt from a stream is the one that lies in its run folder."""
    try:
        kept, _, _ = document.read(str(path))
    except Fault:
        kept = None
    if kept == found:
        return []
    return [Reason("agreement", "$", f"is not the receipt that lies in {path.parent}")]


def _sources(operands: list[str]) -> Iterator[Source]:
    for operand in operands or ["-"]:
        path = Path(operand)
        if operand != "-" and os.path.isdir(path):
            receipts = sorted(_within(path))
            if not receipts:
                raise Fault(exits.NOINPUT, operand, f"holds no {RECEIPT}")
            for receipt in receipts:
                yield from _read(str(receipt))
        else:
            yield from _read(operand)


def _within(path: Path) -> Iterator[Path]:
    """The receipts in front in and below a folder; older generations are not judged."""
    for child in path.rglob(RECEIPT):
        if not _INNER & set(child.relative_to(path).parts[:-1]):
            yield child


def _read(operand: str) -> Iterator[Source]:
    """One receipt, or one on each line."""
    data, name = document.read_bytes(operand, limit=MOST_STREAM)
    path = None if operand == "-" else Path(operand)
    lines = [row for row in data.split(b"\n") if row.strip()]
    if len(lines) > 1 and all(row.lstrip()[:1] == b"{" and row.rstrip()[-1:] == b"}" for row in
                              (lines[0], lines[1])):  # fmt: skip
        for number, row in enumerate(lines, 1):
            yield Source(f"{name}:{number}", document.parse(row, f"{name}:{number}"), None)
        return
    yield Source(name, document.parse(data, name), path)


def _table(rows: list[Document]) -> str:
    from tabulate import tabulate

    cells = [
        [
            row["packet_id"] or row["source"],
            "pass" if row["pass"] else "held",
            ", ".join(row["allowed"]),
            "\n".join(f"{r['rule']}: {r['path']}: {r['message']}" for r in row["reasons"]),
        ]
        for row in rows
    ]
    headers = ["packet", "gate", "allowed", "reasons"]
    return tabulate(cells, headers, disable_numparse=True, maxcolwidths=[40, 8, 20, 80]) + "\n"


def check_ledger(operands: list[str], head: str | None, *, quiet: bool) -> int:
    """Judge ledgers, each against the receipts beside it; the worst status."""
    worst = exits.OK
    for operand in operands or [".codex/runs"]:
        path = Path(operand)
        place = path / LEDGER if os.path.isdir(path) else path
        data, _ = document.read_bytes(str(place), limit=ledger.MOST_BYTES)
        found = ledger.read(place, data)
        faults = list(found.faults) + _against(found)
        if head is not None and head not in [line["digest"] for line in found.lines]:
            faults.append(f"the head {head[:12]} is in no line: the ledger was cut or rewritten")
        result = {
            "schema_version": "1.0",
            "source": str(place),
            "receipt_id": None,
            "packet_id": None,
            "pass": not faults,
            "head": found.head,
            "allowed": [],
            "reasons": [{"rule": "ledger", "path": str(place), "message": row} for row in faults],
        }
        worst = max(worst, exits.OK if result["pass"] else exits.NO)
        if not quiet:
            command.complain(NAME, f"{place}: {summary(result)}; head {found.head}")
            command.emit_line(result)
    return worst


def _against(found: ledger.Ledger) -> list[str]:
    """Receipts that differ from their latest line, and lines and receipts without the other."""
    folder = found.path.parent
    latest: dict[str, Document] = {}
    faults: list[str] = []
    for line in found.lines:
        latest[line["run_id"]] = line
    for receipt in sorted(_within(folder)):
        run_id = _run_id(receipt.parent)
        if run_id is None:
            faults.append(f"{receipt}: has no readable run record")
            continue
        last = latest.pop(run_id, None)
        if last is None:
            faults.append(f"{receipt}: no line of the ledger is of its run")
        elif bundle.digest(receipt) != last["receipt_sha256"]:
            faults.append(f"{receipt}: differs from its latest line, {last['seq']}")
        elif bundle.digest(receipt.parent / RUN) != last["run_sha256"]:
            faults.append(f"{receipt.parent}/run.json: differs from its latest line")
    for line in latest.values():
        if not _kept_aside(folder, line):
            faults.append(f"line {line['seq']}: the receipt of {line['run_id']} is gone")
    return faults


def _kept_aside(folder: Path, line: Document) -> bool:
    """Whether a receipt lies where older ones do: with its attempt, or among the generations of
    a folder that a later run has in front. Of the run in front the receipt must be there too."""

    def holds(paths: Iterable[Path]) -> bool:
        return any(bundle.digest(path) == line["receipt_sha256"] for path in paths)

    if holds(folder.glob("*/attempts/*/*.json")):
        return True
    for run in folder.glob("*/generations"):
        if holds(run.glob("*.json")):
            return _run_id(run.parent) != line["run_id"] or holds(run.parent.glob("*.json"))
    return False


def _run_id(folder: Path) -> str | None:
    """The id of the run in front in a folder; None where none can be read."""
    try:
        return str(json.loads((folder / RUN).read_bytes())["run_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def run(args: command.Arguments) -> int:
    """The command line of receipt-check, read and followed."""
    for kind in args["--allow"]:
        if kind not in judgement.KINDS:
            known = ", ".join(judgement.KINDS)
            raise Fault(exits.USAGE, "--allow", f"{kind!r} is none of: {known}")
    if args["--ledger"]:
        return check_ledger(args["RECEIPT"], args["--head"], quiet=args["--quiet"])
    orders = Orders(
        allow=frozenset(args["--allow"]),
        files=not args["--no-files"],
        table=args["--table"],
        quiet=args["--quiet"],
        replay=args["--replay"],
        repo=args["--repo"],
    )
    return check(args["RECEIPT"], orders)
