"""A task packet, read: the document, and the few answers that everything else needs of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waybill.base import canonical, document, schema
from waybill.codex import argv as codex_argv

MOST_SECONDS = 366 * 24 * 3600  # a longer limit is waited for as if it were this one


@dataclass(frozen=True)
class Packet:
    """A packet that is valid under its schema. Paths in it are not yet trusted."""

    document: dict[str, Any]
    data: bytes  # as it was read
    subject: str  # where it was read, for messages

    @property
    def packet_id(self) -> str:
        """The key that ties packet, receipt and run together."""
        return str(self.document["packet_id"])

    @property
    def role(self) -> str:
        """worker, validator, reviewer or explorer."""
        return str(self.document["role"])

    @property
    def sandbox(self) -> str:
        """read-only, workspace-write or danger-full-access."""
        return str(self.document["sandbox"])

    @property
    def writable(self) -> bool:
        """Whether Codex may change files."""
        return self.sandbox != "read-only"

    @property
    def argv(self) -> list[str]:
        """The declared Codex command."""
        return list(self.document["execution"]["argv"])

    @property
    def timeout_seconds(self) -> int:
        """The declared wall clock, a whole number."""
        return int(self.document["execution"]["timeout_seconds"])

    @property
    def wall_seconds(self) -> float:
        """The wall clock that is enforced."""
        return float(min(self.timeout_seconds, MOST_SECONDS))

    @property
    def environment(self) -> dict[str, str]:
        """The variables that the packet sets."""
        return dict(self.document["execution"].get("environment", {}))

    @property
    def required_commands(self) -> list[str]:
        """The acceptance commands, blank entries dropped."""
        entries = self.document["evidence"]["required_commands"]
        return [entry.strip() for entry in entries if entry.strip()]

    @property
    def artifacts(self) -> list[str]:
        """The files that the work is to leave."""
        return [entry for entry in self.document["evidence"].get("artifacts", []) if entry.strip()]

    @property
    def stdin_mode(self) -> str:
        """closed, pipe-prompt, or inherit-interactive, which is never run."""
        return str(self.document["execution"]["stdin"]["mode"])

    @property
    def resumes(self) -> str | None:
        """The session to resume, or None."""
        resume = self.document.get("resume") or {}
        if resume.get("policy") != "session-id":
            return None
        return str(resume.get("session_id", ""))

    @property
    def output(self) -> dict[str, str]:
        """Capture mode and paths."""
        return dict(self.document["output"])

    @property
    def schema_path(self) -> str | None:
        """The schema that the answer must match, when the capture mode asks for one."""
        if self.output["capture_mode"] != "output-schema":
            return None
        asked = self.document["execution"].get("output_schema_path", "")
        return asked.strip() or self.output.get("schema_path", "").strip() or None

    @property
    def digest(self) -> dict[str, Any]:
        """SHA-256 and length of the packet's bytes."""
        return {"sha256": canonical.digest(self.data), "bytes": len(self.data)}

    def cwd(self, base: Path) -> Path:
        """The working directory as declared, absolute."""
        return base / str(self.document["cwd"])

    def invocation(self, allowed: tuple[str, ...] = ()) -> codex_argv.Invocation:
        """The argv, read. Only for a packet that has passed the cross-checks."""
        return codex_argv.parse(self.argv, allowed)


def read(operand: str | None) -> Packet:
    """Read and validate a packet. Raises Fault 66 or 65."""
    found, subject, data = document.read(operand)
    return parse(found, subject, data)


def parse(found: Any, subject: str, data: bytes) -> Packet:
    """A packet from a parsed document. Raises Fault 65 with the JSON path of each error."""
    return Packet(schema.require("task-packet", found, subject), data, subject)
