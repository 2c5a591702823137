"""The wire: the bytes, pauses and cuts by which one step is answered.

HTTP/1.1 and the server-sent events of the Responses API, made here in full so that the
server only carries them out. Pure: ids come from the digest of the request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from waybill.base import canonical
from waybill.rehearsal import call

# Tokens of an answer whose step names none; in a step that does, what it leaves out is 0.
USAGE = {"input": 100, "cached": 40, "output": 20, "reasoning": 5}


@dataclass(frozen=True)
class Pause:
    """Silence, in seconds; it ends early when the client leaves."""

    seconds: float


@dataclass(frozen=True)
class Drop:
    """The connection is closed here, whatever was promised."""


Action = bytes | Pause | Drop


def answer(step: Mapping[str, Any], body: Mapping[str, Any]) -> Iterator[Action]:
    """What to do, in order, to play `step` for the request `body`."""
    if "hang_headers" in step:
        yield Pause(step["hang_headers"])
    if step.get("drop") == "early":
        yield Drop()
        return
    code_mode = call.is_code_mode(body)
    if "code" in step and not code_mode:
        step = {"http": 400, "body": _error("a code step needs a model of code mode")}
    if "usage_limit" in step:
        error = {"type": "usage_limit_reached", "plan_type": "plus"}
        error_body = {"error": {**error, "resets_at": step["usage_limit"]}}
        step = {**step, "http": 429, "body": error_body}
    if "http" in step:
        yield from _pause(step.get("sleep"))
        default = _error(f"rehearsed {step['http']}")
        yield whole(step["http"], step.get("body", default), step.get("headers"))
        return
    yield _head(200, {"content-type": "text/event-stream", **_lower(step.get("headers"))})
    for action in _Stream(body, code_mode).play(step):
        yield _chunk(action) if isinstance(action, bytes) else action
        if isinstance(action, Drop):
            return
    yield _chunk(b"")


def whole(status: int, body: object, headers: Mapping[str, object] | None = None) -> bytes:
    """An answer in one piece: `body` as JSON, or as it is when it is a string."""
    data = (body if isinstance(body, str) else json.dumps(body)).encode()
    fields = {"content-type": "application/json", **_lower(headers), "content-length": len(data)}
    return _head(status, fields) + data


class _Stream:
    """The events of one response; each item gets the digest of the request and its place."""

    def __init__(self, body: Mapping[str, Any], code_mode: bool) -> None:
        self.digest = canonical.digest(canonical.dumps(body))[:24]
        self.code_mode = code_mode
        self.place = 0

    def play(self, step: Mapping[str, Any]) -> Iterator[Action]:
        created = {"id": f"resp_{self.digest}", "object": "response", "status": "in_progress"}
        yield _event("response.created", response=created)
        yield from _pause(step.get("sleep"))
        if "pre" in step:
            yield from self.message(step["pre"], phase="commentary")
        if "failed" in step:
            error = {"message": "rehearsed failure", **step["failed"]}
            yield self._end("failed", error=error)
            return
        if "incomplete" in step:
            yield self._end("incomplete", incomplete_details={"reason": step["incomplete"]})
            return
        yield from self._content(step)
        used = {name: step["usage"].get(name, 0) for name in USAGE} if "usage" in step else USAGE
        usage = {
            "input_tokens": used["input"],
            "input_tokens_details": {"cached_tokens": used["cached"]},
            "output_tokens": used["output"],
            "output_tokens_details": {"reasoning_tokens": used["reasoning"]},
            "total_tokens": used["input"] + used["output"],
        }
        yield self._end("completed", usage=usage)

    def _content(self, step: Mapping[str, Any]) -> Iterator[Action]:
        if "hang" in step:
            yield Pause(step["hang"])
            yield from self.message("(woke up)")
        elif "hang_headers" in step:
            yield from self.message("(late answer)")
        elif "drop" in step:
            yield from self.message("half an answer", words=True, drop_at=1)
        elif "think" in step:
            yield from self.reasoning(step["think"])
            yield from self.message(step.get("say", "(thought)"))
        elif "say" in step:
            yield from self.message(step["say"])
        elif "stream" in step:
            every, drop_at = step.get("every", 0.1), step.get("drop_at")
            yield from self.message(step["stream"], words=True, every=every, drop_at=drop_at)
        else:
            for one in step.get("calls", [step]):
                yield from self.call(one)

    def message(
        self,
        text: str,
        *,
        phase: str | None = None,
        words: bool = False,
        every: float = 0,
        drop_at: int | None = None,
    ) -> Iterator[Action]:
        """A message, whole or word by word; with `drop_at`, cut after so many words."""
        place, ident = self._next()
        item: dict[str, Any] = {"type": "message", "id": f"msg_{ident}", "role": "assistant"}
        if phase:
            item["phase"] = phase
        yield _event("response.output_item.added", output_index=place, item={**item, "content": []})
        pieces = re.findall(r"\s*\S+\s*", text) if words else [text]
        for count, piece in enumerate(pieces[:drop_at]):
            yield from _pause(every if count else 0)
            at = {"item_id": item["id"], "output_index": place, "content_index": 0}
            yield _event("response.output_text.delta", **at, delta=piece)
        if drop_at is not None:
            yield Drop()
            return
        item["content"] = [{"type": "output_text", "text": text, "annotations": []}]
        yield _event("response.output_item.done", output_index=place, item=item)

    def reasoning(self, text: str) -> Iterator[bytes]:
        place, ident = self._next()
        item: dict[str, Any] = {"type": "reasoning", "id": f"rs_{ident}", "summary": []}
        item["encrypted_content"] = ident
        yield _event("response.output_item.added", output_index=place, item=item)
        at = {"item_id": item["id"], "output_index": place, "summary_index": 0}
        yield _event("response.reasoning_summary_text.delta", **at, delta=text)
        item["summary"] = [{"type": "summary_text", "text": text}]
        yield _event("response.output_item.done", output_index=place, item=item)

    def call(self, step: Mapping[str, Any]) -> Iterator[bytes]:
        place, ident = self._next()
        item = call.item(step, ident, self.code_mode)
        blank = {key: "" for key in ("arguments", "input") if isinstance(item.get(key), str)}
        begun = {**item, **blank, "status": "in_progress"}
        yield _event("response.output_item.added", output_index=place, item=begun)
        yield _event("response.output_item.done", output_index=place, item=item)

    def _next(self) -> tuple[int, str]:
        self.place += 1
        return self.place - 1, f"{self.digest}_{self.place - 1}"

    def _end(self, status: str, **more: object) -> bytes:
        response = {"id": f"resp_{self.digest}", "object": "response", "status": status, **more}
        return _event(f"response.{status}", response=response)


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message}}


def _pause(seconds: float | None) -> Iterator[Pause]:
    if seconds:
        yield Pause(seconds)


def _event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _lower(headers: Mapping[str, object] | None) -> dict[str, object]:
    return {name.lower(): value for name, value in (headers or {}).items()}


def _head(status: int, headers: Mapping[str, object]) -> bytes:
    reason = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "Rehearsed"
    fields = dict(headers)
    if "content-length" not in fields:
        fields["transfer-encoding"] = "chunked"
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {fields[name]}" for name in fields)]
    return "\r\n".join([*lines, "", ""]).encode()
