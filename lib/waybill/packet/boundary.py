"""The path boundary: every path that the dispatcher itself reads or writes stays inside.

Seven fields of a packet name such paths, and the declared artifacts are read too. All are
resolved once, before anything is created; what is used later is the resolved path, opened
component by component without following a link.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from waybill.base import exits, paths
from waybill.base.exits import Fault, fault
from waybill.packet.packet import Packet

FIELDS: tuple[tuple[str, str], ...] = (
    ("output", "final_message_path"),
    ("output", "jsonl_path"),
    ("output", "schema_path"),
    ("output", "receipt_path"),
    ("execution", "prompt_path"),
    ("execution", "output_schema_path"),
    ("evidence", "receipt_path"),
)

EVENTS, STDERR, FINAL, RECEIPT = "events.jsonl", "stderr.log", "final.md", "receipt.json"
PACKET, PROMPT, RUN, CLAIM, LOCK = "packet.json", "prompt.md", "run.json", "claim.json", "lock"
BASE_PATCH, WORK_PATCH, LEDGER = "base.patch", "work.patch", "ledger.jsonl"
RUNS = (".codex", "runs")  # the folder of all runs, where a packet does not say otherwise
# What a run folder holds of ours; what else lies in the same folder is not.
OWN = (
    PACKET, PROMPT, RUN, CLAIM, LOCK, "scratch", EVENTS, STDERR, FINAL, RECEIPT, BASE_PATCH,
    WORK_PATCH,
    "judgement.json", "status", "evidence", "reviews", "passes", "attempts", "generations",
)  # fmt: skip


@dataclass(frozen=True)
class Boundary:
    """A packet's places, resolved. `schema` is the answer's schema, `prompt` the prompt file."""

    cwd: Path
    roots: tuple[Path, ...]
    receipt: Path
    final_message: Path
    events: Path
    prompt: Path | None
    schema: Path | None
    artifacts: tuple[tuple[str, Path], ...]

    @property
    def run_folder(self) -> Path:
        """The folder of the receipt."""
        return self.receipt.parent

    @property
    def ledger_folder(self) -> Path:
        """Beside the run folder, so that runs share one; in it where beside is outside."""
        beside = self.run_folder.parent
        inside = any(paths.is_inside(beside, root) for root in self.roots)
        return beside if inside and self.run_folder != self.cwd else self.run_folder

    def own(self) -> list[Path]:
        """Everything of ours that may lie in the tree, to keep it out of trees and patches."""
        named = [self.receipt, self.final_message, self.events]
        own = [self.run_folder / name for name in (*OWN, ".gitignore")]
        ledger = [self.ledger_folder / name for name in (LEDGER, LEDGER + ".lock")]
        if self.ledger_folder.parts[-2:] == RUNS:
            ledger = [self.ledger_folder]  # with the runs of others that go on beside this one
        elif ".codex" in self.ledger_folder.parts:
            ledger.append(self.ledger_folder / ".gitignore")
        return list(dict.fromkeys([*named, *own, *ledger]))


def draw(packet: Packet, base: Path) -> Boundary:
    """The boundary of a packet. Raises Fault 66 without cwd, refused for what escapes."""
    cwd = packet.cwd(base)
    try:
        real = paths.resolve(cwd)
        is_folder = real.is_dir()
    except (paths.Escape, OSError) as error:
        raise Fault(exits.NOINPUT, packet.subject, f"$.cwd: {error}") from None
    if not is_folder:
        raise Fault(exits.NOINPUT, packet.subject, f"$.cwd: {cwd}: no such folder")
    unsafe = paths.unsafe_name(packet.packet_id)
    if unsafe:
        raise fault("refused", packet.subject, f"$.packet_id: not path-safe: {unsafe}")
    permitted = paths.roots(real, list(packet.document.get("allowed_paths", [])))
    found: dict[str, Path] = {}
    for section, key in FIELDS:
        text = str(packet.document[section].get(key, ""))
        if text.strip():
            found[f"{section}.{key}"] = _inside(packet, real, permitted, f"{section}.{key}", text)
    artifacts = tuple(
        (entry, _inside(packet, real, permitted, f"evidence.artifacts: {entry}", entry))
        for entry in packet.artifacts
    )
    receipt = found["output.receipt_path"]
    if not any(paths.is_inside(receipt.parent, root) for root in permitted):
        raise fault(
            "refused",
            packet.subject,
            f"$.output.receipt_path: the run folder {receipt.parent} escapes cwd and the allowed"
            " paths",
        )
    schema = found.get("execution.output_schema_path") or found.get("output.schema_path")
    return Boundary(
        cwd=real,
        roots=tuple(permitted),
        receipt=receipt,
        final_message=found["output.final_message_path"],
        events=found.get("output.jsonl_path", receipt.parent / EVENTS),
        prompt=found.get("execution.prompt_path"),
        schema=schema if packet.schema_path else None,
        artifacts=artifacts,
    )


def _inside(packet: Packet, cwd: Path, permitted: list[Path], label: str, text: str) -> Path:
    try:
        return paths.inside(cwd, permitted, text)
    except paths.Escape as escape:
        raise fault("refused", packet.subject, f"$.{label}: {escape}") from None
