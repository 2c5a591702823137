"""Secrets out of everything that people and records see; evidence files stay as they are.

Masked are the values of variables whose names say that they are secret, user names and
passwords in URLs, and the token shapes that are recognisable by themselves. Digests and
base64 are left alone: a mask that eats evidence is worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

MASK = "***"
SHORTEST = 8  # characters; a shorter value is too likely to be a word

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
# Bounded where a text could otherwise make each place the start of a search to its end.
_SHAPES = re.compile(
    r"(?P<url>://)[^\s/?#\"']*@"
    r"|(?P<bearer>\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}"
    r"|\bsk-[A-Za-z0-9_-]{8,}"
    r"|\bgh[a-z]_[A-Za-z0-9]{16,}"
    r"|\bgithub_pat_[A-Za-z0-9_]{16,}"
    r"|\bxox[a-z]-[A-Za-z0-9-]{8,}"
    r"|\beyJ[A-Za-z0-9_-]{6,1000}\.[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]*",
    re.IGNORECASE,
)


def is_secret_name(name: str) -> bool:
    """Whether a variable's name says that its value is secret."""
    return _SECRET_NAME.search(name) is not None


class Mask:
    """Masks texts and counts how often it had to."""

    def __init__(self, *environments: Mapping[str, str]) -> None:
        values = {
            value
            for environment in environments
            for name, value in environment.items()
            if is_secret_name(name) and len(value) >= SHORTEST
        }
        # Longest first, so that a secret that contains another is masked whole.
        self._values = sorted(values, key=len, reverse=True)
        self.count = 0

    def text(self, text: str) -> str:
        """The text without secrets."""
        for value in self._values:
            found = text.count(value)
            if found:
                self.count += found
                text = text.replace(value, MASK)
        return _SHAPES.sub(self._shape, text)

    def _shape(self, match: re.Match[str]) -> str:
        self.count += 1
        if match["url"]:
            return f"{match['url']}{MASK}@"
        return f"{match['bearer'] or ''}{MASK}"

    def record(self, value: Any, *, spare: Iterable[str] = ()) -> Any:
        """A copy of a record with every text masked, but for the keys to spare."""
        spared = set(spare)
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.record(held, spare=spared) for held in value]
        if isinstance(value, dict):
            return {
                key: held if key in spared else self.record(held, spare=spared)
                for key, held in value.items()
            }
        return value
