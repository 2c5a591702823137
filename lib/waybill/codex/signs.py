"""Signs, in what commands and models wrote, that no work could be done."""

from __future__ import annotations

import json
import re

# Written by Codex's sandbox before the command itself runs, so near the start of the output.
# A text, like the next: most runs need neither, so neither is compiled at the start.
_SANDBOX = (
    r"^(?:bwrap|sandbox-exec|windows sandbox): "
    r"|error running landlock"
    r"|Failed to create ruleset"
    r"|Sandbox\((?:Landlock|Seccomp)"
    r"|panicked at (?:[\w./-]*/)?linux-sandbox/"
    r"|failed to exec (?:system|bundled) bubblewrap"
    r"|bubblewrap is unavailable"
    r"|codex-linux-sandbox was required but not provided"
    r"|seccomp (?:setup|backend|filter) (?:error|synchronization failed)"
    r"|Error calling `seccomp`"
    r"|sandbox (?:setup |process )?(?:failed to start|could not be started|error:)"
    r"|sandbox_apply: Operation not permitted"
)
_EARLY_LINES = 10
_EARLY_TEXT = 4000

_REFUSED = (
    r"\bapproval\b|\bcancell?ed\b"
    r"|user (?:rejected|declined|denied)|rejected by user|blocked by app"
)

_OBJECT = re.compile(r"^[ \t]*+(?:<tool_call>)?[ \t\[]*+(?=\{)", re.MULTILINE)
_TRIES = 5


def sandbox_error(output: str) -> str | None:
    """The line of a failed command's output that says that its sandbox could not start."""
    for line in output[:_EARLY_TEXT].splitlines()[:_EARLY_LINES]:
        if re.search(_SANDBOX, line.strip(), re.IGNORECASE | re.MULTILINE):
            return line.strip()[:500]
    return None


def refusal(error: str) -> bool:
    """Whether a failed tool call was stopped by an approval that nobody could give."""
    return bool(re.search(_REFUSED, error, re.IGNORECASE))


def tool_call(message: str) -> bool:
    """Whether a message is, or holds on lines of its own, a tool call written out as JSON.

    A gateway that drops the tools of a request makes a model do so; nothing runs then.
    """
    decoder = json.JSONDecoder()
    for number, start in enumerate(_OBJECT.finditer(message)):
        if number == _TRIES:
            break
        try:
            value, _ = decoder.raw_decode(message, start.end())
        except (ValueError, RecursionError):
            continue
        if _call(value):
            return True
    return False


def _call(value: dict[str, object]) -> bool:
    inner = value.get("function")
    if isinstance(inner, dict):
        value = inner
    named = isinstance(value.get("name"), str)
    given = any(key in value for key in ("arguments", "parameters", "input"))
    return (named and given) or isinstance(value.get("cmd"), str | list)
