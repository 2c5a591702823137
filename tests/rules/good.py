"""A good packet that needs no file, and changes to it."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from waybill.packet import packet
from waybill.packet.packet import Packet

ARGV = ["codex", "exec", "--json", "--sandbox", "workspace-write", "-"]
RUN = ".codex/runs/t1"

DOCUMENT: dict[str, Any] = {
    "schema_version": 1,
    "packet_id": "t1",
    "created_at": "2026-01-02T03:04:05Z",
    "objective": "Do it.",
    "role": "worker",
    "cwd": ".",
    "sandbox": "workspace-write",
    "auth": {
        "required_mode": "chatgpt-subscription",
        "reject_env": ["OPENAI_API_KEY"],
        "login_status_must_contain": "Logged in using ChatGPT",
        "forbid_api_key": True,
    },
    "dispatch": {"mode": "non-mutating", "mutates_repo": False, "command": ARGV},
    "execution": {
        "argv": ARGV,
        "stdin": {"mode": "pipe-prompt", "close_after_prompt": True},
        "timeout_seconds": 60,
    },
    "output": {
        "capture_mode": "output-last-message",
        "final_message_path": f"{RUN}/final.md",
        "receipt_path": f"{RUN}/receipt.json",
    },
    "evidence": {"receipt_path": f"{RUN}/receipt.json", "required_commands": []},
    "stop_condition": "It is done.",
}


def changed(changes: dict[str, Any]) -> dict[str, Any]:
    """The good document with changes by dotted path; `argv` changes both places where it is."""
    document = copy.deepcopy(DOCUMENT)
    for path, value in changes.items():
        if path == "argv":
            document["dispatch"]["command"] = document["execution"]["argv"] = list(value)
            continue
        *parents, last = path.split(".")
        place = document
        for name in parents:
            place = place.setdefault(name, {})
        place[last] = value
    return document


def make(changes: dict[str, Any] | None = None, cwd: Path | None = None) -> Packet:
    """The good packet with changes, read as a packet is."""
    document = changed({**({"cwd": str(cwd)} if cwd else {}), **(changes or {})})
    return packet.parse(document, "packet.json", json.dumps(document).encode())
