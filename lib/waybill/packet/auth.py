"""The auth guard: who the worker would be, decided under its own environment and binary.

Pure rules. OPENAI_API_KEY is always forbidden, a packet cannot opt out; so is what Codex
prefers to the login it reports.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from waybill.base.exits import Fault, fault
from waybill.codex import login

ALWAYS = "OPENAI_API_KEY"
# Codex takes these before the ChatGPT login, and `login status` does not say so. They are not
# in the list of what a worker is given, so only a packet or --pass-env can bring them.
PREFERRED = ("CODEX_API_KEY", "CODEX_ACCESS_TOKEN")
REHEARSAL = "rehearsal: a scripted model, no login asked for"


@dataclass(frozen=True)
class Auth:
    """What the guard saw."""

    mode: str
    status: str
    names: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """As run.json holds it."""
        return {"mode": self.mode, "status": self.status, "environment_names": list(self.names)}


def forbidden(rejected: list[str]) -> list[str]:
    """The forbidden names: the packet's in order, then the one that always is."""
    named = [name.strip() for name in rejected if name.strip()]
    return list(dict.fromkeys([*named, ALWAYS]))


def refusal(
    rejected: list[str],
    ambient: Mapping[str, str],
    packet: Mapping[str, str],
    passed: Collection[str],
) -> str | None:
    """Why the environment is refused, naming the variable and where it is; else None."""
    names = forbidden(rejected)
    for name in names:
        if ambient.get(name):
            return f"{name} in environment: unset it; the worker uses the ChatGPT login"
        if name in packet:
            return f"{name} in packet execution.environment: take it out"
    for name in (*names, *PREFERRED):
        if name in packet:
            return f"{name} in packet execution.environment: Codex would prefer it to the login"
        if name in passed:
            return f"{name} in --pass-env: Codex would prefer it to the login"
    return None


def judge(exit_code: int, text: str, environment: Mapping[str, str]) -> tuple[Auth, Fault | None]:
    """What the login status says, and the fault when it is not the ChatGPT subscription."""
    mode = login.mode(exit_code, text)
    status = login.summary(text) or f"login status exited {exit_code} and said nothing"
    names = tuple(sorted(n for n in environment if "KEY" in n or "TOKEN" in n or n == "CODEX_HOME"))
    found = Auth(mode, status, names)
    if mode == login.CHATGPT:
        return found, None
    return found, fault(
        "auth",
        "codex login status",
        f"ChatGPT subscription auth is required, and it says: {status}; run: codex login",
    )
