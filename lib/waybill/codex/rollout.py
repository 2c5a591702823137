"""The rollout of a thread: Codex's own record of it, which names what was really in force."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from waybill.codex import shapes, usage
from waybill.codex.lines import HEAD, Lines

_CHUNK = 256 * 1024
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_DIGITS = re.compile(r"\D*\d+")


class Effective(NamedTuple):
    """What the last turn ran under, each None if the rollout does not say.

    `sandbox` is a word such as read-only, workspace-write or danger-full-access. `turns`
    counts the turns that the rollout tells of, so a caller can see that one was added.
    """

    sandbox: str | None = None
    model: str | None = None
    effort: str | None = None
    cwd: str | None = None
    cli_version: str | None = None
    turns: int = 0


def find(codex_home: Path, thread_id: str) -> Path | None:
    """The rollout of a thread, archived or not; None if there is none or the id is no UUID."""
    ident = thread_id.lower()
    if not _UUID.fullmatch(ident):
        return None
    name = f"rollout-*-{ident}.jsonl"
    for folder, pattern in (("sessions", f"*/*/*/{name}"), ("archived_sessions", f"**/{name}")):
        try:
            found = [path for path in (codex_home / folder).glob(pattern) if path.is_file()]
        except OSError:
            continue
        if found:
            return max(found, key=lambda path: path.name)
    return None


def effective(path: Path) -> Effective:
    """What the last turn of a rollout ran under. Damage and absence give None, never an error.

    If the last turn's own line is damaged its values are None: those of an earlier turn
    could be other ones.
    """
    version: str | None = None
    turn: dict[str, object] = {}
    turns = 0
    for kind, payload in _records(path, "session_meta", "turn_context"):
        if kind == "turn_context":
            turn, turns = payload, turns + 1
        elif version is None:
            version = shapes.text(payload.get("cli_version"), 80)
    policy, mode = turn.get("sandbox_policy"), _object(turn.get("collaboration_mode"))
    if isinstance(policy, dict):
        policy = policy.get("type", policy.get("mode"))
    effort = turn.get("effort") or _object(mode.get("settings")).get("reasoning_effort")
    return Effective(
        sandbox=shapes.text(policy, 80),
        model=shapes.text(turn.get("model"), 200),
        effort=shapes.text(effort, 80),
        cwd=shapes.text(turn.get("cwd"), 4096),
        cli_version=version,
        turns=turns,
    )


def baseline_usage(path: Path) -> usage.Usage | None:
    """What the thread has used up to now, to be read before it is resumed.

    Zeros for a thread that no model has answered yet, None if that cannot be known.
    """
    total: usage.Usage | None = None
    known = answered = present = False
    for kind, payload in _records(path, "session_meta", "token_count", *_ANSWERS):
        present = True
        if kind in _ANSWERS:
            answered = answered or kind != "message" or payload.get("role") == "assistant"
        elif kind == "token_count" and ("info" not in payload or payload["info"] is not None):
            total, known = usage.read(_object(payload.get("info")).get("total_token_usage")), True
    if known:
        return total
    return usage.zero() if present and not answered else None


def family(model: str | None) -> str | None:
    """The slug of a model up to its first group of digits: gpt-5.6-sol is of gpt-5."""
    if not model:
        return None
    match = _DIGITS.match(model)
    return (match[0] if match else model).lower()


_ANSWERS = ("message", "reasoning", "function_call", "custom_tool_call")


def _records(path: Path, *kinds: str) -> Iterator[tuple[str, dict[str, object]]]:
    """Type and payload of the records of these types, in order; of a damaged one no payload.

    A type is looked for in the record and in its payload. Lines that do not name one of them
    near their start are not parsed, so a rollout of any size is read in flat memory.
    """
    named = re.compile(rb'"type"\s*:\s*"(' + "|".join(kinds).encode() + rb')"')
    for data, whole in _lines(path):
        if not (match := named.search(data, 0, HEAD)):
            continue
        record = _parsed(data) if whole else {}
        payload = _object(record.get("payload"))
        kind = record.get("type")
        if kind in ("event_msg", "response_item"):
            kind = payload.get("type")
        if not record:
            yield match[1].decode(), {}
        elif kind in kinds:
            yield str(kind), payload


def _lines(path: Path) -> Iterator[tuple[bytes, bool]]:
    lines = Lines()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                yield from lines.feed(chunk)
    except OSError:
        return
    yield from lines.close()


def _parsed(data: bytes) -> dict[str, object]:
    try:
        return _object(json.loads(data.decode("utf-8")))
    except (ValueError, RecursionError):
        return {}


def _object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}
