"""Times as records write them: RFC 3339, UTC, with the precision that is asked for."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now() -> float:
    """Seconds since the epoch."""
    return time.time()


def monotonic() -> float:
    """Seconds on a clock that no one sets."""
    return time.monotonic()


def stamp(at: float) -> str:
    """RFC 3339 in UTC, milliseconds."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment(text: str) -> float | None:
    """Seconds since the epoch of an RFC 3339 time; None for what is none, or is a leap second."""
    try:
        at = datetime.fromisoformat(text.upper())
    except ValueError:
        return None
    return at.timestamp() if at.tzinfo else None


def compact(at: float) -> str:
    """The compact form used in identifiers: 20260131T235959Z."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y%m%dT%H%M%SZ")
