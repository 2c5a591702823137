"""The example records are real: the packet runs as it is, and the receipt is what it gave."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from codex_cli_bin import bundled_codex_path
from waybill.base import schema

TOP = Path(__file__).resolve().parents[2]
EXAMPLES = TOP / "schemas" / "examples"
LIMIT = 60  # seconds
# What differs from run to run.
VOLATILE = ("receipt_id", "started_at", "ended_at", "codex_session_id")
VOLATILE_VERDICT = ("author_id", "judge_name", "judge_program")


def load(name: str) -> Any:
    """An example."""
    return json.loads((EXAMPLES / name).read_text(encoding="utf-8"))


def steady(receipt: dict[str, Any]) -> dict[str, Any]:
    """A receipt without what differs from run to run."""
    found = {key: value for key, value in receipt.items() if key not in VOLATILE}
    found["stdin"] = {**found["stdin"], "closed_at": None}
    verdict = found["verdict"].items()
    found["verdict"] = {key: value for key, value in verdict if key not in VOLATILE_VERDICT}
    return found


def test_the_examples_are_valid() -> None:
    assert schema.errors("task-packet", load("task-packet.json")) == []
    assert schema.errors("run-receipt", load("run-receipt.json")) == []


def test_the_example_packet_runs_and_leaves_the_example_receipt(tmp_path: Path) -> None:
    repo, home = tmp_path / "project", tmp_path / "home"
    repo.mkdir()
    home.mkdir()
    own = [str(TOP / "bin"), str(Path(sys.executable).parent)]
    env = {
        "PATH": os.pathsep.join([*own, os.environ["PATH"]]),
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        "WAYBILL_CODEX": str(bundled_codex_path()),
    }

    def call(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            words, cwd=repo, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=LIMIT, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    (repo / "check").write_text("#!/bin/sh\ngrep '^hello' greeting.txt\n")
    (repo / "check").chmod(0o755)
    git = ["git", "-c", "user.name=Example", "-c", "user.email=example@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "start"]):
        assert call(*git, *words)[0] == 0
    rehearse = ["--rehearse", str(EXAMPLES / "rehearsal.yaml")]

    status, said = call("dispatch", *rehearse, str(EXAMPLES / "task-packet.json"))
    assert status == 0, said
    status, said = call("review", *rehearse, ".codex/runs/example/receipt.json")
    assert status == 0, said
    status, said = call("receipt-check", "--allow", "rehearsal", ".codex/runs/example")
    assert status == 0, said

    left = json.loads((repo / ".codex/runs/example/receipt.json").read_text())
    assert left["verdict"]["status"] == "PASS"
    assert steady(left) == steady(load("run-receipt.json"))
