"""What is refused before a worker starts: outcome, status, message, and what it leaves.

Every case is dispatched dry first, and then in earnest: both must say the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass
class Case:
    """One refusal. `outcome` None: a document that is not valid, which is no run's outcome."""

    name: str
    status: int
    said: str
    outcome: str | None = None
    receipt: bool = False
    changes: dict[str, Any] = field(default_factory=dict)
    argv: tuple[str, ...] = ()  # words put before the last one of the command
    knobs: dict[str, Any] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    arrange: Callable[[Any], None] = lambda project: None
    stdin: bytes | None = None


PLAIN = ["codex", "exec", "--json", "--sandbox", "workspace-write", "-"]


def outside(project: Any) -> None:
    (project.root / "outside").mkdir()
    (project.top / "link").symlink_to(project.root / "outside")


def script(name: str, text: str = "#!/bin/sh\n", mode: int = 0o755) -> Callable[[Any], None]:
    return lambda project: project.write(name, text, mode)


def settings(project: Any) -> None:
    project.write(".codex/config.toml", "[mcp_servers]\n")


def no_repository(project: Any) -> None:
    (project.top / ".git").rename(project.root / "git")


def document_case(name: str, said: str, **given: Any) -> Case:
    return Case(name, 65, said, **given)


ESCAPES = (
    ("output.receipt_path", "/tmp/elsewhere/receipt.json"),
    ("output.final_message_path", "../final.md"),
    ("output.jsonl_path", "../../events.jsonl"),
    ("output.schema_path", "../schema.json"),
    ("execution.prompt_path", "/etc/passwd"),
    ("execution.output_schema_path", "../schema.json"),
    ("evidence.receipt_path", "/tmp/elsewhere/receipt.json"),
)

UNREADABLE = [
    Case("nothing on stdin", 66, "nothing on stdin: did the command before fail?", stdin=b""),
    Case("blank stdin", 66, "nothing on stdin", stdin=b" \n"),
    Case("no such file", 66, "absent.json: cannot be read", options=("absent.json",)),
    Case("a folder", 66, "cannot be read: not a regular file", options=(".",)),
]
DOCUMENTS = [
    document_case("not UTF-8", "not UTF-8 (byte 3)", stdin=b'{"a\xff": 1}'),
    document_case("not JSON", "not JSON", stdin=b"{not json"),
    document_case("a key that stands twice", "stands twice", stdin=b'{"a": 1, "a": 2}'),
    document_case("an unknown key", "$: violates schema task-packet", changes={"extra": 1}),
    document_case("dispatch differs", "command-differs", changes={"dispatch.command": ["codex"]}),
    document_case("a blank objective", "$.objective: blank", changes={"objective": "  "}),
    document_case("a NUL", "nul", changes={"stop_condition": "a\0b"}),
    document_case(
        "a variable without a name",
        "environment-name",
        changes={"execution.environment": {"A=B": "c"}},
    ),
    document_case(
        "the last session of the folder",
        "resume-last",
        changes={"resume": {"policy": "last-session-in-cwd", "allow_resume": True}},
    ),
    document_case(
        "a resume that is not allowed",
        "resume-not-allowed",
        changes={"resume": {"policy": "session-id", "session_id": "x", "allow_resume": False}},
    ),
    document_case(
        "a resume without an id",
        "resume-id",
        changes={"resume": {"policy": "session-id", "allow_resume": True}},
    ),
    document_case(
        "a resume that the command does not make",
        "resume-mismatch",
        changes={"resume": {"policy": "session-id", "session_id": "x", "allow_resume": True}},
    ),
    document_case(
        "a resume that the packet does not declare", "resume-undeclared", argv=("resume", "x")
    ),
    document_case(
        "a resume without its folder",
        "resume-folder",
        argv=("resume", "x"),
        changes={"resume": {"policy": "session-id", "session_id": "x", "allow_resume": True}},
    ),
    document_case("another program", "argv-shape", changes={"argv": ["bash", "exec", "-"]}),
    document_case("a subcommand", "argv-shape", argv=("review",)),
    document_case(
        "an unlisted flag",
        "--dangerously-bypass-approvals-and-sandbox is not a listed flag",
        argv=("--dangerously-bypass-approvals-and-sandbox",),
    ),
    document_case("the short sandbox flag", "-s is not a listed flag", argv=("-s", "read-only")),
    document_case(
        "an unlisted key", "argv-config", argv=("-c", "sandbox_workspace_write.network_access=true")
    ),
    document_case("a sandbox twice", "argv-duplicate", argv=("--sandbox", "workspace-write")),
    document_case("no sandbox", "sandbox-missing", changes={"argv": ["codex", "exec", "-"]}),
    document_case(
        "another sandbox",
        "sandbox-mismatch",
        changes={
            "argv": ["codex", "exec", "--json", "--sandbox", "danger-full-access", "-"],
        },
    ),
    document_case(
        "the mismatch is told before the commands of a read-only packet",
        "sandbox-mismatch",
        changes={
            "sandbox": "read-only",
            "argv": ["codex", "exec", "--json", "--sandbox", "danger-full-access", "-"],
            "evidence.required_commands": ["./check"],
        },
    ),
    document_case(
        "commands of a read-only packet",
        "a read-only packet cannot have required_commands",
        changes={"sandbox": "read-only", "evidence.required_commands": ["./check"]},
    ),
    document_case(
        "another receipt", "receipt-path", changes={"evidence.receipt_path": "other.json"}
    ),
    document_case("another folder", "cd-mismatch", argv=("--cd", "/tmp")),
    document_case(
        "another final message",
        "final-message-path",
        changes={"output.final_message_path": "final.txt"},
    ),
    document_case(
        "two outputs with one path",
        "output-collision",
        changes={"output.jsonl_path": ".codex/runs/t1/receipt.json"},
    ),
    document_case(
        "an inherited stdin",
        "stdin-interactive",
        changes={"execution.stdin": {"mode": "inherit-interactive", "close_after_prompt": True}},
    ),
    document_case(
        "a prompt that stays open",
        "stdin-open",
        changes={"execution.stdin": {"mode": "pipe-prompt", "close_after_prompt": False}},
    ),
    document_case(
        "a closed stdin that is read",
        "argv-shape",
        changes={"execution.stdin": {"mode": "closed", "close_after_prompt": True}},
    ),
    document_case(
        "a stream that the command does not ask for",
        "capture-jsonl",
        changes={
            "output.capture_mode": "jsonl",
            "argv": ["codex", "exec", "--sandbox", "workspace-write", "-"],
        },
    ),
    document_case(
        "an answer without its schema",
        "capture-schema",
        changes={"output.capture_mode": "output-schema"},
    ),
    document_case(
        "a trusted project",
        "project-trust",
        changes={"argv": PLAIN},
        argv=("-c", 'projects={"/x"={trust_level="trusted"}}'),
    ),
]
GRAMMAR = [
    document_case(
        f"the command {command!r}",
        "evidence-grammar",
        changes={"evidence.required_commands": ["./check", command]},
    )
    for command in (
        "./check | tail",
        "./check $HOME",
        "./check\n./check",
        "pytest -q",
        "/bin/true",
        "./../check",
    )
]
PLACES = [
    Case(
        "no such folder",
        66,
        "$.cwd",
        changes={"cwd": "/nowhere/at/all"},
    ),
    Case("a file for a folder", 66, "no such folder", changes={"cwd": "README"}),
    *(
        Case(
            f"the packet id {name!r}",
            77,
            "$.packet_id: not path-safe",
            "refused",
            changes={"packet_id": name},
        )
        for name in ("../../x", "a/b", ".hidden", "CON", "x" * 300, "é", "a b")
    ),
    *(
        Case(
            f"{path} leads to {target}",
            77,
            f"$.{path}: escapes cwd",
            "refused",
            changes={
                path: target,
                **(
                    {
                        "output.receipt_path": target,
                        "evidence.receipt_path": target,
                    }
                    if "receipt" in path
                    else {}
                ),
                "argv": ["codex", "exec", "--json", "--sandbox", "workspace-write", "-"],
            },
        )
        for path, target in ESCAPES
        if path != "evidence.receipt_path"
    ),
    Case(
        "an artifact that leads out",
        77,
        "evidence.artifacts: ../secret: escapes cwd",
        "refused",
        changes={"evidence.artifacts": ["../secret"]},
    ),
    Case(
        "a path through a link",
        77,
        "escapes cwd",
        "refused",
        changes={"output.jsonl_path": "link/missing/events.jsonl"},
        arrange=outside,
    ),
    Case(
        "a root that leads out by itself",
        77,
        "escapes cwd",
        "refused",
        changes={"output.jsonl_path": "../events.jsonl", "allowed_paths": [".."]},
    ),
    Case(
        "a path that begins like the folder's",
        77,
        "escapes cwd",
        "refused",
        changes={"output.jsonl_path": "../project-2/events.jsonl"},
    ),
    Case(
        "a path that leads out wins over a forbidden variable",
        77,
        "escapes cwd",
        "refused",
        changes={"output.jsonl_path": "../events.jsonl"},
        env={"OPENAI_API_KEY": "x"},
    ),
    Case(
        "a prompt that is not there",
        66,
        "$.execution.prompt_path: no such file",
        changes={"execution.prompt_path": "absent.md"},
    ),
    Case(
        "an empty prompt",
        66,
        "$.execution.prompt_path: is empty",
        changes={"execution.prompt_path": "empty.md"},
        arrange=script("empty.md", ""),
    ),
]
BINARIES = [
    Case(
        "no such binary",
        69,
        "no Codex binary at /nowhere/codex",
        "launch_failed",
        receipt=True,
        options=("--codex", "/nowhere/codex"),
    ),
    Case(
        "a binary that is no program",
        69,
        "no Codex binary at README",
        "launch_failed",
        receipt=True,
        options=("--codex", "README"),
    ),
    Case(
        "a binary that cannot be executed",
        69,
        "cannot be started",
        "launch_failed",
        receipt=True,
        options=("--codex", "./broken"),
        arrange=script("broken", "#!/nowhere/sh\n"),
    ),
    Case(
        "a version that cannot be read",
        78,
        "--version is not that of Codex",
        "config_error",
        knobs={"version": "something else"},
    ),
    Case(
        "a flag that this version does not know",
        78,
        "codex 0.149.0: does not know the flag --ephemeral",
        "config_error",
        knobs={"hidden": ["--ephemeral"]},
        argv=("--ephemeral",),
    ),
    Case(
        "a project that Codex would trust",
        78,
        ".codex/config.toml: Codex would trust this project",
        "config_error",
        changes={"argv": PLAIN},
        arrange=settings,
    ),
    Case(
        "no repository",
        78,
        "is in no git repository",
        "config_error",
        arrange=no_repository,
    ),
]
LOGINS = [
    Case(
        "the key in the environment",
        77,
        "OPENAI_API_KEY in environment",
        "auth",
        receipt=True,
        env={"OPENAI_API_KEY": "x"},
    ),
    Case(
        "a name of the packet in the environment",
        77,
        "MY_KEY in environment",
        "auth",
        receipt=True,
        changes={"auth.reject_env": ["MY_KEY"]},
        env={"MY_KEY": "x"},
    ),
    Case(
        "the key in the packet",
        77,
        "OPENAI_API_KEY in packet execution.environment",
        "auth",
        receipt=True,
        changes={"execution.environment": {"OPENAI_API_KEY": "x"}},
    ),
    Case(
        "the key in the packet, empty",
        77,
        "OPENAI_API_KEY in packet execution.environment",
        "auth",
        receipt=True,
        changes={"execution.environment": {"OPENAI_API_KEY": ""}},
    ),
    Case(
        "the key in the packet, which the packet does not reject",
        77,
        "OPENAI_API_KEY in packet execution.environment",
        "auth",
        receipt=True,
        changes={
            "auth.reject_env": ["OTHER", " ", "OTHER"],
            "execution.environment": {"OPENAI_API_KEY": "x"},
        },
    ),
    Case(
        "a name of the packet in the packet",
        77,
        "MY_KEY in packet execution.environment",
        "auth",
        receipt=True,
        changes={"auth.reject_env": ["MY_KEY"], "execution.environment": {"MY_KEY": "x"}},
    ),
    Case(
        "a key passed on",
        77,
        "CODEX_API_KEY in --pass-env",
        "auth",
        receipt=True,
        options=("--pass-env", "CODEX_API_KEY"),
        env={"CODEX_API_KEY": "x"},
    ),
    Case(
        "a login with a key",
        77,
        "ChatGPT subscription auth is required, and it says: Logged in using an API key",
        "auth",
        receipt=True,
        knobs={"login": ["Logged in using an API key - sk-pro***", 0]},
    ),
    Case(
        "no login",
        77,
        "it says: Not logged in",
        "auth",
        receipt=True,
        knobs={"login": ["Not logged in", 1]},
    ),
    Case(
        "a login that the status denies",
        77,
        "ChatGPT subscription auth is required",
        "auth",
        receipt=True,
        knobs={"login": ["Logged in using ChatGPT", 1]},
    ),
    Case(
        "a sentence that only mentions the login",
        77,
        "ChatGPT subscription auth is required",
        "auth",
        receipt=True,
        knobs={"login": ["You are not Logged in using ChatGPT", 0]},
    ),
]
COMMANDS = [
    Case(
        "a required command that is absent",
        77,
        "./later: No such file or directory; --allow-unpinned lets it come later",
        "refused",
        receipt=True,
        changes={"evidence.required_commands": ["./check", "./later fast"]},
    ),
    Case(
        "a required command outside",
        77,
        "./tool: leads outside cwd",
        "refused",
        receipt=True,
        changes={"evidence.required_commands": ["./tool"]},
        arrange=lambda project: (project.top / "tool").symlink_to("/bin/true"),
    ),
    Case(
        "a required command in an allowed root, which is not cwd",
        77,
        "leads outside cwd",
        "refused",
        receipt=True,
        changes={"evidence.required_commands": ["./tool"], "allowed_paths": ["/bin", "/usr/bin"]},
        arrange=lambda project: (project.top / "tool").symlink_to("/bin/true"),
    ),
    Case(
        "a required command that is not executable",
        77,
        "./README: not executable",
        "refused",
        receipt=True,
        changes={"evidence.required_commands": ["./README"]},
    ),
    Case(
        "a required command that is a folder",
        77,
        "./sub",
        "refused",
        receipt=True,
        changes={"evidence.required_commands": ["./sub"]},
        arrange=lambda project: (project.top / "sub").mkdir(),
    ),
    Case(
        "a required command that nothing can pin, absence allowed",
        77,
        "./README: not executable",
        "refused",
        receipt=True,
        options=("--allow-unpinned",),
        changes={"evidence.required_commands": ["./README"]},
    ),
]
CASES = [*UNREADABLE, *DOCUMENTS, *GRAMMAR, *PLACES, *BINARIES, *LOGINS, *COMMANDS]


def everything(*roots: Path) -> dict[str, tuple[int, bytes | None]]:
    """Every file and folder below the roots: mode and bytes."""
    found: dict[str, tuple[int, bytes | None]] = {}
    for root in roots:
        for path in [root, *root.rglob("*")]:
            status = path.lstat()
            data = path.read_bytes() if path.is_file() and not path.is_symlink() else None
            found[os.fspath(path)] = status.st_mode, data
    return found


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_refusal_says_why_starts_nothing_and_a_dry_run_says_the_same(
    case: Case, project: Any, packet: Any, standin: Any
) -> None:
    case.arrange(project)
    codex = standin(**case.knobs)
    given = case.stdin
    if given is None:
        changes = dict(case.changes)
        if case.argv:
            argv = changes.get("argv", packet()["execution"]["argv"])
            changes["argv"] = [*argv[:-1], *case.argv, *argv[-1:]]
        given = packet(changes)
    before = everything(project.top, project.home)
    words = ["--codex", codex.path] if "--codex" not in case.options else []

    dry = project.run("dispatch", *words, "--dry-run", *case.options, stdin=given, env=case.env)
    assert everything(project.top, project.home) == before
    wet = project.run("dispatch", *words, *case.options, stdin=given, env=case.env)

    assert case.said in wet.stderr
    assert wet.stderr.startswith("dispatch: ") and wet.stderr.count("\n") == 1
    assert (wet.status, dry.status, dry.stderr) == (case.status, case.status, wet.stderr)
    assert not codex.ran
    if dry.stdout:
        assert (dry.json["outcome"], dry.json["status"]) == (case.outcome, case.status)
    if not case.receipt:
        assert wet.stdout == ""
        assert not (project.folder() / "receipt.json").exists()
        assert not (project.root / "outside" / "missing").exists()
        return
    receipt = project.receipt()
    assert wet.json == receipt
    assert receipt["failure_reason"].startswith(f"{case.outcome}: ")
    assert case.said in receipt["failure_reason"]
    assert (receipt["exit_code"], receipt["stdin"]["bytes_written"]) == (-1, 0)
    assert receipt["changed_files"] == receipt["commands_run"] == receipt["evidence"] == []
    assert (receipt["verdict"]["status"], receipt["timed_out"]) == ("ERROR", False)
    assert receipt["started_at"] == receipt["ended_at"] == receipt["stdin"]["closed_at"]
    record = project.record()
    assert (record["outcome"], record["state"]) == (case.outcome, "receipted")
    assert record["timing"]["started"] is None


def test_a_refusal_does_not_replace_the_receipt_of_a_run(
    project: Any, packet: Any, standin: Any
) -> None:
    codex = standin()
    first = project.run("dispatch", "--codex", codex.path, stdin=packet())
    before = everything(project.folder())
    again = project.run(
        "dispatch", "--codex", "/nowhere/codex", "--attempt", "2", stdin=packet(), env={}
    )
    assert (first.status, again.status) == (0, 69)
    assert again.json["failure_reason"].startswith("launch_failed: ")
    assert everything(project.folder()) == before


def test_a_packet_refused_once_can_be_dispatched_when_the_reason_is_gone(
    project: Any, packet: Any, standin: Any
) -> None:
    codex = standin()
    refused = project.run(
        "dispatch", "--codex", codex.path, stdin=packet(), env={"OPENAI_API_KEY": "x"}
    )
    ran = project.run("dispatch", "--codex", codex.path, stdin=packet())
    assert (refused.status, ran.status, project.record()["attempt"]) == (77, 0, 1)
    kinds = sorted(path.name for path in (project.folder() / "generations").iterdir())
    assert kinds == ["1-dispatch.json", "2-dispatch.json"]


def test_a_good_packet_is_planned_and_nothing_is_created(
    project: Any, packet: Any, standin: Any
) -> None:
    codex = standin()
    before = everything(project.top, project.home)
    changes = {"evidence.required_commands": ["./check a b"]}
    done = project.run("dispatch", "--codex", codex.path, "--dry-run", stdin=packet(changes))
    assert (done.status, done.stderr, codex.ran) == (0, "", False)
    plan = done.json
    assert (plan["outcome"], plan["status"], plan["reason"]) == ("ok", 0, None)
    assert plan["codex"]["argv"] == [str(codex.path), *packet()["execution"]["argv"][1:]]
    assert plan["run_folder"] == str(project.folder())
    (row,) = plan["evidence"]
    assert row["command"] == "./check a b" and len(row["pinned"]) == 64
    assert plan["prompt"]["bytes"] == len("Do it.")
    assert everything(project.top, project.home) == before
