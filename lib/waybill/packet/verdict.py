"""The verdict grammar: one line, one word, and who says so.

A verdict line holds the word VERDICT, a colon or an equals sign, and one of PASS, WARN, FAIL
and ERROR, and nothing else; markup around the line is allowed. Two such lines, an unknown
word or further words on the line make it no verdict at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

PASS, WARN, FAIL, ERROR, NO_VERDICT = "PASS", "WARN", "FAIL", "ERROR", "NO_VERDICT"
JUDGED = (PASS, WARN, FAIL)

_MARKUP = re.compile(r"^[\s>#*_`~-]+|[\s*_`~]+$")
_FENCE = re.compile(r"\s*(?:`{3,}|~{3,})[^`]*\Z")
_VERDICT = re.compile(r"verdict[ \t*_`~]*[:=](?P<word>.*)\Z", re.IGNORECASE | re.DOTALL)
_COMMANDS = re.compile(r"commands[ _-]?run\b[ \t*_`]*[:=]?(?P<rest>.*)\Z", re.IGNORECASE)
_PAIR = re.compile(r"(?P<key>[A-Za-z][A-Za-z _-]{1,40}?)[ \t*_`]*[:=](?P<value>.*)\Z")
_NOTHING = frozenset(("", "none", "n/a", "na", "no", "nothing", "nil", "null", "unset", "unknown"))

ALIASES: dict[str, str] = {
    "author": "author",
    "author_id": "author",
    "author_name": "author",
    "judge": "judge",
    "judge_name": "judge",
    "judge_id": "judge",
    "judge_program": "program",
    "program": "program",
    "validator_program": "program",
    "judge_model_family": "family",
    "model_family": "family",
    "family": "family",
    "context_id": "context",
    "validator_session": "context",
    "author_context_id": "author_context",
}
_WAIVERS = frozenset(("allow_self", "self_waiver"))


@dataclass
class Verdict:
    """What a message says. `status` is NO_VERDICT without a verdict line, ERROR for a bad one."""

    status: str
    reason: str
    commands: list[str] = field(default_factory=list)
    identity: dict[str, str] = field(default_factory=dict)


def read(text: str) -> Verdict:
    """The verdict of a message, by the grammar alone."""
    # Only LF ends a line: other separators would let a text show one thing and hold another.
    lines = [_plain(line) for line in text.split("\n")]
    words = [_MARKUP.sub("", match["word"]) for line in lines if (match := _VERDICT.match(line))]
    known = [word.upper() for word in words if word.upper() in (PASS, WARN, FAIL, ERROR)]
    commands, identity = _commands(lines), _identity(lines)
    if not words:
        return Verdict(NO_VERDICT, "the message holds no verdict line", commands, identity)
    if len(known) < len(words):
        odd = next(word for word in words if word.upper() not in known)
        reason = f"the verdict line says {odd[:60]!r}, which is none of PASS, WARN, FAIL, ERROR"
        return Verdict(ERROR, reason, commands, identity)
    if len(set(known)) > 1:
        return Verdict(ERROR, f"contradictory verdicts: {', '.join(known)}", commands, identity)
    if len(known) > 1:
        return Verdict(ERROR, "the verdict line is repeated", commands, identity)
    return Verdict(known[0], _summary(text), commands, identity)


def _plain(line: str) -> str:
    return "" if _FENCE.match(line) else _MARKUP.sub("", line)


def _summary(text: str) -> str:
    for line in text.split("\n"):
        plain = _plain(line)
        if plain and not _VERDICT.match(plain):
            return plain[:500]
    return ""


def _commands(lines: list[str]) -> list[str]:
    """The COMMANDS RUN body: what stands after the colon, or the lines below up to a section."""
    for index, line in enumerate(lines):
        match = _COMMANDS.match(line)
        if match is None:
            continue
        rest = _MARKUP.sub("", match["rest"])
        found = [rest] if rest else []
        for below in lines[index + 1 :]:
            if _VERDICT.match(below) or below.lower().startswith("reasons"):
                break
            pair = _PAIR.match(below)
            if pair and _key(pair["key"]) in ALIASES:
                break
            if below.strip():
                found.append(below.strip())
        return [entry for entry in found if entry.lower().strip(" .-()[]") not in _NOTHING]
    return []


def _key(text: str) -> str:
    return re.sub(r"[ -]+", "_", text.strip().lower())


def _identity(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        pair = _PAIR.match(line)
        if pair is None:
            continue
        key = _key(pair["key"])
        value = pair["value"].strip().strip("`'\"*_ ").strip()
        if key in _WAIVERS:
            found["waiver"] = key
        elif key in ALIASES and ALIASES[key] not in found and value:
            found[ALIASES[key]] = value
    return found


def same(one: str, other: str) -> bool:
    """Whether two identities are one after case, spaces and punctuation are set aside."""
    return _folded(one) == _folded(other)


def _folded(text: str) -> str:
    return re.sub(r"[\W_]+", "", text.casefold())


def gaps(identity: dict[str, str]) -> list[str]:
    """What is missing before an identity proves an independent judge."""
    found = [f"missing {name}" for name in ("author", "judge", "program") if not identity.get(name)]
    if identity.get("family", "").lower() in _NOTHING:
        found.append("missing family")
    if not identity.get("context"):
        found.append("missing context_id")
    if identity.get("judge") and same(identity["judge"], identity.get("author", "")):
        found.append("author_neq_validator: judge and author are one")
    if identity.get("context") and same(identity["context"], identity.get("author_context", "")):
        found.append("author_context_id equals context_id")
    if "waiver" in identity:
        found.append(f"{identity['waiver']} asks to waive independence")
    return found


def judge(text: str, seen: Iterable[str] | None) -> Verdict:
    """The verdict that counts: with command evidence that agrees, and proven identity.

    `seen` are the commands of the event stream; None when there was no stream to see them in.
    """
    found = read(text)
    if found.status not in JUDGED:
        return found
    if not found.commands:
        found.status, found.reason = ERROR, "no COMMANDS RUN evidence beside the verdict"
    elif seen is not None and not list(seen):
        found.status = ERROR
        found.reason = "COMMANDS RUN names commands, and none was seen in the event stream"
    elif missing := gaps(found.identity):
        found.status, found.reason = ERROR, f"identity unproven: {'; '.join(missing)}"
    return found
