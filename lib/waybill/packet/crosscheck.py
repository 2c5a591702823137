"""What a schema cannot say of a packet: that its parts agree with each other.

Each rule has a name, which stands in the message and in docs/task-packet.md. All are pure;
the first violation found is the one reported.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from waybill.base import exits, paths
from waybill.base.exits import Fault
from waybill.codex import argv as codex_argv
from waybill.codex.argv import Invocation
from waybill.packet import boundary, evidence
from waybill.packet.packet import Packet

REHEARSAL_VARIABLES = ("CODEX_HOME", "OPENAI_BASE_URL")


@dataclass(frozen=True)
class Options:
    """What the dispatcher was told beside the packet."""

    allow_flags: tuple[str, ...] = ()
    trust_project: bool = False
    confine_evidence: bool = False
    rehearsal_model: str | None = None  # set when the run is a rehearsal


@dataclass(frozen=True)
class Violation:
    """One rule broken: the JSON path, the rule's name, and one sentence."""

    path: str
    rule: str
    message: str

    def fault(self, subject: str) -> Fault:
        """The same as a fault with status 65."""
        return Fault(exits.DATA, subject, f"{self.path}: {self.rule}: {self.message}")


def check(packet: Packet, base: Path, options: Options) -> Invocation:
    """The packet's invocation, when every rule holds. Raises Fault 65 with the first broken."""
    for violation in violations(packet, base, options):
        raise violation.fault(packet.subject)
    return packet.invocation(options.allow_flags)


def violations(packet: Packet, base: Path, options: Options) -> Iterator[Violation]:
    """Every rule broken, in the order of the checks."""
    yield from _texts(packet)
    yield from _resume_policy(packet)
    if packet.document["dispatch"]["command"] != packet.argv:
        yield Violation(
            "$.dispatch.command", "command-differs", "dispatch.command is not execution.argv"
        )
    try:
        said = packet.invocation(options.allow_flags)
    except codex_argv.Unfit as unfit:
        path = f"$.execution.argv[{unfit.index}]"
        yield Violation(path, unfit.rule, unfit.message)
        return
    yield from _sandbox(packet, said)
    yield from _evidence(packet, options)
    yield from _places(packet, said, base)
    yield from _stdin(packet, said)
    yield from _capture(packet, said)
    yield from _resumed(packet, said)
    yield from _trust(said, options)
    if options.rehearsal_model is not None:
        yield from _rehearsal(packet, said, options.rehearsal_model)


def _texts(packet: Packet) -> Iterator[Violation]:
    """Blank where something must stand, and NUL, which no path, word or variable can hold."""
    for key in ("packet_id", "cwd", "objective"):
        if not packet.document[key].strip():
            yield Violation(f"$.{key}", "blank", "must not be blank")
    if not packet.output["receipt_path"].strip():
        yield Violation("$.output.receipt_path", "blank", "must not be blank")
    if not packet.output["final_message_path"].strip():
        yield Violation("$.output.final_message_path", "blank", "must not be blank")
    for path, text in _strings(packet.document, "$"):
        if "\0" in text:
            yield Violation(path, "nul", "holds a NUL character")
    for name in packet.environment:
        if not name or "=" in name or "\0" in name:
            yield Violation(
                "$.execution.environment", "environment-name", f"{name!r} cannot name a variable"
            )


def _strings(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        for index, held in enumerate(value):
            yield from _strings(held, f"{path}[{index}]")
    elif isinstance(value, dict):
        for key, held in value.items():
            yield from _strings(held, f"{path}.{key}")


def _resume_policy(packet: Packet) -> Iterator[Violation]:
    resume = packet.document.get("resume")
    if resume is None or resume["policy"] == "none":
        return
    if resume["policy"] == "last-session-in-cwd":
        yield Violation(
            "$.resume.policy",
            "resume-last",
            "last-session-in-cwd may pick another run's session; use session-id",
        )
        return
    if not resume["allow_resume"]:
        yield Violation("$.resume.allow_resume", "resume-not-allowed", "session-id needs true")
    if not resume.get("session_id", "").strip():
        yield Violation("$.resume.session_id", "resume-id", "session-id needs an id")


def _sandbox(packet: Packet, said: Invocation) -> Iterator[Violation]:
    stated = said.flags.get("--sandbox")
    if stated is None:
        yield Violation(
            "$.execution.argv", "sandbox-missing", "--sandbox must stand in the command once"
        )
    elif stated != packet.sandbox:
        yield Violation(
            "$.execution.argv",
            "sandbox-mismatch",
            f"--sandbox {stated} is not the packet's {packet.sandbox}",
        )


def _evidence(packet: Packet, options: Options) -> Iterator[Violation]:
    if packet.required_commands and not packet.writable and not options.confine_evidence:
        yield Violation(
            "$.evidence.required_commands",
            "read-only-evidence",
            "a read-only packet cannot have required_commands, which are not confined;"
            " --confine-evidence runs them in the sandbox",
        )
    for index, entry in enumerate(packet.document["evidence"]["required_commands"]):
        if entry.strip() and (wrong := evidence.unfit(entry.strip())):
            path = f"$.evidence.required_commands[{index}]"
            yield Violation(path, "evidence-grammar", wrong)


def _places(packet: Packet, said: Invocation, base: Path) -> Iterator[Violation]:
    cwd = packet.cwd(base)

    def same(one: str, other: str) -> bool:
        return os.path.realpath(cwd / one) == os.path.realpath(cwd / other)

    if packet.document["evidence"]["receipt_path"].strip() and not same(
        packet.document["evidence"]["receipt_path"], packet.output["receipt_path"]
    ):
        yield Violation("$.evidence.receipt_path", "receipt-path", "is not output.receipt_path")
    stated = said.flags.get("--cd")
    if stated is not None and not same(stated, "."):
        yield Violation("$.execution.argv", "cd-mismatch", f"--cd {stated} is not cwd")
    stated = said.flags.get("--output-last-message")
    if stated is not None and not same(stated, packet.output["final_message_path"]):
        yield Violation(
            "$.execution.argv",
            "final-message-path",
            "--output-last-message is not output.final_message_path",
        )
    yield from _collisions(packet, cwd)


def _collisions(packet: Packet, cwd: Path) -> Iterator[Violation]:
    """Outputs over each other, or over what we keep beside the receipt."""
    receipt = Path(os.path.realpath(cwd / packet.output["receipt_path"]))
    events = packet.output.get("jsonl_path", "").strip() or receipt.parent / boundary.EVENTS
    others = (packet.output["final_message_path"], events)
    outputs = [receipt, *(Path(os.path.realpath(cwd / other)) for other in others)]
    if len(set(outputs)) < len(outputs):
        yield Violation("$.output", "output-collision", "two outputs have one path")
    free = (boundary.EVENTS, boundary.FINAL, boundary.RECEIPT)
    ours = [receipt.parent / name for name in (*boundary.OWN, boundary.LEDGER) if name not in free]
    ours.append(receipt.parent.parent / boundary.LEDGER)
    for output in outputs:
        if any(paths.is_inside(output, own) for own in ours):
            said = f"{output.name} would stand in the place of a record of ours"
            yield Violation("$.output", "output-collision", said)


def _stdin(packet: Packet, said: Invocation) -> Iterator[Violation]:
    stdin = packet.document["execution"]["stdin"]
    if stdin["mode"] == "inherit-interactive":
        yield Violation(
            "$.execution.stdin.mode",
            "stdin-interactive",
            "an inherited stdin can wait for ever; use pipe-prompt or closed",
        )
    elif stdin["mode"] == "pipe-prompt":
        if not stdin["close_after_prompt"]:
            yield Violation(
                "$.execution.stdin.close_after_prompt", "stdin-open", "pipe-prompt needs true"
            )
        if said.prompt is not None:
            yield Violation(
                "$.execution.argv", "argv-shape", "a prompt operand goes with closed stdin only"
            )
    elif said.reads_stdin:
        yield Violation("$.execution.argv", "argv-shape", "'-' reads a stdin that is closed")


def _capture(packet: Packet, said: Invocation) -> Iterator[Violation]:
    mode = packet.output["capture_mode"]
    if mode == "jsonl" and not said.json:
        yield Violation(
            "$.output.capture_mode", "capture-jsonl", "jsonl needs --json in the command"
        )
    stated = said.flags.get("--output-schema")
    if mode == "output-schema":
        if packet.schema_path is None:
            yield Violation(
                "$.execution.output_schema_path", "capture-schema", "output-schema needs a schema"
            )
        elif stated is not None and stated != packet.schema_path:
            yield Violation(
                "$.execution.argv", "capture-schema", "--output-schema is not the packet's schema"
            )
    elif stated is not None:
        yield Violation(
            "$.output.capture_mode",
            "capture-schema",
            "--output-schema goes with capture mode output-schema",
        )


def _resumed(packet: Packet, said: Invocation) -> Iterator[Violation]:
    if packet.resumes is None:
        if said.resume is not None:
            yield Violation(
                "$.execution.argv", "resume-undeclared", "resumes, and the packet does not say so"
            )
    elif said.resume != packet.resumes:
        yield Violation("$.execution.argv", "resume-mismatch", "does not resume resume.session_id")
    elif "--cd" not in said.flags:
        yield Violation(
            "$.execution.argv",
            "resume-folder",
            "a resumed session takes its folder from --cd, before the word resume",
        )


def _trust(said: Invocation, options: Options) -> Iterator[Violation]:
    value = said.config.get("projects")
    if value is not None and not options.trust_project and codex_argv.distrusted(value) is None:
        yield Violation(
            "$.execution.argv",
            "project-trust",
            "-c projects may only say untrusted; --trust-project lets it through, and is recorded",
        )


def _rehearsal(packet: Packet, said: Invocation, model: str) -> Iterator[Violation]:
    for name in REHEARSAL_VARIABLES:
        if name in packet.environment:
            yield Violation(
                f"$.execution.environment.{name}",
                "rehearsal-escape",
                "would lead a rehearsal to another model",
            )
    stated = said.flags.get("--model")
    if stated is not None and stated != model:
        yield Violation(
            "$.execution.argv",
            "rehearsal-escape",
            f"--model {stated} is not the rehearsal's {model}; the script can name it",
        )
    for name in said.allowed:
        if name.split("=")[0] in ("--profile", "-p", "--oss", "--local-provider", "--config"):
            yield Violation(
                "$.execution.argv", "rehearsal-escape", f"{name} would leave the rehearsal"
            )
        elif name.startswith("-c:"):
            yield Violation(
                "$.execution.argv", "rehearsal-escape", f"{name} may leave the rehearsal"
            )
