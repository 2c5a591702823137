"""The declared artifacts of a packet: what they were before the run, and what they are now."""

from __future__ import annotations

import os
import stat
from typing import Any

from waybill.base import canonical
from waybill.base.files import Folder
from waybill.packet.boundary import Boundary

Identity = tuple[int, int, int, int] | None


def identities(boundary: Boundary) -> dict[str, Identity]:
    """What each declared artifact is before the run."""
    return {entry: _identity(path) for entry, path in boundary.artifacts}


def _identity(path: Any) -> Identity:
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns, found.st_size


def rows(boundary: Boundary, before: dict[str, Identity]) -> tuple[list[dict[str, Any]], int]:
    """The rows of the declared artifacts, and how many were made or changed by the run."""
    rows, made = [], 0
    for entry, path in boundary.artifacts:
        row: dict[str, Any] = {"path": entry, "sha256": None, "bytes": None}
        try:
            with Folder.open(path.parent) as folder:
                descriptor = folder.open_file(path.name, os.O_RDONLY)
                try:
                    if stat.S_ISREG(os.fstat(descriptor).st_mode):
                        row["sha256"], row["bytes"] = canonical.descriptor_digest(descriptor)
                finally:
                    os.close(descriptor)
        except OSError:
            rows.append(row)
            continue
        rows.append(row)
        made += _identity(path) != before[entry]
    return rows, made
