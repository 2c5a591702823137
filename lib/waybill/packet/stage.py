"""The stage of a rehearsal: a scripted model at work, and a Codex home that leads to it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waybill.base import canonical, document, schema, state
from waybill.base.files import storing
from waybill.packet.preflight import Asked

DEFAULT_MODEL = "gpt-5.4"


@dataclass
class Rehearsing:
    """A scripted model at work: its record, the model's name, and a process to spare."""

    record: dict[str, Any]
    model: str
    pid: int
    base_url: str


def script(asked: Asked) -> dict[str, Any] | None:
    """The rehearsal script, validated; None when this is no rehearsal."""
    if asked.rehearse is None:
        return None
    found, subject, data = document.read(asked.rehearse, yaml=True)
    schema.require("rehearsal", found, subject)
    named = found if isinstance(found, dict) else {}
    return {**named, "sha256": canonical.digest(data)}


@contextmanager
def rehearse(
    path: str, played: dict[str, Any], run_id: str
) -> Iterator[tuple[dict[str, str], Rehearsing]]:
    """A scripted model and a Codex home that leads to it, both gone afterwards.

    Threads are kept in one folder for all rehearsals, so that a session can be resumed.
    """
    from waybill.rehearsal import home, spawn

    model = played.get("model", DEFAULT_MODEL)
    with storing("$XDG_STATE_HOME"):
        folder, threads = state.folder("rehearsal") / run_id, state.folder("rehearsal", "sessions")
    server = spawn.spawn(Path(path))
    try:
        with storing(str(folder)):
            home.write_home(folder, server.base_url, model=model)
            sessions = folder / "sessions"
            if not sessions.is_symlink():
                sessions.symlink_to(threads)
        rehearsing = Rehearsing(
            {
                "script": os.path.realpath(path),
                "sha256": played["sha256"],
                "family": played.get("family", "scripted"),
            },
            model,
            server.pid,
            server.base_url,
        )
        yield {**os.environ, **_loopback(), "CODEX_HOME": str(folder)}, rehearsing
    finally:
        server.close()
        shutil.rmtree(folder, ignore_errors=True)


def _loopback() -> dict[str, str]:
    """A proxy of the caller's must not stand between Codex and a model on loopback."""
    spared = [os.environ.get(name, "") for name in ("NO_PROXY", "no_proxy")]
    value = ",".join([*filter(None, spared), "127.0.0.1"])
    return {"NO_PROXY": value, "no_proxy": value}
