"""From what was measured of a run of Codex to the keys of its record. No decision is here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from waybill.base import clock, process
from waybill.base.files import Folder, storing
from waybill.codex import usage
from waybill.packet.session import Session
from waybill.tree.workshop import Workshop

NO_STREAM = "no event stream asked for"


def codex_home(environment: dict[str, str]) -> Path:
    """Where Codex keeps its threads under that environment."""
    home = environment.get("CODEX_HOME") or os.path.join(environment.get("HOME", "/"), ".codex")
    return Path(home)


def baseline(home: Path, resumed: str | None) -> usage.Usage | None:
    """What a thread had used before this run; zero for a new one, None when unknown."""
    if resumed is None:
        return usage.zero()
    from waybill.codex import rollout

    path = rollout.find(home, resumed)
    return rollout.baseline_usage(path) if path else None


def thread(
    record: dict[str, Any],
    session: Session,
    home: Path,
    resumed: str | None,
    before: usage.Usage | None,
    *,
    stream: bool,
) -> None:
    """Fill thread, turn, usage, model and the sandbox that was in force."""
    reader = session.reader
    ident = reader.thread_id if stream else None
    record["thread"] = {"id": ident, "resumed_from": resumed}
    if stream:
        record["turn"] = {"status": reader.turn, "error": reader.error}
        total = reader.usage
        reason = None if total is not None else "the stream reports no usage of a completed turn"
        used = usage.difference(total, before)
        if total is not None and used is None:
            reason = "what the thread had used before is unknown"
        record["usage"] = {"run": _known(used), "thread": _known(total), "reason": reason}
    else:
        record["turn"] = {"status": "unknown", "error": None}
        record["usage"] = {"run": None, "thread": None, "reason": NO_STREAM}
    from waybill.codex import rollout

    path = rollout.find(home, ident) if ident else None
    if path is None:
        return
    found = rollout.effective(path)
    if found.sandbox in ("read-only", "workspace-write", "danger-full-access"):
        record["sandbox"]["effective"] = found.sandbox
    record["model"]["effective"] = found.model
    record["model"]["family"] = family(found.model, record["rehearsal"])


def family(model: str | None, rehearsal: dict[str, Any] | None) -> str | None:
    """The family of a model; in a rehearsal that of the script, which no real model played."""
    from waybill.codex import rollout

    return str(rehearsal["family"]) if rehearsal else rollout.family(model)


def _known(found: usage.Usage | None) -> dict[str, int] | None:
    if found is None:
        return None
    return {key: number for key, number in found.items() if number is not None}


def ended(record: dict[str, Any], session: Session) -> None:
    """Fill process, stdin, timing and the limit that passed."""
    reader = session.reader
    record["process"] |= {
        "exit_code": session.exit_code,
        "signal": session.signal,
        "cleaned": session.cleaned,
    }
    record["stdin"] |= {
        "bytes_written": session.stdin_taken,
        "closed_at": clock.stamp(session.stdin_ended_at or session.ended_at),
    }
    record["limits"]["passed"] = session.limit
    record["timing"] |= {
        "ended": clock.stamp(session.ended_at),
        "first_event": _stamp(reader.first_event_at),
        "last_progress": _stamp(reader.last_progress_at),
    }


def _stamp(at: float | None) -> str | None:
    return None if at is None else clock.stamp(at)


def started(record: dict[str, Any], session: Session, mode: str) -> None:
    """Fill process, stdin and timing as far as they are known at the start."""
    here = process.Identity.here()
    record["state"] = "running"
    record["process"] = {
        "pid": session.pid,
        "started": session.started_ticks,
        "boot_id": here.boot_id,
        "host": here.host,
        "exit_code": None,
        "signal": None,
        "cleaned": [],
    }
    record["stdin"] = {"mode": mode, "bytes_written": 0, "closed_at": None}
    record["timing"]["started"] = clock.stamp(session.started_at)


def result(
    record: dict[str, Any], workshop: Workshop, folder: Folder, base_tree: str, name: str
) -> str:
    """Take the result tree, write its patch, and fill tree and patch; the tree's id."""
    tree = workshop.snapshot()
    rows = [] if tree == base_tree else workshop.changed(base_tree, tree)
    record["patch"] = {
        **patch(workshop, folder, name, base_tree, tree),
        "files": [{"path": row.path, "status": row.status} for row in rows],
    }
    record["tree"]["result_tree"] = tree
    record["tree"]["ignored"] = workshop.ignored()
    return tree


def patch(
    workshop: Workshop, folder: Folder, name: str, old: str | None, new: str
) -> dict[str, Any]:
    """Write one patch file; its path and digest."""
    from waybill.base import canonical

    with storing(f"{folder.path}/{name}"):
        folder.remove(name)
        descriptor = folder.create(name)
        try:
            if old != new:
                workshop.patch(old, new, descriptor)
            os.fsync(descriptor)
            sha256, _ = canonical.descriptor_digest(descriptor)
        finally:
            os.close(descriptor)
    return {"path": name, "sha256": sha256}
