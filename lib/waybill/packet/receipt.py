"""The run receipt, version 1: built from the packet and the run record, and checked.

`build` is the only writer of receipts; `gaps` says what a schema cannot of any receipt.
"""

from __future__ import annotations

import re
from typing import Any

from waybill.base import clock, masking
from waybill.packet.evidence import NOT_ATTEMPTED
from waybill.packet.packet import Packet

Receipt = dict[str, Any]
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_KINDS = (("schema", "schema"), ("test", "test-log"), ("log", "test-log"),
          ("fixture", "fixture"), ("example", "fixture"))  # fmt: skip


def receipt_id(packet_id: str, began: str, attempt: int = 1) -> str:
    """codex-receipt-<compact UTC start>-<packet id made safe>; `began` is a record's time.

    A further attempt is named too: it can begin within the same second.
    """
    safe = _UNSAFE.sub("-", packet_id).strip("-") or "packet"
    compact = began.partition(".")[0].replace("-", "").replace(":", "")
    return f"codex-receipt-{compact}Z-{safe}" + (f"-{attempt}" if attempt > 1 else "")


def build(
    packet: Packet,
    record: dict[str, Any],
    *,
    verdict: dict[str, Any],
    excerpts: list[str],
    mask: masking.Mask,
    at: float,
) -> Receipt:
    """A receipt of a run, or of a refusal when the record says that nothing was started.

    `excerpts` are those of Codex and of each evidence row, in order; `at` is the time that
    stands for what never happened.
    """
    timing, stdin, tree = record["timing"], record["stdin"], record["tree"]
    now = clock.stamp(at)
    ran = timing["started"] is not None
    began = timing["started"] or timing["prepared"]
    auth = record["auth"] or {"mode": "unknown", "status": "not asked"}
    thread = record["thread"] or {"id": None, "resumed_from": None}
    process = record["process"] or {}
    found: Receipt = {
        "schema_version": 1,
        "receipt_id": receipt_id(packet.packet_id, began, record["attempt"]),
        "packet_id": packet.packet_id,
        "started_at": timing["started"] or now,
        "ended_at": timing["ended"] or now,
        "cwd": packet.document["cwd"],
        "sandbox": packet.sandbox,
        "auth_mode": auth["mode"],
        "auth_status": auth["status"],
        "command": {"argv": packet.argv},
        "stdin": {
            "mode": packet.stdin_mode,
            "closed_at": (stdin and stdin["closed_at"]) or now,
            "bytes_written": stdin["bytes_written"] if stdin else 0,
        },
        "timeout_seconds": packet.timeout_seconds,
        "timed_out": record["limits"]["passed"] is not None,
        "exit_code": _exit_code(process.get("exit_code")),
        "outputs": {
            key: packet.output[key]
            for key in ("final_message_path", "jsonl_path", "schema_path", "receipt_path")
            if packet.output.get(key, "").strip()
        },
        "changed_files": [row["path"] for row in record["patch"]["files"]]
        if record["patch"] and tree
        else [],
        "commands_run": _commands(packet, record, excerpts) if ran else [],
        "verdict": verdict,
        "evidence": _evidence(packet, record),
    }
    if thread["id"]:
        found["codex_session_id"] = thread["id"]
    if thread["resumed_from"]:
        found["resume_from_session"] = thread["resumed_from"]
    if record["outcome"] != "ok":
        found["failure_reason"] = f"{record['outcome']}: {record['reason']}"
    spared = ("sha256", "packet_id", "receipt_id", "status", "kind", "mode")
    masked: Receipt = mask.record(found, spare=spared)
    return masked


def _exit_code(code: int | None) -> int:
    return -1 if code is None else code


def _commands(packet: Packet, record: dict[str, Any], excerpts: list[str]) -> list[dict[str, Any]]:
    rows = [{"command": " ".join(packet.argv), "exit_code": _exit_code(
        (record["process"] or {}).get("exit_code")
    )}]  # fmt: skip
    rows += [
        {"command": row["command"], "exit_code": row["exit_code"]}
        for row in record["evidence"]
        if not (row["reason"] or "").startswith(NOT_ATTEMPTED)
    ]
    for row, text in zip(rows, excerpts, strict=False):
        if text:
            row["output_excerpt"] = text
    return rows


def _evidence(packet: Packet, record: dict[str, Any]) -> list[dict[str, Any]]:
    """Files that bear the run out: only such as are really there."""
    rows = [
        {"path": row["path"], "kind": _kind(row["path"])}
        for row in record["artifacts"]
        if row["sha256"]
    ]
    if record["final_message"]:
        rows.append({"path": packet.output["final_message_path"], "kind": "final-message"})
    if record["events"] and packet.output.get("jsonl_path", "").strip():
        rows.append({"path": packet.output["jsonl_path"], "kind": "jsonl"})
    return rows


def _kind(path: str) -> str:
    lower = path.lower()
    return next((kind for part, kind in _KINDS if part in lower), "contract")


def no_verdict(summary: str) -> dict[str, Any]:
    """The verdict of a run that nobody has judged."""
    return {"status": "NO_VERDICT", "judge_source": "none", "summary": summary}


def error_verdict(summary: str) -> dict[str, Any]:
    """The verdict of what stopped before a judge could speak, or of a judge who did not."""
    return {"status": "ERROR", "judge_source": "waybill", "summary": summary}


def gaps(receipt: Receipt) -> list[tuple[str, str]]:
    """What a valid receipt still lacks, as (JSON path, sentence). Pure; any receipt."""
    from waybill.packet import verdict as grammar

    found: list[tuple[str, str]] = []
    if not receipt["commands_run"]:
        found.append(("$.commands_run", "no command was run"))
    for index, row in enumerate(receipt["commands_run"]):
        if not row["command"].strip():
            found.append((f"$.commands_run[{index}].command", "is blank"))
    said = receipt["verdict"]
    if said["status"] in grammar.JUDGED:
        identity = {
            "author": said.get("author_id", ""),
            "judge": said.get("judge_name", ""),
            "program": said.get("judge_program", ""),
            "family": said.get("judge_model_family", ""),
            # A receipt has no field for it; the grammar asks for it where it is said.
            "context": "receipt",
        }
        found += [("$.verdict", f"identity unproven: {gap}") for gap in grammar.gaps(identity)]
    if receipt["timed_out"] and receipt["exit_code"] == 0:
        found.append(("$.exit_code", "timed out, and yet exited 0"))
    # As times: a foreign receipt may give them in another zone or precision.
    began, ended = clock.moment(receipt["started_at"]), clock.moment(receipt["ended_at"])
    if began is not None and ended is not None and ended < began:
        found.append(("$.ended_at", "is before started_at"))
    return found
