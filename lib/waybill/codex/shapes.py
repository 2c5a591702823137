"""The shapes of events that Codex versions have written, brought to today's one."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable

Event = dict[str, object]

EVENTS = frozenset(
    {
        "thread.started",
        "turn.started",
        "turn.completed",
        "turn.failed",
        "item.started",
        "item.updated",
        "item.completed",
        "error",
    }
)
ITEMS = frozenset(
    {
        "agent_message",
        "collab_tool_call",
        "command_execution",
        "error",
        "file_change",
        "mcp_tool_call",
        "reasoning",
        "todo_list",
        "web_search",
    }
)


def today(event: Event) -> Event | None:
    """The event in today's shape, or None if its shape is not known.

    Two extras that today's stream does not have: the type `token_count` with `usage`, and on
    `turn.completed` the key `older` with what the turn said last, a string or None.
    """
    msg = event.get("msg")
    if isinstance(msg, dict):
        kind = msg.get("type")
        translate = _OLDER.get(kind) if isinstance(kind, str) else None
        return translate(msg) if translate else None
    kind = event.get("type")
    if kind == "session.created":
        return {"type": "thread.started", "thread_id": event.get("session_id")}
    if not isinstance(kind, str) or kind not in EVENTS:
        return None
    if not kind.startswith("item."):
        return event
    item = event.get("item")
    if not isinstance(item, dict):
        return None
    name = item.get("type", item.get("item_type"))
    return {"type": kind, "item": {**item, "type": _RENAMED.get(str(name), name)}}


def name(event: Event) -> str:
    """What an event calls itself, for the count of those that are not known."""
    msg = event.get("msg")
    kind = msg.get("type") if isinstance(msg, dict) else event.get("type")
    return text(kind, 80) or "(no type)"


def text(value: object, limit: int | None = None) -> str | None:
    """A JSON string as one that can be written again: a lone surrogate becomes `?`."""
    if not isinstance(value, str):
        return None
    return value[:limit].encode("utf-8", "replace").decode("utf-8")


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,"]|[^\s"{}\[\]:,]+', re.DOTALL)


def skeleton(head: bytes) -> Event:
    """The scalar members of an object, and of the objects directly in it, as far as `head` goes.

    For a line that is too long to be parsed; what is in arrays or deeper is left out, so a
    nested `type` is never taken for the event's own.
    """
    event: Event = {}
    inside: list[Event | None] = []
    key = before = ""
    shown = head.decode("utf-8", "replace").lstrip("\ufeff\0 \t\r")
    for match in _TOKEN.finditer(shown):
        token = match[0]
        if token == '"' or (match.end() == len(shown) and token not in "{}[]"):
            break  # the head ends within this one
        if token in "{[":
            child = None if inside else event
            if token == "{" and len(inside) == 1 and before == ":":
                child = event[key] = {}
            inside.append(child)
        elif token in "}]":
            if not inside:
                break
            inside.pop()
        elif token not in ":," and inside and inside[-1] is not None:
            value = _scalar(token)
            if before == ":":
                inside[-1][key] = value
            elif isinstance(value, str):
                key = value
        before = token
    return event


def _scalar(token: str) -> object:
    try:
        return json.loads(token)
    except ValueError:
        return None


def _thread(msg: Event) -> Event:
    return {"type": "thread.started", "thread_id": msg.get("session_id")}


def _turn_started(msg: Event) -> Event:
    return {"type": "turn.started"}


def _turn_completed(msg: Event) -> Event:
    if msg.get("error"):
        return {"type": "turn.failed", "error": msg["error"]}
    return {"type": "turn.completed", "older": msg.get("last_agent_message")}


def _turn_aborted(msg: Event) -> Event:
    reason = text(msg.get("reason"), 200) or "no reason was given"
    return {"type": "turn.failed", "error": {"message": f"turn aborted: {reason}"}}


def _tokens(msg: Event) -> Event:
    info = msg.get("info", msg)
    usage = info.get("total_token_usage", info) if isinstance(info, dict) else None
    return {"type": "token_count", "usage": usage}


def _error(msg: Event) -> Event:
    return {**msg, "type": "error"}


def _retry(msg: Event) -> Event:
    return {"type": "item.completed", "item": {"type": "error", "message": msg.get("message")}}


def _message(msg: Event) -> Event:
    item = {"type": "agent_message", "text": msg.get("message")}
    return {"type": "item.completed", "item": item}


def _reasoning(msg: Event) -> Event:
    return {"type": "item.completed", "item": {"type": "reasoning", "text": msg.get("text")}}


def _command(msg: Event) -> str | None:
    command = msg.get("command")
    if isinstance(command, list):
        return shlex.join(part for part in command if isinstance(part, str))
    return text(command)


def _command_begin(msg: Event) -> Event:
    item = {"type": "command_execution", "id": msg.get("call_id"), "command": _command(msg)}
    return {"type": "item.started", "item": item}


def _command_end(msg: Event) -> Event:
    output = msg.get("aggregated_output")
    if not isinstance(output, str):
        output = "\n".join(filter(None, (text(msg.get("stderr")), text(msg.get("stdout")))))
    code = msg.get("exit_code")
    item = {
        "type": "command_execution",
        "id": msg.get("call_id"),
        "command": _command(msg),
        "aggregated_output": output,
        "exit_code": code,
        "status": None if code is None else "completed" if code == 0 else "failed",
    }
    return {"type": "item.completed", "item": item}


def _patch(msg: Event) -> Event:
    changes = msg.get("changes")
    paths = [{"path": path} for path in changes] if isinstance(changes, dict) else []
    item: Event = {"type": "file_change", "id": msg.get("call_id"), "changes": paths}
    if msg.get("type") == "patch_apply_begin":
        return {"type": "item.started", "item": item}
    item["status"] = "completed" if msg.get("success") is True else "failed"
    return {"type": "item.completed", "item": item}


def _tool(msg: Event) -> Event:
    called = msg.get("invocation")
    item: Event = {**(called if isinstance(called, dict) else {}), "id": msg.get("call_id")}
    item["type"] = "mcp_tool_call"
    if msg.get("type") == "mcp_tool_call_begin":
        return {"type": "item.started", "item": item}
    result = msg.get("result")
    refusal = result.get("Err") if isinstance(result, dict) else None
    item["status"] = "completed" if refusal is None else "failed"
    item["error"] = None if refusal is None else {"message": refusal}
    return {"type": "item.completed", "item": item}


_RENAMED = {"assistant_message": "agent_message"}

_OLDER: dict[str, Callable[[Event], Event]] = {
    "session_configured": _thread,
    "task_started": _turn_started,
    "turn_started": _turn_started,
    "task_complete": _turn_completed,
    "turn_complete": _turn_completed,
    "turn_aborted": _turn_aborted,
    "token_count": _tokens,
    "error": _error,
    "stream_error": _retry,
    "warning": _retry,
    "agent_message": _message,
    "agent_reasoning": _reasoning,
    "exec_command_begin": _command_begin,
    "exec_command_end": _command_end,
    "patch_apply_begin": _patch,
    "patch_apply_end": _patch,
    "mcp_tool_call_begin": _tool,
    "mcp_tool_call_end": _tool,
}
