"""Lines of a byte stream that grows: framing on LF in flat memory, whatever the chunks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

LIMIT = 8 * 1024 * 1024
HEAD = 4096


class Line(NamedTuple):
    """One line without its LF and without one CR before it.

    `whole` is false for a line of more than the limit: `data` is then its first HEAD bytes.
    """

    data: bytes
    whole: bool


class Lines:
    """Frames what it is fed. Of a line over the limit no more than HEAD bytes are kept."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._over = False

    def feed(self, data: bytes) -> Iterator[Line]:
        """The lines that end within `data`. Must be run to its end before the next feed."""
        view = memoryview(data)
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._keep(view[start:end])
            yield self._line()
            start = end + 1
        self._keep(view[start:])

    def close(self) -> Iterator[Line]:
        """The last line, if the stream did not end with an LF."""
        if self._kept:
            yield self._line()

    def _keep(self, part: memoryview) -> None:
        if self._over:
            return
        if len(self._kept) + len(part) > self._limit:
            self._over = True
            self._kept += part[: max(HEAD - len(self._kept), 0)]
            del self._kept[HEAD:]
        else:
            self._kept += part

    def _line(self) -> Line:
        whole = not self._over
        if whole and self._kept.endswith(b"\r"):
            del self._kept[-1:]
        line = Line(bytes(self._kept), whole)
        self._kept = bytearray()
        self._over = False
        return line
