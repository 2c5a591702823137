"""A project, the commands run in it as people run them, and a stand-in for Codex.

A project is a git repository with one commit and a home of its own. Every command gets an
environment that is built here, with a variable that marks what belongs to the test: it begins
with LC_, which is passed on to workers, so whatever a test leaves running is found by it.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
STANDIN = ROOT / "tests" / "standin" / "codex"
LIMIT = 60  # seconds for anything that should take one
MARK = "LC_WAYBILL_TEST"

AUTH_CLAIM = "https://api.openai.com/auth"
CHECK = "#!/bin/sh\n[ ! -e broken.txt ]\n"


@dataclass(frozen=True)
class Result:
    """How a command ended and what it said."""

    status: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """Standard output as one document."""
        return json.loads(self.stdout)

    @property
    def rows(self) -> list[Any]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.stdout.splitlines()]


def eventually(holds: Callable[[], object], limit: float = 20) -> bool:
    """Whether `holds` becomes true in time."""
    end = time.monotonic() + limit
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


class Standin:
    """A copy of the stand-in Codex, with knobs of its own."""

    def __init__(self, folder: Path, knobs: dict[str, Any]) -> None:
        folder.mkdir()
        self.folder, self.path = folder, folder / "codex"
        shutil.copy(STANDIN, self.path)
        self.turn(**knobs)

    def turn(self, **knobs: Any) -> None:
        """Set the knobs, all of them."""
        (self.folder / "knobs.json").write_text(json.dumps(knobs))

    @property
    def ran(self) -> bool:
        """Whether a worker was started."""
        return (self.folder / "call.json").exists()

    @property
    def call(self) -> dict[str, Any]:
        """argv, cwd, environment and pid of the last worker."""
        found: dict[str, Any] = json.loads((self.folder / "call.json").read_text())
        return found

    @property
    def stdin(self) -> bytes:
        """What the last worker read."""
        return (self.folder / "stdin.bin").read_bytes()

    @property
    def probes(self) -> list[list[str]]:
        """The short calls, in the order in which they were made."""
        rows = (self.folder / "probes.jsonl").read_text().splitlines()
        return [json.loads(row) for row in rows]


class Project:
    """A repository with one commit, a home, and the commands."""

    def __init__(self, root: Path) -> None:
        self.root, self.top, self.home = root, root / "project", root / "home"
        self.token = uuid.uuid4().hex
        path = [ROOT / "bin", Path(sys.executable).parent, "/usr/bin", "/bin"]
        self.env = {
            "PATH": os.pathsep.join(map(str, path)),
            "HOME": str(self.home),
            "XDG_STATE_HOME": str(self.home / "state"),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "LANG": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "A",
            "GIT_AUTHOR_EMAIL": "a@example.org",
            "GIT_COMMITTER_NAME": "A",
            "GIT_COMMITTER_EMAIL": "a@example.org",
            MARK: self.token,
        }
        self.home.mkdir()
        self.top.mkdir()
        self.git("init", "-q", "-b", "main")
        self.write("README", "one\n")
        self.write("check", CHECK, 0o755)
        self.commit()

    def keep(self) -> None:
        """Remember the project and its home as they are now."""
        for path in (self.top, self.home):
            shutil.copytree(path, self.root / "kept" / path.name, symlinks=True)

    def restore(self) -> None:
        """Put everything back as it was when it was kept."""
        for path in (self.top, self.home):
            shutil.rmtree(path)
            shutil.copytree(self.root / "kept" / path.name, path, symlinks=True)

    def git(self, *words: str) -> str:
        """What git says, run in the project."""
        done = subprocess.run(
            ["git", *words], cwd=self.top, env=self.env, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def commit(self, message: str = "c") -> None:
        """Commit everything that is there."""
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def write(self, name: str, text: str, mode: int = 0o644) -> Path:
        """A file of the project."""
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def script(self, steps: Any) -> str:
        """The path of a rehearsal script."""
        path = self.root / f"script-{uuid.uuid4().hex[:8]}.json"
        path.write_text(json.dumps(steps))
        return str(path)

    def start(
        self,
        name: str,
        *words: str | Path,
        stdin: Any = None,
        env: Mapping[str, str | None] | None = None,
        cwd: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        """A command, started; a variable that is None in `env` is taken out."""
        given = {**self.env, **(env or {})}
        source: Any = subprocess.DEVNULL
        if stdin is not None:
            path = self.root / f"stdin-{uuid.uuid4().hex[:8]}"
            path.write_bytes(_bytes(stdin))
            source = path.open("rb")
        try:
            return subprocess.Popen(
                [name, *map(str, words)],
                cwd=cwd or self.top,
                env={key: value for key, value in given.items() if value is not None},
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        finally:
            if stdin is not None:
                source.close()

    def finish(self, process: subprocess.Popen[bytes]) -> Result:
        """The end of a command that was started."""
        with process:
            try:
                out, err = process.communicate(timeout=LIMIT)
            except BaseException:
                process.kill()
                raise
        return Result(process.returncode, out.decode(), err.decode())

    def run(self, name: str, *words: str | Path, **given: Any) -> Result:
        """A command from its start to its end. `stdin` is text, bytes or a document."""
        return self.finish(self.start(name, *words, **given))

    def rehearse(self, steps: Any, packet: Any, *words: str | Path, **given: Any) -> Result:
        """A packet dispatched to the real Codex, with a scripted model that plays the steps."""
        return self.run("dispatch", "--rehearse", self.script(steps), *words, stdin=packet, **given)

    def model(self, steps: Any) -> Model:
        """A scripted model that goes on until it is closed, and keeps what it is asked."""
        log = self.root / f"log-{uuid.uuid4().hex[:8]}"
        words = ["rehearsal-model", "--log", str(log), self.script(steps)]
        process = subprocess.Popen(
            words, env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        return Model(process, json.loads(process.stdout.readline())["base_url"], log)

    def login(self, model: Model, config: str = "") -> dict[str, str]:
        """A Codex home with a ChatGPT login that nobody gave, whose provider is that model.

        What leads to it; every other way out leads to a port where nobody listens.
        """
        from waybill.rehearsal import home

        folder = self.home / "codex"
        home.write_home(folder, model.base_url)
        (folder / "config.toml").open("a").write(config)
        claims = {
            "email": "a@example.org",
            "exp": 4102444800,
            AUTH_CLAIM: {"chatgpt_plan_type": "plus"},
        }
        token = ".".join(map(_part, ({"alg": "none"}, claims, {})))
        tokens = {"id_token": token, "access_token": token, "refresh_token": "r", "account_id": "a"}
        given = {"OPENAI_API_KEY": None, "tokens": tokens, "last_refresh": "2099-01-01T00:00:00Z"}
        (folder / "auth.json").write_text(json.dumps(given))
        nowhere = "http://127.0.0.1:9"
        proxies = {"HTTPS_PROXY": nowhere, "HTTP_PROXY": nowhere, "NO_PROXY": "127.0.0.1"}
        return {"CODEX_HOME": str(folder), **proxies}

    def folder(self, packet_id: str = "t1") -> Path:
        """A packet's run folder, where the packet does not say otherwise."""
        return self.top / ".codex" / "runs" / packet_id

    def record(self, packet_id: str = "t1") -> dict[str, Any]:
        """run.json of a packet."""
        found: dict[str, Any] = json.loads((self.folder(packet_id) / "run.json").read_text())
        return found

    def receipt(self, packet_id: str = "t1") -> dict[str, Any]:
        """The receipt of a packet, as it lies in front."""
        found: dict[str, Any] = json.loads((self.folder(packet_id) / "receipt.json").read_text())
        return found

    def alive(self) -> list[int]:
        """Every process that carries this test's mark, without zombies."""
        mark = f"{MARK}={self.token}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    environment = (entry / "environ").read_bytes()
                except OSError:
                    continue
                if mark in environment:
                    found.append(int(entry.name))
        return found

    def idle(self, limit: float = 5) -> bool:
        """Whether nothing that carries the mark is left within the limit."""
        return eventually(lambda: not self.alive(), limit)


@dataclass
class Model:
    """A scripted model at work."""

    process: subprocess.Popen[bytes]
    base_url: str
    log: Path

    def requests(self) -> list[dict[str, Any]]:
        """The bodies of the requests for answers, in order."""
        found = [json.loads(path.read_text()) for path in sorted(self.log.glob("*.json"))]
        return [row["body"] for row in found if row["body"] is not None]

    def close(self) -> None:
        """End it."""
        self.process.communicate(timeout=LIMIT)

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _part(claims: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")


def _bytes(given: Any) -> bytes:
    if isinstance(given, bytes):
        return given
    return (given if isinstance(given, str) else json.dumps(given)).encode()


def watched(made: Project) -> Iterator[Project]:
    """Whatever a project has left running at the end fails the test."""
    yield made
    survivors = [] if made.idle() else made.alive()
    for pid in survivors:
        os.kill(pid, signal.SIGKILL)
    assert not survivors


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A new project."""
    yield from watched(Project(tmp_path))


WORK = [{"exec": "echo new > new.txt"}, {"say": "It is done."}]
PASS = {"blockers": [], "warnings": [], "summary": "Looked at all of it.", "needsFix": False}


@pytest.fixture(scope="session")
def _worked(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = Project(tmp_path_factory.mktemp("worked"))
    given = document(made.top)
    given["evidence"]["required_commands"] = ["./check"]
    assert made.rehearse(WORK, given).status == 0
    made.keep()
    return made


@pytest.fixture
def worked(_worked: Project) -> Iterator[Project]:
    """A project with a run that is ok: new.txt is new, and ./check says yes. Made once."""
    _worked.restore()
    yield from watched(_worked)


@pytest.fixture(scope="session")
def _judged(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = Project(tmp_path_factory.mktemp("judged"))
    made.write("README", "uncommitted\n")
    given = document(made.top)
    given["evidence"]["required_commands"] = ["./check"]
    given["evidence"]["artifacts"] = ["new.txt"]
    done = made.rehearse(WORK, given)
    script = made.script([{"say": json.dumps(PASS)}])
    done = made.run("review", "--rehearse", script, stdin=done.stdout)
    assert done.status == 0
    made.keep()
    return made


@pytest.fixture
def judged(_judged: Project) -> Iterator[Project]:
    """A project with a run that is ok, on a changed base, and has a PASS. Made once."""
    _judged.restore()
    yield from watched(_judged)


@pytest.fixture
def run(project: Project) -> Callable[..., Result]:
    """Run a command in the project."""
    return project.run


@pytest.fixture
def standin(tmp_path: Path) -> Callable[..., Standin]:
    """Make a stand-in Codex with these knobs."""
    return lambda **knobs: Standin(tmp_path / f"standin-{uuid.uuid4().hex[:6]}", knobs)


def document(top: Path, packet_id: str = "t1") -> dict[str, Any]:
    """A good packet for a worker that writes."""
    run_dir = f".codex/runs/{packet_id}"
    argv = ["codex", "exec", "--json", "--sandbox", "workspace-write"]
    untrusted = f'projects={{{json.dumps(str(top))}={{trust_level="untrusted"}}}}'
    argv += ["--output-last-message", f"{run_dir}/final.md", "-c", untrusted, "-"]
    return {
        "schema_version": 1,
        "packet_id": packet_id,
        "created_at": "2026-01-02T03:04:05Z",
        "objective": "Do it.",
        "role": "worker",
        "cwd": str(top),
        "allowed_paths": [],
        "forbidden_actions": [],
        "sandbox": "workspace-write",
        "auth": {
            "required_mode": "chatgpt-subscription",
            "reject_env": ["OPENAI_API_KEY"],
            "login_status_must_contain": "Logged in using ChatGPT",
            "forbid_api_key": True,
        },
        "dispatch": {"mode": "non-mutating", "mutates_repo": False, "command": argv},
        "execution": {
            "argv": argv,
            "stdin": {"mode": "pipe-prompt", "close_after_prompt": True},
            "timeout_seconds": 60,
        },
        "output": {
            "capture_mode": "output-last-message",
            "final_message_path": f"{run_dir}/final.md",
            "jsonl_path": f"{run_dir}/events.jsonl",
            "receipt_path": f"{run_dir}/receipt.json",
        },
        "evidence": {"receipt_path": f"{run_dir}/receipt.json", "required_commands": []},
        "stop_condition": "It is done.",
    }


@pytest.fixture
def packet(project: Project) -> Callable[..., dict[str, Any]]:
    """Make a packet: a good one, with changes by dotted key; None takes a key out.

    `argv` is put into both places where it stands. A list [old, new] under `swap` replaces
    one word of it, and `sandbox` changes the word in it too.
    """

    def make(changes: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        given = {**(changes or {}), **more}
        made = document(project.top, str(given.pop("packet_id", "t1")))
        argv = list(given.pop("argv", made["execution"]["argv"]))
        if "sandbox" in given:
            argv = [given["sandbox"] if word == made["sandbox"] else word for word in argv]
        made["execution"]["argv"] = made["dispatch"]["command"] = argv
        for key, value in given.items():
            place = made
            *parents, last = key.split(".")
            for name in parents:
                place = place.setdefault(name, {})
            if value is None:
                place.pop(last, None)
            else:
                place[last] = value
        return json.loads(json.dumps(made))  # type: ignore[no-any-return]

    return make
