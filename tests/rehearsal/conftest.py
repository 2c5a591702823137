"""A stage for the real Codex: a repository, a home, and a scripted model that it talks to."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from codex_cli_bin import bundled_codex_path
from waybill.rehearsal import home, script
from waybill.rehearsal.server import Server, serve

LIMIT = 60  # seconds for anything that should take one


@dataclass
class Turn:
    status: int
    events: list[dict[str, Any]]
    stderr: str

    def items(self, kind: str) -> list[dict[str, Any]]:
        """The completed items of that type."""
        done = (e["item"] for e in self.events if e["type"] == "item.completed")
        return [item for item in done if item["type"] == kind]

    @property
    def message(self) -> str:
        return str(self.items("agent_message")[-1]["text"])

    @property
    def error(self) -> str:
        """What the failed turn ended with."""
        (failed,) = (e for e in self.events if e["type"] == "turn.failed")
        return str(failed["error"]["message"])


class Stage:
    def __init__(self, root: Path, document: object, model: str) -> None:
        self.repo, self.home, self.log = root / "repo", root / "home", root / "log"
        self.server = serve(script.load(document), log=self.log)
        self.prompt = root / "prompt.txt"
        self.repo.mkdir()
        subprocess.run(["git", "init", "-q", self.repo], check=True)
        home.write_home(self.home, self.server.base_url, model=model)

    def start(self, *options: str, prompt: str = "go", home: Path | None = None) -> Any:
        self.prompt.write_text(prompt)
        words = [str(bundled_codex_path()), "exec", "--json", "--skip-git-repo-check"]
        env = {"PATH": os.environ["PATH"], "HOME": str(self.repo.parent)}
        with self.prompt.open("rb") as stdin:
            return subprocess.Popen(
                [*words, "--sandbox", "workspace-write", *options, "-"],
                cwd=self.repo,
                env={**env, "CODEX_HOME": str(home or self.home)},
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )

    def run(self, *options: str, prompt: str = "go", home: Path | None = None) -> Turn:
        with self.start(*options, prompt=prompt, home=home) as codex:
            try:
                out, err = codex.communicate(timeout=LIMIT)
            finally:
                codex.kill()
        return Turn(codex.returncode, [json.loads(line) for line in out.splitlines()], err)

    def requests(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted(self.log.glob("*.json"))]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    stages: list[Stage] = []

    def make(document: object, model: str = "gpt-5.4") -> Stage:
        stages.append(Stage(tmp_path, document, model))
        return stages[-1]

    yield make
    for one in stages:
        one.server.close()


@pytest.fixture
def serving() -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def make(document: object, log: Path | None = None) -> Server:
        servers.append(serve(script.load(document), log=log))
        return servers[-1]

    yield make
    for one in servers:
        one.close()


@pytest.fixture
def connections_end() -> Callable[[], bool]:
    """Waits for the threads of this process's connections; whether all ended."""

    def ended() -> bool:
        threads = [t for t in threading.enumerate() if "process_request_thread" in t.name]
        for thread in threads:
            thread.join(LIMIT)
        return not any(thread.is_alive() for thread in threads)

    return ended
