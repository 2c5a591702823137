"""What `codex login status` says, and who is logged in by it."""

from __future__ import annotations

REQUIRED = "Logged in using ChatGPT"
CHATGPT = "chatgpt-subscription"
API_KEY = "api-key"
UNKNOWN = "unknown"
MOST = 500  # characters of a status that a record keeps


def mode(exit_code: int, text: str) -> str:
    """The login by the exit status and the text, standard output and error joined.

    Only a line that begins with the phrase counts: a sentence that mentions it does not.
    """
    lines = [line.strip() for line in text.splitlines()]
    if any(line.startswith("Logged in using an API key") for line in lines):
        return API_KEY
    if exit_code == 0 and any(line.startswith(REQUIRED) for line in lines):
        return CHATGPT
    return UNKNOWN


def summary(text: str) -> str:
    """The status as a record keeps it: without Codex's warnings, on one line, bounded."""
    told = [line for line in text.splitlines() if not line.startswith("WARNING:")]
    return " ".join(" ".join(told).split())[:MOST]
