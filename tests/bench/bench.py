"""Measure what dispatch costs, as pairs in one run, and print JSON.

Each pair runs the bare command and ours in turn, in the same warm Codex home against the same
scripted model, so that what the machine does to one it does to the other. Figures: median, 10th
and 90th percentile of the pairs, and every raw pair in seconds.
"""

from __future__ import annotations

import base64
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from waybill.codex import binary
from waybill.rehearsal import home, spawn

ROUNDS = int(os.environ.get("ROUNDS", "10"))
COMMANDS = ("packet-make", "dispatch", "verify", "review", "receipt-check")
WORK = {"exec": "sleep 1.1", "yield_time_ms": 5000}
SCRIPT = {
    "scripts": [
        {"match": "three commands", "steps": [WORK, WORK, WORK, {"say": "done"}]},
        {"match": "one word", "steps": [{"say": "done"}]},
    ]
}


def login() -> dict[str, Any]:
    """A made-up ChatGPT login: the scripted model asks for none, and the auth guard does."""

    def part(claims: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()

    claims = {
        "email": "bench@example.org",
        "exp": 4102444800,
        "https://api.openai.com/auth": {
            "chatgpt_plan_type": "plus",
            "chatgpt_user_id": "u",
            "chatgpt_account_id": "a",
        },
    }
    token = ".".join([part({"alg": "none"}), part(claims), "c2ln"])
    tokens = {"id_token": token, "access_token": token, "refresh_token": "made-up"}
    return {
        "auth_mode": "chatgpt",
        "OPENAI_API_KEY": None,
        "tokens": {**tokens, "account_id": "a"},
        "last_refresh": "2026-01-01T00:00:00Z",
    }


class Place:
    """A repository, a Codex home and a scripted model."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.repo, self.home = folder, folder / "repo", folder / "codex-home"
        self.repo.mkdir()
        script = folder / "script.json"
        script.write_text(json.dumps(SCRIPT))
        self.model = spawn.spawn(script)
        home.write_home(self.home, self.model.base_url)
        (self.home / "auth.json").write_text(json.dumps(login()))
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith("GIT_")},
            "CODEX_HOME": str(self.home),
            "XDG_STATE_HOME": str(folder / "state"),
        }
        self.env.pop("OPENAI_API_KEY", None)
        self.codex = binary.locate(None, self.env)
        self.count = 0
        for words in (
            ["git", "init", "-q"],
            ["git", "-c", "user.name=b", "-c", "user.email=b@example.org", "commit", "-q",
             "--allow-empty", "-m", "base"],
        ):  # fmt: skip
            subprocess.run(words, cwd=self.repo, env=self.env, check=True)

    def bare(self, objective: str) -> float:
        """Seconds of a bare `codex exec`."""
        words = [self.codex, "exec", "--json", "--sandbox", "workspace-write"]
        words += ["-c", f'projects={{"{self.repo}"={{trust_level="untrusted"}}}}', "-"]
        return timed(words, cwd=self.repo, env=self.env, stdin=objective.encode())

    def ours(self, objective: str) -> float:
        """Seconds of a dispatch of the same; the packet is made outside the clock."""
        self.count += 1
        words = ["packet-make", "--objective", objective, "--packet-id", f"bench-{self.count}"]
        done = subprocess.run(words, cwd=self.repo, env=self.env, check=True, capture_output=True)
        packet = self.folder / f"packet-{self.count}.json"
        packet.write_bytes(done.stdout)
        words = ["dispatch", "--allow-no-change", "--", str(packet)]
        return timed(words, cwd=self.repo, env=self.env, stdin=b"")


def timed(words: list[str], *, cwd: Path, env: dict[str, str], stdin: bytes) -> float:
    """Seconds of one command, which must succeed."""
    began = time.perf_counter()
    done = subprocess.run(words, cwd=cwd, env=env, input=stdin, capture_output=True)
    took = time.perf_counter() - began
    if done.returncode != 0:
        raise SystemExit(f"bench: {words[0]}: exit {done.returncode}: {done.stderr[-500:]!r}")
    return took


def alone(words: list[str]) -> float:
    """Seconds of a command that reads nothing."""
    return timed(words, cwd=Path.cwd(), env=dict(os.environ), stdin=b"")


def pairs(rounds: int, one: Callable[[], float], other: Callable[[], float]) -> list[list[float]]:
    """Raw pairs, in turn; the first of each is a warm-up and is not counted."""
    one()
    other()
    return [[one(), other()] for _ in range(rounds)]


def figure(
    name: str, commands: list[str], unit: str, raw: list[list[float]], values: list[float],
    aim: str, met: Callable[[float], bool],
) -> dict[str, Any]:  # fmt: skip
    """One benchmark as printed."""
    ordered = sorted(values)
    middle = statistics.median(ordered)
    tenths = statistics.quantiles(ordered, n=10) if len(ordered) > 1 else [middle] * 9
    return {
        "name": name,
        "commands": commands,
        "n": len(values),
        "unit": unit,
        "median": round(middle, 4),
        "p10": round(tenths[0], 4),
        "p90": round(tenths[-1], 4),
        "aim": aim,
        "met": met(middle),
        "pairs": [[round(value, 4) for value in pair] for pair in raw],
    }


def main() -> int:
    """Print every figure; 0 whether or not the aims are met, which the figures say."""
    base = Path.home() / ".cache" / "waybill"
    base.mkdir(parents=True, exist_ok=True)
    found = []
    with tempfile.TemporaryDirectory(dir=base) as folder:
        place = Place(Path(folder))
        try:
            bare, ours = "codex exec --json --sandbox workspace-write -", "dispatch PACKET"
            raw = pairs(
                ROUNDS, lambda: place.bare("three commands"), lambda: place.ours("three commands")
            )
            ratios = [b / a for a, b in raw]
            found.append(
                figure("dispatch against bare, three commands of over 3 s", [bare, ours],
                       "ratio", raw, ratios, "at most 1.10", lambda value: value <= 1.10)
            )  # fmt: skip
            raw = pairs(2 * ROUNDS, lambda: place.bare("one word"), lambda: place.ours("one word"))
            costs = [1000 * (b - a) for a, b in raw]
            found.append(
                figure("dispatch against bare, fixed cost of a one-word turn", [bare, ours],
                       "ms", raw, costs, "at most 200", lambda value: value <= 200)
            )  # fmt: skip
        finally:
            place.model.close()
        for command in COMMANDS:
            bare_python = functools.partial(alone, [sys.executable, "-c", "pass"])
            raw = pairs(2 * ROUNDS, bare_python, functools.partial(alone, [command, "--help"]))
            ratios = [b / a for a, b in raw]
            found.append(
                figure(f"{command} --help against the bare interpreter",
                       ["python -c pass", f"{command} --help"], "ratio", raw, ratios,
                       "at most 3", lambda value: value <= 3)
            )  # fmt: skip
    print(json.dumps({"benchmarks": found}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
