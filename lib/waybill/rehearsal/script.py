"""A rehearsal script: what the scripted model answers.

The answer is a pure function of the request. The first script whose `match` finds
something in the last user message is played; the step is found by counting the tool
outputs after that message. So the same thread gives the same answers after a restart, a
resume or a fork, and every sub-agent plays its own part. The one exception is the step
`fail_times`, which counts requests: `Step.after` is given the count.

Codex itself adds user messages within a turn: what a sub-agent reports to its parent
("subagent_notification", "FINAL_ANSWER"), and the summary after a compaction (it holds
SUMMARY). They are matched like any other, so a turn with one of these goes on in a script
that matches it; a script without `match` would begin again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from waybill.base.exits import DATA, Fault

OVER = "(script over)"
SUMMARY = "Rehearsal summary: the thread so far, compacted."
NO_SCRIPT = "no script of the rehearsal matches the last user message"

_COMPACTION = "CONTEXT CHECKPOINT COMPACTION"
_FIELD = re.compile(r"\$\{(\w+)\}")
_STRING = r'"(?:[^"\\]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"'


@dataclass(frozen=True)
class Step:
    """What is played for one request, and where it stands.

    `script` and `number` are places counted from 0; both are None for an answer that no
    script gave, and `number` alone is None past the end of a script.
    """

    play: Mapping[str, Any]
    script: int | None = None
    number: int | None = None

    @property
    def key(self) -> str | None:
        """The name under which requests for this step are counted, None if they are not."""
        if "fail_times" not in self.play:
            return None
        return str(self.play.get("key", f"script {self.script}, step {self.number}"))

    def after(self, failures: int) -> Step:
        """The step to play when `failures` requests of this key failed before."""
        if "fail_times" not in self.play:
            return self
        if failures >= self.play["fail_times"]:
            return replace(self, play=self.play["then"])
        rest = {k: v for k, v in self.play.items() if k not in ("fail_times", "key", "then")}
        return replace(self, play={"http": 500, **rest})


@dataclass(frozen=True)
class Script:
    """Steps, and the pattern that the last user message must hold (None: any message)."""

    steps: tuple[Mapping[str, Any], ...]
    match: re.Pattern[str] | None = None

    def matches(self, text: str) -> bool:
        return self.match is None or self.match.search(text) is not None

    def number(self, outputs: int) -> int | None:
        """The place of the step to play after so many tool outputs, None past the end."""
        for place, step in enumerate(self.steps):
            if outputs < _width(step):
                return place
            outputs -= _width(step)
        return None


@dataclass(frozen=True)
class Rehearsal:
    """A whole rehearsal; `family` and `model` say who the scripted model stands for."""

    scripts: tuple[Script, ...]
    family: str | None = None
    model: str | None = None

    def pick(self, body: Mapping[str, Any]) -> Step:
        """The step that answers this request body; one that is refused gets an HTTP 400."""
        items = _items(body)
        last = max((n for n, item in enumerate(items) if _is_user(item)), default=-1)
        text = _text(items[last].get("content")) if last >= 0 else ""
        if _COMPACTION in text:
            return Step({"say": SUMMARY})
        outputs = sum(1 for item in items[last + 1 :] if _is_output(item))
        for place, script in enumerate(self.scripts):
            if script.matches(text):
                number = script.number(outputs)
                if number is None:
                    return Step({"say": OVER}, place)
                return Step(_filled(script.steps[number], items), place, number)
        error = {"type": "invalid_request_error", "message": f"{NO_SCRIPT}: {text[:200]!r}"}
        return Step({"http": 400, "body": {"error": error}})


def load(document: object, subject: str = "rehearsal") -> Rehearsal:
    """The rehearsal that a schema-valid document describes.

    Fault DATA, naming `subject`, when a `match` is no regular expression.
    """
    if isinstance(document, list):
        return Rehearsal((Script(tuple(document)),))
    assert isinstance(document, dict), "the schema lets only lists and objects through"
    scripts = []
    for place, script in enumerate(document["scripts"]):
        match = script.get("match")
        try:
            pattern = None if match is None else re.compile(match, re.DOTALL | re.MULTILINE)
        except re.error as wrong:
            where = f"/scripts/{place}/match"
            raise Fault(DATA, subject, f"{where}: no regular expression: {wrong}") from None
        scripts.append(Script(tuple(script["steps"]), pattern))
    return Rehearsal(tuple(scripts), document.get("family"), document.get("model"))


def _width(step: Mapping[str, Any]) -> int:
    """How many tool outputs the step brings: `calls` makes one for each."""
    step = step.get("then", step)
    return len(step["calls"]) if "calls" in step else 1


def _items(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    items = body.get("input")
    if isinstance(items, str):
        return [{"type": "message", "role": "user", "content": items}]
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _is_user(item: Mapping[str, Any]) -> bool:
    # A sub-agent is told its task by an item of a kind of its own.
    kind = item.get("type", "message")
    return kind == "agent_message" or (kind == "message" and item.get("role") == "user")


def _is_output(item: Mapping[str, Any]) -> bool:
    kind = str(item.get("type"))
    return kind.endswith("_call_output") or kind == "tool_search_output"


def _text(content: object) -> str:
    """The text of a message's content or of a tool's output."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = (part for part in content if isinstance(part, dict))
    return "\n".join(str(part.get("text") or part.get("encrypted_content") or "") for part in parts)


def _filled(value: Any, items: Sequence[Mapping[str, Any]]) -> Any:
    """`value` with each `${field}` replaced; one that no output holds stays as it is."""
    if isinstance(value, str):
        return _FIELD.sub(lambda found: _field(found[1], items) or found[0], value)
    if isinstance(value, list):
        return [_filled(one, items) for one in value]
    if isinstance(value, dict):
        return {key: _filled(one, items) for key, one in value.items()}
    return value


def _field(name: str, items: Sequence[Mapping[str, Any]]) -> str | None:
    """The string field of that name in the newest tool output that holds one."""
    pattern = re.compile(rf'"{name}"\s*:\s*({_STRING})')
    for item in reversed(items):
        found = pattern.search(_text(item.get("output"))) if _is_output(item) else None
        if found:
            return str(json.loads(found[1], strict=False))
    return None
