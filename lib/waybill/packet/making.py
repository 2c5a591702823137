"""Packets made from options and a YAML task: everything that a person need not write."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path
from typing import Any

from waybill.base import canonical, clock, command, document, exits, paths, schema
from waybill.base.exits import Fault, fault
from waybill.base.files import Folder, storing
from waybill.codex import argv as codex_argv
from waybill.codex import login
from waybill.packet import boundary, crosscheck, packet, preflight, rundir
from waybill.packet.packet import Packet
from waybill.tree import repository

TIMEOUT = 1800  # seconds; long enough for real work, short enough to be noticed
SANDBOXES = {"worker": "workspace-write"}  # every other role only reads

_SINGLE = {
    "--objective": "objective",
    "--role": "role",
    "--cwd": "cwd",
    "--sandbox": "sandbox",
    "--packet-id": "packet_id",
    "--model": "model",
    "--effort": "effort",
    "--resume": "resume",
    "--session-id": "session_id",
    "--stop-condition": "stop_condition",
    "--run-dir": "run_dir",
}
_LISTS = {
    "--allow": "allow",
    "--forbid": "forbid",
    "--require": "require",
    "--artifact": "artifact",
    "--note": "note",
}


def task(args: command.Arguments) -> dict[str, Any]:
    """The task: what the file says, with every option that is given in its place."""
    given: dict[str, Any] = {
        key: args[option] for option, key in _SINGLE.items() if args[option] is not None
    }
    given |= {key: list(args[option]) for option, key in _LISTS.items() if args[option]}
    if args["--timeout"] is not None:
        given["timeout"] = command.whole(args, "--timeout", least=1)
    if args["--env"]:
        given["env"] = dict(_pair(text) for text in args["--env"])
    options = {key: option for option, key in [*_SINGLE.items(), *_LISTS.items()]}
    for path, words in schema.errors("task", given):
        key = path.removeprefix("$.").split("[")[0].split(".")[0]
        raise Fault(exits.USAGE, options.get(key, f"--{key}"), words)
    found: Any = {}
    if args["TASK"] is not None or "objective" not in given:
        found, subject, _ = document.read(args["TASK"], yaml=True)
        found = schema.require("task", found, subject)
    merged = {**found, **given}
    if not merged.get("objective", "").strip():
        raise Fault(exits.USAGE, "--objective", "says what is wanted, and must not be blank")
    return merged


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise Fault(exits.USAGE, "--env", f"{text!r} is not NAME=VALUE")
    return name, value


def make(wanted: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The packet of a task, and the text of its prompt. Raises Fault 65 for what cannot be."""
    cwd = Path(wanted.get("cwd", ".")).absolute()
    try:
        real = paths.resolve(cwd)
    except paths.Escape as escape:
        raise Fault(exits.NOINPUT, str(cwd), str(escape)) from None
    if not os.path.isdir(real):
        raise Fault(exits.NOINPUT, str(cwd), "no such folder")
    role = wanted.get("role", "worker")
    sandbox = wanted.get("sandbox", SANDBOXES.get(role, "read-only"))
    packet_id = wanted.get("packet_id") or _new_id(wanted["objective"])
    unsafe = paths.unsafe_name(packet_id)
    if unsafe:
        raise fault("refused", packet_id, f"not a packet id: {unsafe}")
    run_dir = wanted.get("run_dir", f".codex/runs/{packet_id}")
    allowed = list(wanted.get("allow", []))
    if "run_dir" in wanted:
        run_dir = os.path.relpath(Path(run_dir).absolute(), cwd)
        if run_dir.split(os.sep)[0] == os.pardir:
            run_dir = str((cwd / run_dir).resolve())
            allowed.append(run_dir)
    argv = _argv(wanted, cwd, real, sandbox, run_dir)
    receipt_path = f"{run_dir}/{boundary.RECEIPT}"
    made: dict[str, Any] = {
        "schema_version": 1,
        "packet_id": packet_id,
        "created_at": clock.stamp(clock.now()),
        "objective": wanted["objective"],
        "role": role,
        "cwd": str(cwd),
        "allowed_paths": allowed,
        "forbidden_actions": list(wanted.get("forbid", [])),
        "sandbox": sandbox,
        "auth": {
            "required_mode": login.CHATGPT,
            "reject_env": ["OPENAI_API_KEY"],
            "login_status_must_contain": login.REQUIRED,
            "forbid_api_key": True,
        },
        "dispatch": {"mode": "non-mutating", "mutates_repo": False, "command": argv},
        "execution": {
            "argv": argv,
            "stdin": {"mode": "pipe-prompt", "close_after_prompt": True},
            "timeout_seconds": wanted.get("timeout", TIMEOUT),
            "environment": dict(wanted.get("env", {})),
        },
        "output": {
            "capture_mode": "output-last-message",
            "final_message_path": f"{run_dir}/{boundary.FINAL}",
            "jsonl_path": f"{run_dir}/{boundary.EVENTS}",
            "receipt_path": receipt_path,
        },
        "evidence": {
            "receipt_path": receipt_path,
            "required_commands": list(wanted.get("require", [])),
            "artifacts": list(wanted.get("artifact", [])),
        },
        "resume": _resume(wanted),
        "stop_condition": wanted.get("stop_condition") or _stop(wanted),
        "notes": list(wanted.get("note", [])),
    }
    found = packet.parse(made, "packet", canonical.pretty(made))
    crosscheck.check(found, Path.cwd(), crosscheck.Options())
    boundary.draw(found, Path.cwd())
    return made, prompt(made)


def _argv(wanted: dict[str, Any], cwd: Path, real: Path, sandbox: str, run_dir: str) -> list[str]:
    where = repository.find(real, os.environ)
    argv = ["codex", "exec", "--json", "--sandbox", sandbox, "--cd", str(cwd)]
    argv += ["--output-last-message", f"{run_dir}/{boundary.FINAL}"]
    if "model" in wanted:
        argv += ["--model", wanted["model"]]
    if "effort" in wanted:
        argv += ["-c", f"model_reasoning_effort={wanted['effort']}"]
    argv += ["-c", codex_argv.distrust(preflight.trust_folders(real, where))]
    if _resume(wanted)["policy"] == "session-id":
        argv += ["resume", wanted.get("session_id", "")]
    return [*argv, "-"]


def _resume(wanted: dict[str, Any]) -> dict[str, Any]:
    policy = wanted.get("resume", "session-id" if "session_id" in wanted else "none")
    if policy == "none":
        return {"policy": "none", "allow_resume": False}
    return {
        "policy": policy,
        "session_id": wanted.get("session_id", ""),
        "allow_resume": True,
    }


def _stop(wanted: dict[str, Any]) -> str:
    return "The required commands pass." if wanted.get("require") else "The objective is met."


def _new_id(objective: str) -> str:
    words = re.findall(r"[a-z0-9]+", objective.lower())[:5]
    slug = "-".join(words)[:40].strip("-") or "packet"
    return f"{slug}-{clock.compact(clock.now())}-{secrets.token_hex(2)}"


def prompt(made: dict[str, Any]) -> str:
    """The prompt that `--write` puts beside the packet: the objective, and what it must keep."""
    parts = [made["objective"].strip(), f"Done when: {made['stop_condition'].strip()}"]
    sections = (
        ("These commands are run afterwards and must pass:", made["evidence"]["required_commands"]),
        ("Leave these files:", made["evidence"]["artifacts"]),
        ("Do not:", made["forbidden_actions"]),
    )
    for title, entries in sections:
        if entries:
            parts.append("\n".join([title, *(f"- {entry}" for entry in entries)]))
    return "\n\n".join(parts) + "\n"


def write(made: dict[str, Any], text: str) -> dict[str, Any]:
    """Put packet.json and prompt.md into the run folder; the packet, which names the prompt."""
    run_dir = os.path.dirname(made["output"]["receipt_path"])
    made["execution"]["prompt_path"] = f"{run_dir}/{boundary.PROMPT}"
    data = canonical.pretty(made)
    found: Packet = packet.parse(made, "packet", data)
    with rundir.hold(boundary.draw(found, Path.cwd())) as held:
        folder: Folder = held.folder
        with storing(f"{folder.path}/{boundary.PACKET}"):
            if folder.status(boundary.PACKET) is not None:
                raise fault(
                    "refused", str(folder.path), "holds a packet already; give another --packet-id"
                )
            folder.replace(boundary.PROMPT, text.encode())
            folder.replace(boundary.PACKET, data)
    return made


def run(args: command.Arguments) -> int:
    """Make a packet and print it."""
    made, text = make(task(args))
    if args["--write"]:
        made = write(made, text)
    command.emit(made)
    return exits.OK
