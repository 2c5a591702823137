"""The ledger: one line for each generation of a receipt, each chained to the line before.

A chain shows an edit, a swap and an insertion. A cut end or a whole rewrite it cannot show;
the head, kept elsewhere, does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from waybill.base import canonical, clock, document, schema
from waybill.base.exits import Fault
from waybill.base.files import Folder, storing
from waybill.packet.boundary import LEDGER

TAG = "waybill-ledger-line"
MOST_BYTES = 1 << 30


def seal(line: dict[str, Any]) -> dict[str, Any]:
    """The line with its digest, which covers everything else in it."""
    return {**line, "digest": canonical.record_digest(TAG, line)}


def append(
    folder: Folder, *, run_id: str, attempt: int, by: str, receipt: bytes, run: bytes
) -> None:
    """Append a generation's line under the lock, unless it is the run's latest already.

    Raises Fault store_error.
    """
    from filelock import FileLock, Timeout

    with storing(f"{folder.path}/{LEDGER}"):
        try:
            # Held for one read and one write: a second's wait means that something is wrong.
            with FileLock(folder.path / f"{LEDGER}.lock", timeout=30, mode=0o600):
                last, latest = _last(folder, run_id)
                said = (canonical.digest(receipt), canonical.digest(run))
                if latest and (latest["receipt_sha256"], latest["run_sha256"]) == said:
                    return
                line = seal(
                    {
                        "seq": last["seq"] + 1 if last else 1,
                        "time": clock.stamp(clock.now()),
                        "run_id": run_id,
                        "attempt": attempt,
                        "by": by,
                        "receipt_sha256": said[0],
                        "run_sha256": said[1],
                        "prev": last["digest"] if last else None,
                    }
                )
                folder.append(LEDGER, canonical.line(line))
        except Timeout:
            raise OSError(0, "another process holds the ledger") from None


def _last(folder: Folder, run_id: str) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The last sound line, and the last one of a run."""
    data = folder.read(LEDGER, MOST_BYTES)
    if not data:
        return None, None
    if not data.endswith(b"\n"):
        # A torn line of a writer that died stays as it is; the next line begins a new row.
        folder.append(LEDGER, b"\n")
    last: dict[str, Any] | None = None
    for row in reversed(data.splitlines()):
        # Most lines are of other runs: those need not be parsed.
        if last is not None and run_id.encode() not in row:
            continue
        found = _line(row)
        if found is None:
            continue
        last = last or found
        if found["run_id"] == run_id:
            return last, found
    return last, None


def _line(row: bytes) -> dict[str, Any] | None:
    """The line in a row; None when there is none that every reader would read alike."""
    try:
        found = document.parse(row, LEDGER)
    except Fault:
        return None
    return dict(found) if schema.is_valid("ledger-line", found) else None


@dataclass
class Ledger:
    """A ledger read: its sound lines, its head, and what is wrong with it."""

    path: Path
    lines: list[dict[str, Any]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def head(self) -> str | None:
        """The digest of the last sound line."""
        return self.lines[-1]["digest"] if self.lines else None


def read(path: Path, data: bytes) -> Ledger:
    """Check a ledger's bytes: every line sound, numbered and chained. Pure."""
    found = Ledger(path)
    previous: str | None = None
    for number, row in enumerate(data.splitlines(), 1):
        line = _line(row)
        if line is None:
            found.faults.append(f"line {number}: not a ledger line")
            continue
        body = {key: value for key, value in line.items() if key != "digest"}
        if seal(body) != line:
            found.faults.append(f"line {number}: its digest is not that of its content")
        if line["prev"] != previous or line["seq"] != len(found.lines) + 1:
            found.faults.append(f"line {number}: does not follow the line before")
        previous = line["digest"]
        found.lines.append(line)
    return found
