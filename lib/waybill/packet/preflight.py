"""Everything that is checked before Codex starts, with nothing of the run created.

A dry run and a real one go through the same function, so that they cannot disagree.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from waybill.base import canonical, document, exits, process
from waybill.base.exits import Fault, fault
from waybill.base.files import Folder
from waybill.codex import argv as codex_argv
from waybill.codex import binary
from waybill.packet import auth, checks, environment, evidence
from waybill.packet.auth import Auth
from waybill.packet.boundary import Boundary
from waybill.packet.evidence import Pin
from waybill.packet.packet import Packet
from waybill.tree import repository

PROBE_SECONDS = 30.0  # for --version, --help and login status; each takes 15 ms when all is well
MOST_PROMPT = 16 << 20  # bytes


@dataclass(frozen=True)
class Asked:
    """What the command line asks for beside the packet."""

    codex: str | None = None
    pass_env: tuple[str, ...] = ()
    allow_flags: tuple[str, ...] = ()
    allow_unpinned: bool = False
    trust_project: bool = False
    allow_no_change: bool = False
    defer_evidence: bool = False
    confine_evidence: bool = False
    rehearse: str | None = None

    def relaxations(self) -> list[str]:
        """What was let through on request; every one is recorded."""
        named = {
            "allow-unpinned": self.allow_unpinned,
            "trust-project": self.trust_project,
            "allow-no-change": self.allow_no_change,
            "confine-evidence": self.confine_evidence,
        }
        flags = [f"allow-flag {name}" for name in self.allow_flags]
        passed = [f"pass-env {name}" for name in self.pass_env]
        return [name for name, given in named.items() if given] + flags + passed


@dataclass
class Ready:
    """What is known when the checks are through; what a refusal leaves is filled so far."""

    binary: str | None = None
    version: str | None = None
    argv: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    repository: repository.Repository | None = None
    auth: Auth | None = None
    pins: list[Pin] = field(default_factory=list)
    prompt: bytes | None = None
    answer_schema: Any = None
    warnings: list[str] = field(default_factory=list)


def check(
    packet: Packet,
    boundary: Boundary,
    said: codex_argv.Invocation,
    asked: Asked,
    ambient: Mapping[str, str],
    ready: Ready,
) -> None:
    """Fill `ready` in the order of the checks. Raises the Fault of the first that fails."""
    ready.prompt = _prompt(packet, boundary)
    ready.answer_schema = _answer_schema(boundary)

    def settle() -> None:
        ready.repository = _repository(packet, boundary, said, asked, ready)

    codex(packet, boundary.cwd, packet.argv, said, asked, ambient, ready, settle)
    ready.pins = _pins(packet, boundary, asked)
    if asked.confine_evidence and ready.pins:
        _confined(packet, boundary, ready)


def _confined(packet: Packet, boundary: Boundary, ready: Ready) -> None:
    """The sandbox works here: a command that is to be confined is never run without it."""
    assert ready.binary is not None
    confinement = checks.Confinement(ready.binary, boundary.cwd, writable=packet.writable)
    try:
        confinement.require(environment.evidence(ready.environment))
    finally:
        confinement.close()


def codex(
    packet: Packet,
    cwd: Path,
    argv: list[str],
    said: codex_argv.Invocation,
    asked: Asked,
    ambient: Mapping[str, str],
    ready: Ready,
    settle: Callable[[], None] = lambda: None,
) -> None:
    """Find Codex, compare its flags, and guard the login, for one command line in one folder.

    `settle` is called between the flags and the login.
    """
    ready.environment = environment.worker(ambient, packet.environment, asked.pass_env)
    ready.binary = binary.locate(asked.codex, ambient)
    ready.argv = [ready.binary, *argv[1:]]
    refused = auth.refusal(
        packet.document["auth"]["reject_env"], ambient, packet.environment, asked.pass_env
    )
    ask_login = refused is None and asked.rehearse is None
    probes = _Probes(ready.binary, cwd, ready.environment, login=ask_login)
    try:
        ready.version = _version(probes, ready.binary)
        _flags(probes, said, ready)
        settle()
        if refused is not None:
            ready.auth = Auth("unknown", f"not asked: {refused}")
            raise fault("auth", packet.packet_id, refused)
        if asked.rehearse is not None:
            ready.auth = Auth("unknown", auth.REHEARSAL)
        else:
            ready.auth, wrong = auth.judge(*probes.login(), ready.environment)
            if wrong is not None:
                raise wrong
    finally:
        probes.close()


class _Probes:
    """The short calls to Codex, all started at once."""

    def __init__(self, path: str, cwd: Path, env: Mapping[str, str], *, login: bool) -> None:
        self.path = path
        calls = {"version": ["--version"], "help": ["exec", "--help"]}
        if login:
            calls["login"] = ["login", "status"]
        self._pending: dict[str, process.Pending] = {}
        try:
            for name, words in calls.items():
                self._pending[name] = process.start([path, *words], cwd=str(cwd), env=dict(env))
        except OSError as error:
            self.close()
            raise fault(
                "launch_failed", path, f"cannot be started: {error.strerror or error}"
            ) from None

    def finish(self, name: str) -> process.Finished:
        return self._pending.pop(name).finish(PROBE_SECONDS)

    def login(self) -> tuple[int, str]:
        done = self.finish("login")
        if done.timed_out:
            return -1, f"no answer within {PROBE_SECONDS:g} s"
        text = (done.stdout + b"\n" + done.stderr).decode("utf-8", "replace")
        return (done.exit_code if done.exit_code is not None else -1), text.strip()

    def close(self) -> None:
        for pending in self._pending.values():
            pending.cancel()


def _version(probes: _Probes, path: str) -> str:
    done = probes.finish("version")
    text = done.stdout.decode("utf-8", "replace")
    found = binary.version(text) if done.exit_code == 0 else None
    if found is None:
        said = " ".join(text.split())[:80] or f"exit {done.exit_code}"
        raise fault("config_error", path, f"--version is not that of Codex: {said!r}")
    return found


def _flags(probes: _Probes, said: codex_argv.Invocation, ready: Ready) -> None:
    """Every flag used is one that this version knows."""
    done = probes.finish("help")
    known = binary.flags(done.stdout.decode("utf-8", "replace"))
    if not known:
        ready.warnings.append("exec --help names no flags: they could not be compared")
        return
    for name in said.spellings():
        if name not in known and not name.startswith("-c:"):
            raise fault("config_error", f"codex {ready.version}", f"does not know the flag {name}")


def _repository(
    packet: Packet,
    boundary: Boundary,
    said: codex_argv.Invocation,
    asked: Asked,
    ready: Ready,
) -> repository.Repository:
    found = repository.find(boundary.cwd, ready.environment)
    if found.kind == "folder" and "--skip-git-repo-check" not in said.flags:
        raise fault(
            "config_error",
            str(boundary.cwd),
            "is in no git repository; a packet may say --skip-git-repo-check",
        )
    loads = projects_with_settings(boundary.cwd, Path(found.top))
    named = codex_argv.distrusted(said.config.get("projects", "")) or set()
    if loads and not asked.trust_project and not {str(boundary.cwd), *loads} <= named:
        raise fault(
            "config_error",
            f"{loads[0]}/.codex/config.toml",
            "Codex would trust this project and start what the file names, outside the sandbox;"
            f" put -c {codex_argv.distrust(trust_folders(boundary.cwd, found))} into the command,"
            " or give --trust-project",
        )
    if found.kind == "git" and "projects" not in said.config and packet.writable:
        ready.warnings.append(
            "the command does not say that the project is untrusted: Codex will note it as trusted"
        )
    if loads and asked.trust_project:
        ready.warnings += [f"trusted: {folder}/.codex/config.toml" for folder in loads]
    return found


def projects_with_settings(cwd: Path, top: Path) -> list[str]:
    """The folders from cwd up to the top whose .codex/config.toml Codex would load."""
    folders = [cwd, *(parent for parent in cwd.parents if parent == top or top in parent.parents)]
    return [str(folder) for folder in folders if (folder / ".codex" / "config.toml").exists()]


def trust_folders(cwd: Path, found: repository.Repository) -> list[str]:
    """Every folder by which Codex may look up trust for cwd.

    Codex 0.149 looks at the top of the repository as well as at cwd: naming cwd alone leaves
    the top's settings in force when the user has trusted it.
    """
    top = Path(found.top)
    folders = [cwd, *(parent for parent in cwd.parents if parent == top or top in parent.parents)]
    if found.common_dir and Path(found.common_dir).name == ".git":
        folders.append(Path(found.common_dir).parent)
    return list(dict.fromkeys(str(folder) for folder in folders))


def _pins(packet: Packet, boundary: Boundary, asked: Asked) -> list[Pin]:
    pins = []
    for entry in packet.required_commands:
        try:
            digest: str | None = evidence.digest(boundary.cwd, entry)
        except evidence.Unpinned as unpinned:
            absent = not os.path.lexists(boundary.cwd / entry.split()[0])
            if not (asked.allow_unpinned and absent):
                hint = "; --allow-unpinned lets it come later" if absent else ""
                raise fault(
                    "refused", packet.subject, f"$.evidence.required_commands: {unpinned}{hint}"
                ) from None
            digest = None
        pins.append(Pin(entry, entry.split(), digest))
    return pins


def _prompt(packet: Packet, boundary: Boundary) -> bytes | None:
    if packet.stdin_mode == "closed":
        return None
    if boundary.prompt is None:
        return str(packet.document["objective"]).encode()
    data = _read(boundary.prompt, "$.execution.prompt_path", MOST_PROMPT)
    if not data.strip():
        raise Fault(exits.NOINPUT, str(boundary.prompt), "$.execution.prompt_path: is empty")
    return data


def _answer_schema(boundary: Boundary) -> Any:
    if boundary.schema is None:
        return None
    import jsonschema

    subject = str(boundary.schema)
    found = document.parse(_read(boundary.schema, "the answer's schema", 1 << 20), subject)
    try:
        jsonschema.Draft202012Validator.check_schema(found)
    except jsonschema.SchemaError as error:
        raise Fault(exits.DATA, subject, f"is no JSON Schema: {error.message[:200]}") from None
    return found


def _read(path: Path, label: str, limit: int) -> bytes:
    try:
        with Folder.open(path.parent) as folder:
            data = folder.read(path.name, limit)
    except OSError as error:
        raise Fault(
            exits.NOINPUT, str(path), f"{label}: cannot be read: {error.strerror or error}"
        ) from None
    if data is None:
        raise Fault(exits.NOINPUT, str(path), f"{label}: no such file")
    return data


def prompt_digest(prompt: bytes | None) -> dict[str, Any] | None:
    """SHA-256 and length of a prompt."""
    if prompt is None:
        return None
    return {"sha256": canonical.digest(prompt), "bytes": len(prompt)}
