"""Documents from outside: bounded, UTF-8, JSON or YAML, with nothing ambiguous in them.

Refused, because two readers would understand them differently: repeated keys, NaN and
infinities, text that is not UTF-8, lone surrogates, and nesting deeper than a reader bears.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
import sys
from typing import Any

from waybill.base import exits
from waybill.base.exits import Fault

MAX_BYTES = 16 << 20  # one document; a packet or a receipt is a few kilobytes
MAX_DEPTH = 100  # levels of nesting

STDIN_NAME = "stdin"

# What YAML 1.1, which our parser speaks, reads otherwise than YAML 1.2: truth values, octal,
# binary and sexagesimal numbers, underscores in numbers, exponents without a dot.
_TWO_WAYS = re.compile(
    r"yes|no|on|off|[-+]?0[0-9_]+|[-+]?0[ob][0-9_]+|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?"
    r"|[-+]?[0-9]+(?:_[0-9_]*)+(?:\.[0-9_]*)?|[-+]?[0-9]+e[-+]?[0-9]+",
    re.IGNORECASE,
)


def read_bytes(operand: str | None, *, limit: int = MAX_BYTES) -> tuple[bytes, str]:
    """The bytes of a file, or of standard input for None and "-"; and a name for messages.

    Raises Fault 66 when it cannot be read or is empty, 65 when it is over the limit.
    """
    if operand in (None, "-"):
        return _read_stdin(limit), STDIN_NAME
    assert operand is not None
    try:
        # Never wait on a FIFO that nobody writes to.
        descriptor = os.open(operand, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Fault(exits.NOINPUT, printable(operand), f"cannot be read: {reason}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Fault(exits.NOINPUT, printable(operand), "cannot be read: not a regular file")
    with os.fdopen(descriptor, "rb") as stream:
        try:
            data = stream.read(limit + 1)
        except OSError as error:
            raise Fault(
                exits.NOINPUT, printable(operand), f"cannot be read: {error.strerror}"
            ) from None
    return _bounded(data, printable(operand), limit), printable(operand)


def _read_stdin(limit: int) -> bytes:
    if sys.stdin is None:
        raise Fault(exits.NOINPUT, STDIN_NAME, "it is closed; name a file or use a pipe")
    try:
        if os.isatty(0):
            raise Fault(exits.NOINPUT, STDIN_NAME, "it is a terminal; name a file or use a pipe")
        data = sys.stdin.buffer.read(limit + 1)
    except (OSError, ValueError) as error:
        raise Fault(exits.NOINPUT, STDIN_NAME, f"cannot be read: {error}") from None
    if not data.strip():
        raise Fault(
            exits.NOINPUT, STDIN_NAME, "nothing on stdin: did the command before fail?"
        ) from None
    return _bounded(data, STDIN_NAME, limit)


def _bounded(data: bytes, subject: str, limit: int) -> bytes:
    if len(data) > limit:
        raise Fault(exits.DATA, subject, f"larger than {limit} bytes")
    if not data.strip():
        raise Fault(exits.NOINPUT, subject, "is empty")
    return data


def printable(text: str) -> str:
    """A name fit for one line on a terminal: control characters are shown as escapes."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode()
        for c in text
    )


def parse(data: bytes, subject: str, *, yaml: bool = False) -> Any:
    """The document in the bytes. With `yaml`, YAML is read too. Raises Fault 65."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Fault(exits.DATA, subject, f"not UTF-8 (byte {error.start})") from None
    # A byte order mark is how some editors say UTF-8; it carries nothing else.
    text = text.removeprefix("\ufeff")
    try:
        found = _either(text, subject) if yaml else _json(text)
        _check(found, 0)
    except RecursionError:
        raise Fault(exits.DATA, subject, "nested too deeply") from None
    except _Unfit as error:
        raise Fault(exits.DATA, subject, str(error)) from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise Fault(exits.DATA, subject, f"not JSON: {error.msg} ({where})") from None
    except ValueError as error:
        raise Fault(exits.DATA, subject, f"not JSON: {error}") from None
    return found


def read(operand: str | None, *, yaml: bool = False) -> tuple[Any, str, bytes]:
    """The parsed document of a file or of standard input, its name, and its bytes."""
    data, subject = read_bytes(operand)
    return parse(data, subject, yaml=yaml), subject, data


class _Unfit(ValueError):
    """A document that two readers would understand differently."""


def _either(text: str, subject: str) -> Any:
    """JSON where it is JSON, so that its numbers are JSON's; else YAML."""
    try:
        return _json(text)
    except json.JSONDecodeError:
        return _yaml(text, subject)


def _json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_object, parse_constant=_constant)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Unfit(f"key {json.dumps(twice)} stands twice in one object")
    return found


def _constant(word: str) -> Any:
    raise _Unfit(f"{word} is not a JSON value")


def _check(value: Any, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise _Unfit(f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        for key, held in value.items():
            if not isinstance(key, str):
                raise _Unfit(f"key {key!r} is not text: put it in quotes")
            _check(key, depth)
            _check(held, depth + 1)
    elif isinstance(value, list):
        for held in value:
            _check(held, depth + 1)
    elif isinstance(value, str):
        if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
            raise _Unfit("a lone surrogate is not text")
    elif isinstance(value, float) and not math.isfinite(value):
        raise _Unfit("a number is out of range")
    elif not isinstance(value, (int, float, type(None))):
        raise _Unfit(f"a value of kind {type(value).__name__} is not JSON")


def _yaml(text: str, subject: str) -> Any:
    import yaml

    class Loader(yaml.SafeLoader):
        """Safe YAML in which a repeated key is an error and dates stay text."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            keys = [self.construct_object(key, deep=True) for key, _ in node.value]
            for index, key in enumerate(keys):
                if not isinstance(key, str):
                    raise _Unfit(f"key {key!r} is not text: put it in quotes")
                if key in keys[:index]:
                    raise _Unfit(f"key {json.dumps(key)} stands twice in one mapping")
            return super().construct_mapping(node, deep=deep)

    Loader.yaml_implicit_resolvers = {
        first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    try:
        for token in yaml.scan(text):
            # Aliases can make a small text expand without bound; no record needs them.
            if isinstance(token, yaml.AliasToken):
                raise Fault(exits.DATA, subject, "YAML aliases are not read; write the value out")
            if isinstance(token, yaml.TagToken):
                raise Fault(exits.DATA, subject, "YAML tags are not read; write the value alone")
            if not isinstance(token, yaml.ScalarToken) or not token.plain:
                continue
            if _TWO_WAYS.fullmatch(token.value):
                raise _Unfit(f"{token.value!r} is read in two ways in YAML: put text in quotes")
        return yaml.load(text, Loader=Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise Fault(exits.DATA, subject, f"not YAML: {problem}{where}") from None
