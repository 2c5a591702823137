"""The run of a packet's required commands, and what each of them changed."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from waybill.base import canonical
from waybill.base.exits import fault
from waybill.base.files import Folder, storing
from waybill.codex import sandbox
from waybill.packet import evidence
from waybill.packet.evidence import Pin
from waybill.tree.workshop import Workshop


class Confinement:
    """Codex's own sandbox around each command: no network, and one scratch folder to write."""

    def __init__(self, binary: str, cwd: Path, *, writable: bool) -> None:
        self.scratch = Path(tempfile.mkdtemp(prefix="waybill-evidence-"))
        self._binary, self._cwd, self._writable = binary, cwd, writable

    def words(self, words: list[str]) -> list[str]:
        """The command line that runs the words confined."""
        return sandbox.confined(
            self._binary, self._cwd, self.scratch, words, writable=self._writable
        )

    def environment(self, environment: dict[str, str]) -> dict[str, str]:
        """The same, with temporary files in the scratch folder."""
        return {**environment, "TMPDIR": str(self.scratch)}

    def require(self, environment: dict[str, str]) -> None:
        """Raise Fault config_error where the sandbox does not work: nothing runs unconfined."""
        wrong = sandbox.fails(self.words(["/bin/true"]), self._cwd, self.environment(environment))
        if wrong is not None:
            raise fault("config_error", "--confine-evidence", f"the sandbox fails: {wrong}")

    def close(self) -> None:
        """Remove the scratch folder."""
        shutil.rmtree(self.scratch, ignore_errors=True)


def skipped(pins: list[Pin], reason: str, *, confined: bool) -> list[dict[str, Any]]:
    """The rows of commands that nobody tried to run."""
    return [
        _row(pin, None, evidence.not_run(evidence.NOT_ATTEMPTED + reason), None, [], confined)
        for pin in pins
    ]


def run(
    pins: list[Pin],
    *,
    cwd: Path,
    environment: dict[str, str],
    folder: Folder,
    limit: float,
    grace: float,
    workshop: Workshop,
    tree: str,
    confinement: Confinement | None,
    stopped: Callable[[], bool],
) -> tuple[list[dict[str, Any]], list[str], str]:
    """Run every command in order, also after one fails: rows, excerpts, and the last tree."""
    rows, excerpts = [], []
    for number, pin in enumerate(pins, 1):
        if stopped():
            rows += skipped([pin], "interrupted", confined=confinement is not None)
            continue
        row, text, tree = _one(
            number,
            pin,
            cwd,
            environment,
            folder,
            limit,
            grace,
            workshop,
            tree,
            confinement,
            stopped,
        )
        rows.append(row)
        excerpts.append(text)
    return rows, excerpts, tree


def _one(
    number: int,
    pin: Pin,
    cwd: Path,
    environment: dict[str, str],
    folder: Folder,
    limit: float,
    grace: float,
    workshop: Workshop,
    tree: str,
    confinement: Confinement | None,
    stopped: Callable[[], bool],
) -> tuple[dict[str, Any], str, str]:
    name = f"{number}.log"
    with storing(f"{folder.path}/{name}"):
        folder.remove(name)
        log = folder.create(name)
    try:
        found, check = None, None
        try:
            found = evidence.digest(cwd, pin.entry)
        except evidence.Unpinned as unpinned:
            check = evidence.not_run(str(unpinned))
        if check is None and pin.sha256 is not None and found != pin.sha256:
            check = evidence.not_run(
                f"the program changed during the run: pinned {pin.sha256[:12]},"
                f" found {str(found)[:12]}"
            )
        if check is None:
            words = confinement.words(pin.words) if confinement else pin.words
            check = evidence.run(
                words,
                cwd=cwd,
                environment=confinement.environment(environment) if confinement else environment,
                stdout=log,
                stderr=log,
                limit=limit,
                grace=grace,
                stopped=stopped,
            )
            if confinement and sandbox.not_found(check.exit_code, _tail(log)):
                check = evidence.not_run("the sandbox could not find the program")
        with contextlib.suppress(OSError):
            os.fsync(log)
        sha256, size = canonical.descriptor_digest(log)
        after = workshop.snapshot()
        changed = [] if after == tree else [row.path for row in workshop.changed(tree, after)]
        kept = {"path": f"evidence/{name}", "sha256": sha256, "bytes": size}
        text = evidence.excerpt(log)
        if check.reason:
            text = f"{check.reason}\n{text}".strip()
        row = _row(pin, found, check, kept, changed, confinement is not None)
        return row, text, after
    finally:
        os.close(log)


def _tail(log: int) -> str:
    size = os.fstat(log).st_size
    return os.pread(log, 4096, max(0, size - 4096)).decode("utf-8", "replace")


def _row(
    pin: Pin,
    found: str | None,
    check: evidence.Check,
    log: dict[str, Any] | None,
    changed: list[str],
    confined: bool,
) -> dict[str, Any]:
    return {
        "command": pin.entry,
        "pinned": pin.sha256,
        "found": found,
        "exit_code": check.exit_code,
        "seconds": round(check.seconds, 3),
        "timed_out": check.timed_out,
        "log": log,
        "changed_files": changed,
        "outcome": check.outcome,
        "reason": check.reason,
        "confined": confined,
    }
