"""The run folder: held by one process at a time, holding one packet, one attempt in front.

A claim is an atomic create beside the kernel's lock. The lock ends with its process; the claim
stays and says who ran, so that a run made on one machine can be judged on another.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from waybill.base import canonical, clock, document, exits, process, schema
from waybill.base.exits import Fault, fault
from waybill.base.files import TEMPORARY, Folder, storing
from waybill.packet import record as run_record
from waybill.packet.boundary import CLAIM, LEDGER, LOCK, OWN, PACKET, PROMPT, Boundary
from waybill.packet.packet import Packet

MOST_BYTES = 64 << 20
ENDED = ("receipted", "recovered")  # states in which a run's records are whole
_KEPT = (LOCK, "attempts", "generations", ".gitignore")  # not moved when a new attempt begins
# A run fills these folders; where no run has been, what is in them is somebody else's.
_FILLED = ("evidence", "passes", "reviews", "scratch", "attempts", "generations")
_OURS = re.compile(r"\d+(?:-[a-z]+\.json)?\Z")  # what lies in the last two


@dataclass
class RunFolder:
    """An open run folder that this process holds."""

    folder: Folder
    receipt_name: str
    ledger: Folder
    lock: Any
    record: run_record.Record | None = None
    notices: list[str] = field(default_factory=list)

    def close(self) -> None:
        """Let go of the lock and the descriptors."""
        self.lock.release()
        self.folder.close()
        self.ledger.close()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def claim(self) -> dict[str, Any] | None:
        """The claim that lies in the folder, or None."""
        return read_claim(self.folder)

    def make_claim(self, record: run_record.Record) -> bytes:
        """Claim the run for this process; the claim's bytes. Raises Fault already_running."""
        identity = process.Identity.here()
        claim = {
            "schema_version": "1.0",
            "run_id": record["run_id"],
            "packet_id": record["packet_id"],
            "attempt": record["attempt"],
            "claimed_at": clock.stamp(clock.now()),
            **identity.to_dict(),
        }
        data = canonical.pretty(claim)
        try:
            self.folder.publish(CLAIM, data)
        except FileExistsError:
            raise _running(self.folder.path, self.claim) from None
        return data

    def drop_claim(self) -> None:
        """Take back the claim of a run that was refused before it began."""
        self.folder.remove(CLAIM)

    def aside(self) -> int:
        """The number of the last attempt that was moved aside; 0 without one."""
        if self.folder.status("attempts") is None:
            return 0
        numbers = [int(name) for name in _names(self.folder, "attempts") if name.isdigit()]
        return max(numbers, default=0)

    def set_aside(self, attempt: int, outside: list[Path]) -> None:
        """Move what an attempt left to attempts/<n>/, outputs that lie elsewhere too.

        Attempt 0 is whatever lay there before the first: a refusal, or a stale output. The
        packet then stays, and what Make keeps beside it; `outside` holds whatever else is to go.
        """
        stay = (*_KEPT, PACKET, PROMPT, "status", "judgement.json") if attempt == 0 else _KEPT
        with storing(f"{self.folder.path}/attempts/{attempt}"):
            own = [name for name in self.folder.names() if name in OWN or name == self.receipt_name]
            moving = [name for name in own if name not in stay]
            outside = [path for path in outside if os.path.lexists(path)]
            if not moving and not outside:
                return
            with self.folder.sub("attempts") as attempts, attempts.sub(str(attempt)) as old:
                for name in moving:
                    self.folder.move(name, old, name)
                for path in outside:
                    self._move(path, old)
                old.sync()
            self.folder.sync()

    def _move(self, path: Path, old: Folder) -> None:
        """Move one output aside; what lies on another file system is copied, then removed."""
        with contextlib.suppress(FileNotFoundError), Folder.open(path.parent) as parent:
            if parent.status(path.name) is None:
                return
            name = path.name
            while old.status(name) is not None:
                name = f"other-{name}"
            try:
                parent.move(path.name, old, name)
            except OSError:
                data = parent.read(path.name, MOST_BYTES)
                if data is not None:
                    old.replace(name, data)
                    parent.remove(path.name)


def read_claim(folder: Folder) -> dict[str, Any] | None:
    """The claim in a folder; None without one. A damaged one is Fault store_error."""
    subject = f"{folder.path}/{CLAIM}"
    with storing(subject):
        data = folder.read(CLAIM, MOST_BYTES)
    if data is None:
        return None
    try:
        claim: dict[str, Any] = schema.require("claim", document.parse(data, subject), subject)
    except Fault as damaged:
        raise fault("store_error", subject, f"is damaged: {damaged.message}") from None
    return claim


def alive(claim: dict[str, Any]) -> bool | None:
    """Whether the process of a claim lives; None where nobody can know."""
    try:
        return process.Identity.from_dict(claim).alive()
    except ValueError:
        return None


def _running(path: Path, claim: dict[str, Any] | None) -> Fault:
    who = f"run {claim['run_id']} on {claim['host']}, pid {claim['pid']}" if claim else "a process"
    return fault("already_running", str(path), f"held by {who}; wait for it to end")


def hold(boundary: Boundary) -> RunFolder:
    """Open the run folder, made when absent, and lock it.

    Raises Fault already_running when another process holds it, store_error when it cannot be
    made.
    """
    from filelock import FileLock, Timeout

    path = boundary.run_folder
    with storing(str(path)):
        _make_parents(path, boundary)
        folder = Folder.open(path)
        _locks(folder)
        lock = FileLock(path / LOCK, timeout=0, mode=0o600, thread_local=False)
        try:
            lock.acquire()
        except Timeout:
            claim = read_claim(folder)
            folder.close()
            raise _running(path, claim) from None
        ledger = Folder.open(boundary.ledger_folder)
    held = RunFolder(folder, boundary.receipt.name, ledger, lock)
    try:
        held.record = run_record.load(folder)
    except Fault:
        held.close()
        raise
    return held


def _locks(folder: Folder) -> None:
    """A lock of ours is an empty file: locking would empty any other."""
    found = folder.status(LOCK)
    if found is not None and (found.st_size or not stat.S_ISREG(found.st_mode)):
        raise _strange(folder, LOCK)


def _only_ours(folder: Folder) -> None:
    """Where no run is in front, nothing of a run may lie but what was moved aside and kept: by
    a dispatcher, say, that died when it was about to begin a further attempt."""
    for name in _FILLED:
        if folder.status(name) is not None and not (
            name in ("attempts", "generations") and all(map(_OURS.match, _names(folder, name)))
        ):
            raise _strange(folder, name)


def _names(folder: Folder, name: str) -> list[str]:
    with storing(f"{folder.path}/{name}"), folder.sub(name, make=False) as inner:
        return inner.names()


def _strange(folder: Folder, name: str) -> Fault:
    message = f"holds {name!r}, which is of no run; name another folder for the receipt"
    return fault("refused", str(folder.path), message)


def _make_parents(path: Path, boundary: Boundary) -> None:
    """Make the run folder and hide what is ours in it from git, from inside itself."""
    Folder.open(path, make=True).close()
    if path != boundary.cwd:
        _ignore(path, [*OWN, boundary.receipt.name])
    if ".codex" in boundary.ledger_folder.parts:
        _ignore(boundary.ledger_folder, [LEDGER, f"{LEDGER}.lock"])


def _ignore(path: Path, names: list[str]) -> None:
    with Folder.open(path) as folder:
        if folder.status(".gitignore") is None:
            ours = dict.fromkeys([".gitignore", f".*{TEMPORARY}", *names])
            rows = [f"/{name}\n" for name in ours]
            folder.replace(".gitignore", "".join(rows).encode())


def judge(held: RunFolder, packet: Packet, attempt: int | None) -> int | None:
    """Which attempt may run now; None when the packet has run already and none was asked for.

    Raises Fault refused for a folder that holds another packet, 64 for an attempt that is
    not the next, already_running for a claim of another host that nobody can look into.
    """
    path = str(held.folder.path)
    record = held.record
    with storing(path):
        kept = held.folder.read(PACKET, MOST_BYTES)
    if kept is not None:
        _same_packet(path, kept, packet, record)
    last = record["attempt"] if run_record.ran(record) and record else held.aside()
    if attempt is not None and attempt != last + 1:
        raise Fault(exits.USAGE, "--attempt", f"{attempt} is not the next attempt, {last + 1}")
    claim = held.claim
    ended = record is not None and record["state"] in ENDED
    if claim is not None and not ended and alive(claim) is not False:
        raise _running(held.folder.path, claim)
    if record is None and claim is None:
        _only_ours(held.folder)
    if run_record.ran(record) and attempt is None:
        return None
    return last + 1


def _same_packet(path: str, kept: bytes, packet: Packet, record: run_record.Record | None) -> None:
    """A folder belongs to one packet; one that never ran may still be corrected."""
    try:
        held = document.parse(kept, f"{path}/{PACKET}")
        other = held.get("packet_id") if isinstance(held, dict) else None
    except Fault:
        held, other = None, None
    if other != packet.packet_id:
        raise fault("refused", path, f"holds another packet, {other!r}")
    if run_record.ran(record) and canonical.dumps(held) != canonical.dumps(packet.document):
        raise fault(
            "refused", path, "holds a run of another version of this packet; use a new packet id"
        )


def peek(boundary: Boundary, packet: Packet, attempt: int | None) -> int | None:
    """What `judge` would say, with nothing created: for a dry run."""
    from filelock import FileLock, Timeout

    path = boundary.run_folder
    if not os.path.isdir(path):
        if attempt not in (None, 1):
            raise Fault(exits.USAGE, "--attempt", f"{attempt} is not the next attempt, 1")
        return 1
    with storing(str(path)), Folder.open(path) as folder:
        _locks(folder)
        if folder.status(LOCK) is not None:
            lock = FileLock(path / LOCK, timeout=0, mode=0o600, thread_local=False)
            try:
                lock.acquire()
                lock.release()
            except Timeout:
                raise _running(path, read_claim(folder)) from None
        held = RunFolder(folder, boundary.receipt.name, folder, None, run_record.load(folder))
        found = judge(held, packet, attempt)
    if found is None and held.record and held.record["state"] not in ENDED:
        message = "its dispatcher died; a dispatch recovers it as interrupted"
        raise fault("interrupted", str(path), message)
    return found


def receipt_bytes(held: RunFolder) -> bytes | None:
    """The receipt in front, as it lies there."""
    with storing(f"{held.folder.path}/{held.receipt_name}"):
        return held.folder.read(held.receipt_name, MOST_BYTES)
