"""Good documents grown from a schema, and seeded mutations of them."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

# A step of each kind: what a rehearsal may hold is not in its types but in its conditions.
REHEARSAL = {
    "family": "gpt-5",
    "model": "gpt-5.4",
    "scripts": [
        {
            "match": "a",
            "steps": [
                {"exec": "ls", "tty": True, "sleep": 1},
                {"calls": [{"call": "f", "args": {"x": 1}}, {"patch": "p"}]},
                {"custom": "f", "input": "x"},
                {"fail_times": 1, "http": 503, "then": {"say": "up"}},
                {"failed": {"code": "c"}},
                {"say": "x", "usage": {"input": 1}, "headers": {"a-b": 1}},
            ],
        }
    ],
}

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 1.0, 1.5, -0.0, 2**53, 2**64, 10**30, 1e300),
    *("", " ", "x", "1", "1.0", "ok", "PASS", "\0", "é\u2028", "f" * 64, "F" * 64, "f" * 63),
    *("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123456+01:00", "2026-01-02t03:04:05z"),
    *("2026-02-30T00:00:00Z", "2026-01-02", "2026-01-02T03:04:05", "2026-01-02 03:04:05Z"),
    *([], [1], ["x"], [[]], {}, {"x": 1}, {"say": "x"}),
)


def grow(schema: Any, *, full: bool) -> Any:
    """A document that the schema allows: all of it, or only what is required."""
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0 if full else -1]
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    kind = kinds[0 if full else -1]
    if kind == "object":
        names = schema.get("properties", {})
        chosen = names if full else schema.get("required", [])
        found = {name: grow(names[name], full=full) for name in chosen}
        rest = schema.get("additionalProperties")
        return {**found, "free": grow(rest, full=full)} if full and rest else found
    if kind == "array":
        least = schema.get("minItems", 0)
        return [grow(schema["items"], full=full) for _ in range(max(least, 2 if full else 0))]
    if kind == "string":
        if schema.get("format") == "date-time":
            return "2026-01-02T03:04:05.678Z"
        return "a" * (40 if "40" in schema.get("pattern", "") else 64)
    return {"integer": 1, "number": 1.5, "boolean": True, "null": None}[kind]


def mutations(good: Any, seed: int, count: int) -> Iterator[Any]:
    """So many documents that differ from the good one in one or two places."""
    chance = random.Random(seed)
    for _ in range(count):
        document = copy.deepcopy(good)
        for _ in range(chance.choice((1, 1, 1, 2))):
            document = _mutated(document, chance)
        yield document


def _mutated(document: Any, chance: random.Random) -> Any:
    holders = list(_holders(document))
    if not holders or chance.random() < 0.02:
        return copy.deepcopy(chance.choice(ODD))
    holder, key = chance.choice(holders)
    change = chance.randrange(5)
    if change == 0:
        del holder[key]
    elif change == 1 and isinstance(holder, dict):
        holder[chance.choice((f"{key}s", str(key).upper(), "extra"))] = holder[key]
    elif change == 1:
        holder.append(copy.deepcopy(holder[key]))
    elif change == 2:
        other, name = chance.choice(holders)
        holder[key] = copy.deepcopy(other[name])
    else:
        holder[key] = copy.deepcopy(chance.choice(ODD))
    return document


def _holders(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a document, as its container and its key."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _holders(value[key])
