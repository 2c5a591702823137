"""Token numbers of a thread and of a run. A number that nobody gave is None, never 0."""

from __future__ import annotations

KEYS = (
    "input_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "output_tokens",
    "reasoning_output_tokens",
)

# Every key of KEYS. Cached input is a part of the input, and reasoning of the output: neither
# is ever added to it.
Usage = dict[str, int | None]

# What JSON readers everywhere keep exact; a larger count is damage.
_LARGEST = 2**53


def read(value: object) -> Usage | None:
    """The numbers of a `usage` object as Codex writes it, or None if it holds none."""
    if not isinstance(value, dict):
        return None
    usage = {key: _count(value.get(key)) for key in KEYS}
    return usage if any(number is not None for number in usage.values()) else None


def zero() -> Usage:
    """The baseline of a thread that has not spoken with a model yet."""
    return dict.fromkeys(KEYS, 0)


def difference(total: Usage | None, baseline: Usage | None) -> Usage | None:
    """What this run used: the thread's total after it less the total before it.

    Codex reports running totals of the thread. None if either side is unknown, or if a total
    went down: the two are then not totals of one thread.
    """
    if total is None or baseline is None:
        return None
    run: Usage = {}
    for key in KEYS:
        after, before = total.get(key), baseline.get(key)
        run[key] = None if after is None or before is None else after - before
    known = [number for number in run.values() if number is not None]
    return run if known and min(known) >= 0 else None


def _count(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST:
        return value
    return None
