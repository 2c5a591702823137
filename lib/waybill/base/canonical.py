"""The bytes that are hashed: one author for canonical JSON and for digests.

Digests are lower-case hexadecimal SHA-256. A digest of a record covers a type tag, so that
two records of different kinds never share one.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

_BLOCK = 1 << 20  # bytes read at once; memory stays flat whatever the file's size


def dumps(document: Any) -> bytes:
    """Canonical JSON: sorted keys, no spaces, UTF-8, no NaN. Raises ValueError otherwise."""
    text = json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode("utf-8")


def pretty(document: Any) -> bytes:
    """JSON for people and for files: two spaces, keys in the record's order, one newline."""
    return (json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def line(document: Any) -> bytes:
    """One JSON line, keys in the record's order."""
    return (json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n").encode()


def record_digest(tag: str, document: Any) -> str:
    """SHA-256 of one canonical object that holds the tag and the record."""
    return digest(dumps({"tag": tag, "record": document}))


def digest(data: bytes) -> str:
    """SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def descriptor_digest(descriptor: int) -> tuple[str, int]:
    """SHA-256 and length in bytes of what an open regular file holds, from its start."""
    total, state, at = 0, hashlib.sha256(), 0
    while block := os.pread(descriptor, _BLOCK, at):
        state.update(block)
        at += len(block)
        total += len(block)
    return state.hexdigest(), total
