"""What failure text means: pure rules from the words of Codex and of providers to outcomes."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

LONGEST = 500
_READ = 64 * 1024

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_BLANK = re.compile(r"[\s\x00-\x1f\x7f]+")


class Failure(NamedTuple):
    """An outcome of a run, why in one sentence, and when a retry may help (RFC 3339)."""

    outcome: str
    sentence: str
    retry_at: str | None


# First match wins. Each pattern is searched in the sentence and in the code. Patterns of this
# module are texts: most runs need none of them, and compiling them all costs as much as git.
_RULES: tuple[tuple[str, str, str], ...] = (
    ("already_running", "", r"already has an active writer"),
    ("session_lost", "", r"no rollout found for|\b(thread|conversation|session) not found"),
    (
        "quota",
        "",
        r"usage.limit|quota exceeded|exceeded your current quota|insufficient_quota"
        r"|out of credits|spend cap|workspace credit limit|billing_hard_limit",
    ),
    (
        "model_unavailable",
        "",
        r"model_not_found|usage_not_included|requires a newer version of codex"
        r"|not supported when using codex|to use codex with your chatgpt plan"
        r"|\bmodel\b[ :'\"`]*[^ ]* (does not exist|not found|is not available)"
        r"|do(es)? not have access to (the |this )?model|verified to use the model"
        r"|(invalid|unknown|unsupported) model\b",
    ),
    (
        "auth",
        "",
        r"\b(status|status code|http|error):? 40[13]\b|\b401 unauthorized|\b403 forbidden"
        r"|^401\b|not logged in|\b(access|refresh|id) token|token_expired|invalid_api_key"
        r"|incorrect api key|(log|sign) in again|session could not be refreshed|codex login\b"
        r"|^(unauthorized|authentication_error)",
    ),
    ("quota", "capacity", r"at capacity|overloaded"),
    ("quota", "burst limit", r"\b429\b|\brate.limit|too many requests"),
    (
        "config_error",
        "",
        r"not inside a trusted directory|unexpected argument|error loading config|invalid value"
        r"|unrecognized subcommand|required arguments were not provided|cannot be used with"
        r"|codex_home points to|output schema file|unsupported_value|unsupported_parameter",
    ),
)


def classify(text: str, code: str | None = None, now: datetime | None = None) -> Failure:
    """The outcome that the text of a failure stands for; `agent_failed` if it names no other.

    `code` is the machine-readable code that came with it, if any. `retry_at` is set only for
    `quota` and only if the text gives a time. Codex prints the clock of its machine and no
    zone, so a date is given the offset that this machine has at that date; a time without a
    date is of the day of `now` and "in 3 days" counts from it; without `now`, an aware time,
    these are left out.
    """
    sentence, inner = unwrap(text)
    # A proxy's own code may come beside Codex's: each can be the one that says something.
    for outcome, kind, rule in _RULES:
        if any(re.search(rule, where, re.I) for where in (sentence, inner, code) if where):
            named = f"{kind}: {sentence}" if kind and sentence else sentence or code or kind
            when = _retry_at(text[:_READ], now) if outcome == "quota" else None
            return Failure(outcome, fold(named), when)
    return Failure("agent_failed", sentence or code or "no reason was given", None)


def fold(text: str) -> str:
    """One line without colours and control characters, of at most LONGEST characters."""
    text = _BLANK.sub(" ", _ANSI.sub("", text[:_READ])).strip()
    text = text.encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= LONGEST else text[: LONGEST - 1].rstrip() + "…"


def unwrap(value: object) -> tuple[str, str | None]:
    """The sentence and the code in an error: text, JSON, JSON in text, JSON in JSON.

    Words around the JSON are kept, as in `unexpected status 400 Bad Request: …`. The sentence
    is empty if there is none; the code is the innermost one.
    """
    sentence, code = _unwrap(value, 6)
    return fold(sentence), fold(code)[:80] if code else None


def _unwrap(value: object, depth: int) -> tuple[str, str | None]:
    if isinstance(value, dict):
        return _member(value, depth)
    if isinstance(value, list):
        return _unwrap(value[0], depth - 1) if value and depth else ("", None)
    if not isinstance(value, str):
        return "", None
    text = value[:_READ].strip()
    if depth and text[:1] == '"':
        whole, _ = _decode(text, 0)
        if isinstance(whole, str):
            return _unwrap(whole, depth - 1)
    start = -1
    for _ in range(5 if depth else 0):
        start = text.find("{", start + 1)
        if start < 0:
            break
        found, end = _decode(text, start)
        if isinstance(found, dict):
            inner, code = _member(found, depth - 1)
            if inner or code:
                return f"{text[:start]}{inner or code}{text[end:]}", code
            break
    return text, None


def _decode(text: str, start: int) -> tuple[object, int]:
    try:
        return json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None, start


_SENTENCES = ("message", "detail", "msg", "error_description", "error")


def _member(error: dict[str, object], depth: int) -> tuple[str, str | None]:
    if depth <= 0:
        return "", None
    sentence, code = "", None
    nested = isinstance(error.get("error"), dict)
    for key in ("error" if nested else "message", *_SENTENCES):
        sentence, code = _unwrap(error.get(key), depth - 1)
        if sentence:
            break
    for key in ("code", "type", "codex_error_info"):
        own = error.get(key)
        if code is None and isinstance(own, str) and own not in ("error", "other", ""):
            code = own
    return sentence, code


_EPOCH = r'"resets_at"\s*:\s*(\d{9,11})\b'
_DATE = (
    r"try again at ([A-Z][a-z]{2})[a-z]* (\d{1,2})(?:st|nd|rd|th)?, (\d{4}),? "
    r"(\d{1,2}):(\d\d) ?([AP]M)\b"
)
_CLOCK = r"try again at (\d{1,2}):(\d\d) ?([AP]M)\b"
_SPAN = r"try again in ((?:\d+(?:\.\d+)? ?(?:ms|[a-z]+)[, ]*(?:and )?)+)"
_PART = r"(\d+(?:\.\d+)?) ?(ms|millisecond|s|m|h|d|w)"
_SECONDS = {"ms": 0.001, "millisecond": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def _retry_at(text: str, now: datetime | None) -> str | None:
    text = _BLANK.sub(" ", text)
    try:
        if match := re.search(_EPOCH, text.replace("\\", "")):
            return datetime.fromtimestamp(int(match[1]), UTC).isoformat()
        if match := re.search(_DATE, text, re.I):
            month = _MONTHS.index(match[1].lower()) + 1
            day = datetime(int(match[3]), month, int(match[2]))
            return _at(day, match[4], match[5], match[6]).astimezone().isoformat()
        if now is None:
            return None
        if match := re.search(_CLOCK, text, re.I):
            return _at(now.astimezone(), match[1], match[2], match[3]).isoformat()
        if match := re.search(_SPAN, text, re.I):
            parts = re.findall(_PART, match[1], re.I)
            wait = sum(float(number) * _SECONDS[unit.lower()] for number, unit in parts)
            return (now + timedelta(seconds=wait)).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        pass
    return None


def _at(day: datetime, hour: str, minute: str, half: str) -> datetime:
    if not 1 <= int(hour) <= 12:
        raise ValueError(hour)
    on_24 = int(hour) % 12 + (12 if half.upper() == "PM" else 0)
    return day.replace(hour=on_24, minute=int(minute), second=0, microsecond=0)


_HARMLESS = (
    r"Reading (additional input|prompt) from stdin"
    r"|WARNING: proceeding, even though"
    r"|failed to refresh available models"
    r"|note: run with `RUST_BACKTRACE"
    r"|^\S*\d\S* +(WARN|INFO|DEBUG|TRACE)\b"
    r"|^(tip|Usage): |^codex [a-z-]+ \[OPTIONS\]|^\[possible values"
    r"|^For more information, try"
)
_TRACE = r"stack backtrace:"
_START = r"(error|fatal)\b"


def headline(stderr_tail: str) -> str | None:
    """The last thing of meaning on stderr, or None if all of it is harmless.

    The last line, or from the last one that begins with `Error`, since Codex prints causes
    and places on lines after it. Notices and log lines that good runs print too are skipped,
    so are stack traces and the usage text after a wrong flag.
    """
    kept: list[str] = []
    in_trace = False
    for raw in _ANSI.sub("", stderr_tail[-_READ:]).splitlines():
        line = raw.strip()
        if re.match(_TRACE, line, re.I):
            in_trace = True
        elif in_trace and (not line or raw[:1].isspace() or line[:1].isdigit()):
            continue
        else:
            in_trace = False
            if line and not re.search(_HARMLESS, line, re.I):
                kept.append(line)
    if not kept:
        return None
    start = max(
        (n for n, line in enumerate(kept) if re.match(_START, line, re.I)), default=len(kept) - 1
    )
    return fold(" ".join(kept[start:])) or None
