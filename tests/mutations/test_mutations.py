"""Bad input ends in a status of the table, with one line, and leaves nothing half-written.

For each record that a command reads, 500 seeded mutations of a good document: of its values,
of its shape, and of its bytes. Each runs the command's own entry point in a fork.
"""

from __future__ import annotations

import copy
import importlib.machinery
import importlib.util
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

# What the commands import only when they need it, imported once instead of in every fork.
import docopt  # noqa: F401
import filelock  # noqa: F401
import jsonschema  # noqa: F401
import pytest
import yaml  # noqa: F401
from waybill.base import command, exits, schema
from waybill.packet import checking, dispatch, making, recovery, review, verification
from waybill.rehearsal import server

PRELOADED = (checking, dispatch, making, recovery, review, server, verification)

ROOT = Path(__file__).resolve().parents[2]
COUNT = 500
ODD: list[Any] = [
    None, True, False, 0, -1, 1, 10**30, 1.5, 1e308, -0.0, "", " ", "\0", "\n", "x" * 5000,
    "../..", "/", "~", "./", "..", "a/../../b", "\u202e", "é" * 200, "\ud800", [], {}, [[]],
    {"a": 1}, ["\0"], [None], "2026-13-45T99:99:99Z", "PASS", "worker", "read-only", "--help",
]  # fmt: skip


def mutated(good: Any, seed: int) -> bytes:
    """One mutation of a document, as bytes."""
    chance = random.Random(seed)
    kind = chance.randrange(10)
    text = json.dumps(good, indent=1).encode()
    if kind == 0:
        at = chance.randrange(len(text))
        return text[:at] + bytes([chance.randrange(256)]) + text[at + 1 :]
    if kind == 1:
        return text[: chance.randrange(len(text))]
    if kind == 2:
        at = chance.randrange(len(text))
        return (
            text[:at]
            + chance.choice([b"\xff\xfe", b"\xef\xbb\xbf", b"\0", b"{", b"NaN"])
            + (text[at:])
        )
    document = copy.deepcopy(good)
    for _ in range(chance.randrange(1, 3)):
        _change(document, chance)
    return json.dumps(document).encode()


def _change(document: Any, chance: random.Random) -> None:
    """Change one thing somewhere in a document, in place."""
    holder = document
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            break
        key = chance.choice(keys)
        inner = holder[key]
        if isinstance(inner, dict | list) and inner and chance.random() < 0.7:
            holder = inner
            continue
        what = chance.randrange(4)
        if what == 0 and isinstance(holder, dict):
            del holder[key]
        elif what == 1 and isinstance(holder, dict):
            holder[chance.choice(["x", "", "schema_version", "packet_id"])] = chance.choice(ODD)
        elif what == 2 and isinstance(holder, list):
            holder.append(chance.choice(ODD))
        else:
            holder[key] = chance.choice(ODD)
        return


def entry(name: str) -> ModuleType:
    """An entry point, loaded as a module."""
    loader = importlib.machinery.SourceFileLoader(
        f"entry_{name.replace('-', '_')}", str(ROOT / "bin" / name)
    )
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def forked(module: ModuleType, words: list[str], cwd: Path, data: bytes) -> tuple[int, str]:
    """Run an entry point in a fork, the data on its stdin; its status and its stderr."""
    stdin, stderr = cwd.parent / "stdin", cwd.parent / "stderr"
    stdin.write_bytes(data)
    pid = os.fork()
    if pid == 0:
        try:
            os.chdir(cwd)
            for number, path, flags in (
                (0, str(stdin), os.O_RDONLY),
                (1, os.devnull, os.O_WRONLY),
                (2, str(stderr), os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
            ):
                os.dup2(os.open(path, flags), number)
            sys.stdin = os.fdopen(0, "r")
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
            sys.argv = [module.__doc__.split(None, 1)[0] if module.__doc__ else "x", *words]
            command.run(module.main, module.__doc__ or "")
        finally:
            os._exit(99)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), stderr.read_text(errors="replace")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a check, and a machine where nobody is logged in."""
    place = tmp_path / "project"
    place.mkdir()
    (place / "check").write_text("#!/bin/sh\nexit 0\n")
    (place / "check").chmod(0o755)
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("OPENAI_API_KEY", "CODEX_HOME", "WAYBILL_CODEX"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-qm", "base"]):
        subprocess.run(["git", *words], cwd=place, check=True)
    return place


def packet() -> dict[str, Any]:
    argv = ["codex", "exec", "--json", "--sandbox", "workspace-write", "--cd", "."]
    argv += ["--output-last-message", "out/final.md", "-c", "model_reasoning_effort=low", "-"]
    return {
        "schema_version": 1, "packet_id": "good", "created_at": "2026-01-01T00:00:00Z",
        "objective": "do it", "role": "worker", "cwd": ".", "allowed_paths": ["sub"],
        "forbidden_actions": ["none"], "sandbox": "workspace-write",
        "auth": {
            "required_mode": "chatgpt-subscription", "reject_env": ["OPENAI_API_KEY"],
            "login_status_must_contain": "Logged in using ChatGPT", "forbid_api_key": True,
        },
        "dispatch": {"mode": "non-mutating", "mutates_repo": False, "command": argv},
        "execution": {
            "argv": argv, "stdin": {"mode": "pipe-prompt", "close_after_prompt": True},
            "timeout_seconds": 5, "environment": {"A": "b"},
        },
        "output": {
            "capture_mode": "output-last-message", "final_message_path": "out/final.md",
            "jsonl_path": "out/events.jsonl", "receipt_path": "out/receipt.json",
        },
        "evidence": {
            "receipt_path": "out/receipt.json", "required_commands": ["./check"],
            "artifacts": ["out.txt"],
        },
        "resume": {"policy": "none", "allow_resume": False},
        "stop_condition": "done", "notes": ["n"],
    }  # fmt: skip


def receipt() -> dict[str, Any]:
    return {
        "schema_version": 1, "receipt_id": "r", "packet_id": "p", "codex_session_id": "s",
        "started_at": "2026-01-01T00:00:00Z", "ended_at": "2026-01-01T00:00:01Z", "cwd": ".",
        "sandbox": "read-only", "auth_mode": "chatgpt-subscription",
        "auth_status": "Logged in using ChatGPT", "command": {"argv": ["codex", "exec"]},
        "stdin": {"mode": "closed", "closed_at": "2026-01-01T00:00:00Z", "bytes_written": 0},
        "timeout_seconds": 5, "timed_out": False, "exit_code": 0,
        "outputs": {"final_message_path": "f", "receipt_path": "out/receipt.json"},
        "changed_files": ["a"], "commands_run": [{"command": "codex exec", "exit_code": 0}],
        "verdict": {
            "status": "PASS", "judge_source": "codex-review", "summary": "s", "author_id": "a",
            "judge_name": "b", "judge_program": "c", "judge_model_family": "gpt-5",
        },
        "evidence": [{"path": "f", "kind": "final-message"}],
    }  # fmt: skip


TASK = {
    "objective": "do it", "role": "worker", "cwd": ".", "sandbox": "workspace-write",
    "packet_id": "t", "timeout": 5, "allow": ["sub"], "forbid": ["x"], "require": ["./check"],
    "artifact": ["a"], "model": "m", "effort": "low", "stop_condition": "s", "note": ["n"],
    "env": {"A": "b"}, "run_dir": "out",
}  # fmt: skip
REHEARSAL = {
    "family": "f", "model": "gpt-5.4",
    "scripts": [
        {"match": "x", "steps": [{"exec": "ls", "login": False}, {"say": "hi", "usage": {
            "input": 1, "cached": 0, "output": 1, "reasoning": 0}}]},
        {"steps": [{"http": 429, "body": {"error": {"type": "x"}}}]},
    ],
}  # fmt: skip
LIST = [{"program": "true", "args": ["a"], "cwd": ".", "timeout": 2}]


def by_file(words: list[str]) -> Callable[[Path, bytes], list[str]]:
    """Command lines that name the mutated document as a file."""

    def made(place: Path, data: bytes) -> list[str]:
        path = place.parent / "document"
        path.write_bytes(data)
        return [*words, str(path)]

    return made


def by_stdin(words: list[str]) -> Callable[[Path, bytes], list[str]]:
    """Command lines that read the mutated document from stdin."""
    return lambda _place, _data: words


CASES = [
    pytest.param("dispatch", packet(), by_stdin([]), id="task-packet: dispatch"),
    pytest.param("dispatch", packet(), by_file(["--dry-run"]), id="task-packet: dry run"),
    pytest.param("packet-make", TASK, by_stdin([]), id="task: packet-make"),
    pytest.param("receipt-check", receipt(), by_stdin([]), id="run-receipt: receipt-check"),
    pytest.param("verify", receipt(), by_file([]), id="run-receipt: verify"),
    pytest.param("review", receipt(), by_stdin([]), id="run-receipt: review"),
    pytest.param("verify", LIST, by_file(["--list"]), id="verification-list: verify"),
    pytest.param("rehearsal-model", REHEARSAL, by_file([]), id="rehearsal: rehearsal-model"),
]


@pytest.mark.parametrize(("name", "good", "words"), CASES)
def test_a_mutated_document_ends_in_a_status_of_the_table(
    name: str, good: Any, words: Callable[[Path, bytes], list[str]], project: Path
) -> None:
    module = entry(name)
    for record in ("task-packet", "task", "run-receipt", "rehearsal", "verification-list"):
        schema.is_valid(record, None)
    seen: set[int] = set()
    for seed in range(COUNT):
        data = mutated(good, seed)
        status, said = forked(module, words(project, data), project, data)
        case = f"{name}, seed {seed}: {data[:300]!r}: {status}: {said}"
        assert status in exits.NAMES and status != exits.SOFTWARE, case
        assert "Traceback" not in said, case
        if status not in (exits.OK, exits.NO):
            faults = [row for row in said.splitlines() if "warning:" not in row]
            assert len(faults) == 1 and faults[0].startswith(f"{name}: "), case
        seen.add(status)
    assert len(seen) > 1, "the mutations must reach more than one answer"
    left = [path for path in project.rglob(".*.[0-9]*") if path.is_file()]
    assert left == [], "temporary files were left behind"


KEPT = [
    pytest.param("run.json", "receipt-check", [".codex/runs/kept"], id="run-record"),
    pytest.param("reviews/1/review.json", "receipt-check", [".codex/runs/kept"], id="review"),
    pytest.param("packet.json", "receipt-check", [".codex/runs/kept"], id="task-packet kept"),
    pytest.param("run.json", "verify", [".codex/runs/kept/receipt.json"], id="run-record: verify"),
    pytest.param("claim.json", "verify", [".codex/runs/kept/receipt.json"], id="claim"),
    pytest.param("../ledger.jsonl", "receipt-check", ["--ledger"], id="ledger-line"),
]


def finished(project: Path) -> Path:
    """A run that was dispatched and reviewed, by the real Codex under a scripted model."""
    answer = {"blockers": [], "warnings": ["w"], "summary": "s", "needsFix": False}
    script = project.parent / "script.json"
    script.write_text(
        json.dumps(
            {
                "scripts": [
                    {"match": "independent reviewer", "steps": [{"say": json.dumps(answer)}]},
                    {"steps": [{"exec": "echo x >made.txt"}, {"say": "made"}]},
                ]
            }
        )
    )
    chain = (
        "packet-make --objective 'make it' --packet-id kept --require ./check"
        f" | dispatch --rehearse {script} | review --rehearse {script}"
    )
    path = f"{ROOT / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path}
    subprocess.run(["bash", "-c", chain], cwd=project, env=env, check=True, capture_output=True)
    return project / ".codex" / "runs" / "kept"


@pytest.mark.parametrize(("record", "name", "words"), KEPT)
def test_a_mutated_record_of_a_run_ends_in_a_status_of_the_table(
    record: str, name: str, words: list[str], project: Path
) -> None:
    path = finished(project) / record
    good = path.read_bytes()
    document = json.loads(good.splitlines()[0] if record.endswith("jsonl") else good)
    module = entry(name)
    seen: set[int] = set()
    for seed in range(COUNT):
        path.write_bytes(mutated(document, seed))
        status, said = forked(module, words, project, b"")
        case = f"{record}, seed {seed}: {path.read_bytes()[:300]!r}: {status}: {said}"
        assert status in exits.NAMES and status != exits.SOFTWARE, case
        assert "Traceback" not in said and said.count("\n") <= 2, case
        seen.add(status)
        path.write_bytes(good)
    assert seen - {exits.OK}, "the mutations must be noticed"
