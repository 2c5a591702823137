"""Where state lives outside a project, by the XDG variables."""

from __future__ import annotations

import os
from pathlib import Path


def folder(*names: str) -> Path:
    """A private folder below the state directory, made when it is not there."""
    root = os.environ.get("XDG_STATE_HOME", "")
    base = Path(root) if root.startswith("/") else Path.home() / ".local" / "state"
    path = base.joinpath("waybill", *names)
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path
