"""A tool call, as the item of a response that asks Codex for it.

The models of code mode have one tool, `exec`, which runs JavaScript; there the steps that
run a command or apply a patch become such a program, so that one script suits any model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

STEPS = ("exec", "shell", "call", "custom", "patch", "search", "code")

# Keys of an `exec` step that are about the answer; every other key is an argument.
_ABOUT = ("exec", "usage", "sleep", "pre", "headers")


def is_code_mode(body: Mapping[str, Any]) -> bool:
    """Whether the request comes from a model whose tools stand inside an input item."""
    items = body.get("input")
    return (
        not body.get("tools")
        and isinstance(items, list)
        and any(isinstance(one, dict) and one.get("type") == "additional_tools" for one in items)
    )


def item(step: Mapping[str, Any], ident: str, code_mode: bool) -> dict[str, Any]:
    """The output item for one calling step; `ident` makes its ids unlike any other's."""
    if code_mode:
        step = _as_code(step)
    if "exec" in step:
        return _function("exec_command", _exec_arguments(step), ident)
    if "shell" in step:
        return _function("shell_command", _shell_arguments(step), ident)
    if "call" in step:
        return _function(step["call"], step.get("args", {}), ident, step.get("ns"))
    if "search" in step:
        arguments = {"query": step["search"], "limit": 8}
        head = _head("tool_search_call", "tsc", ident)
        return {**head, "execution": "client", "arguments": arguments}
    if "custom" in step:
        return _custom(step["custom"], step["input"], ident, step.get("ns"))
    if "patch" in step:
        return _custom("apply_patch", step["patch"], ident)
    return _custom("exec", step["code"], ident)


def _as_code(step: Mapping[str, Any]) -> Mapping[str, Any]:
    if "patch" in step:
        return {"code": f"text(await tools.apply_patch({json.dumps(step['patch'])}));"}
    if "exec" in step:
        arguments = _exec_arguments(step)
    elif "shell" in step:
        arguments = _shell_arguments(step)
        arguments["cmd"] = arguments.pop("command")
        arguments.pop("timeout_ms", None)
    else:
        return step
    code = f"const done = await tools.exec_command({json.dumps(arguments)});\ntext(done.output);"
    if "yield_time_ms" in arguments:
        # The program must outwait its command, and gives up after 30 s by itself.
        code = f'// @exec: {{"yield_time_ms": {arguments["yield_time_ms"] + 5000}}}\n{code}'
    return {"code": code}


def _exec_arguments(step: Mapping[str, Any]) -> dict[str, Any]:
    # A login shell reads profiles that may print; the output would not be the command's.
    extra = {key: value for key, value in step.items() if key not in _ABOUT}
    return {"cmd": step["exec"], "login": False, **extra}


def _shell_arguments(step: Mapping[str, Any]) -> dict[str, Any]:
    extra = {key: step[key] for key in ("workdir", "login", "timeout_ms") if key in step}
    return {"command": step["shell"], "login": False, **extra}


def _head(kind: str, prefix: str, ident: str) -> dict[str, Any]:
    return {
        "type": kind,
        "id": f"{prefix}_{ident}",
        "call_id": f"call_{ident}",
        "status": "completed",
    }


def _function(name: str, arguments: object, ident: str, ns: str | None = None) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    head = _head("function_call", "fc", ident)
    return {**head, "name": name, "arguments": text, **({"namespace": ns} if ns else {})}


def _custom(name: str, text: str, ident: str, ns: str | None = None) -> dict[str, Any]:
    head = _head("custom_tool_call", "ctc", ident)
    return {**head, "name": name, "input": text, **({"namespace": ns} if ns else {})}
