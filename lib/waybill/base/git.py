"""git, and the only place that calls it.

Every call runs without the caller's GIT_* variables (they redirect git to another
repository), with fixed messages, no prompt, no optional lock, no hook, no file system
monitor and no external diff, and with a limit. What else a repository's configuration
could start is kept out by the git dir that the caller works in: see `tree.annex`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from waybill.base import exits, process
from waybill.base.exits import Fault

# Seconds. A tree of a few gigabytes is hashed in less; a git that waits for ever is ended.
LIMIT = 120.0

# Bytes of output kept from a listing: more than the paths of any tree that git can manage.
LISTING = 1 << 30

EMPTY_TREE = {
    "sha1": "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "sha256": "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
NO_OBJECT = {"sha1": "0" * 40, "sha256": "0" * 64}

_SETTINGS = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "diff.external=",
    "core.quotePath=false",
)
_ESCAPES = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """`env` as git may see it: no GIT_* of the caller's, plain messages, no questions."""
    kept = {name: value for name, value in env.items() if not name.startswith("GIT_")}
    return kept | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}


def run(
    arguments: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    own: Mapping[str, str] | None = None,
    settings: Sequence[str] = (),
    stdin: bytes | None = None,
    stdout_to: int | None = None,
    limit: float = LIMIT,
) -> process.Finished:
    """Run git once; the exit status is the caller's to judge.

    `own` holds the GIT_* variables that we set ourselves, `settings` more `name=value` for
    `-c`, `limit` is in seconds. Fault TIMEOUT when the limit passed, UNAVAILABLE when git
    cannot be run.
    """
    argv = ["git"]
    for setting in (*_SETTINGS, *settings):
        argv += ["-c", setting]
    try:
        done = process.run(
            [*argv, *arguments],
            cwd=cwd,
            env=environment(env) | dict(own or {}),
            stdin=stdin,
            limit=limit,
            keep=LISTING,
            stdout_to=stdout_to,
        )
    except OSError as error:
        message = f"cannot be run in {cwd}: {error.filename}: {error.strerror}"
        raise Fault(exits.UNAVAILABLE, "git", message) from None
    if done.timed_out:
        raise Fault(exits.TIMEOUT, f"git {arguments[0]}", f"did not end within {limit:g} s")
    if done.cut:
        raise Fault(exits.SOFTWARE, f"git {arguments[0]}", f"gave more than {LISTING} bytes")
    return done


def sentence(done: process.Finished) -> str:
    """What git itself said about its failure: the fatal line, else the first error line."""
    lines = done.stderr.decode(errors="backslashreplace").splitlines()
    for opening in ("fatal: ", "error: ", ""):
        for line in lines:
            if line.startswith(opening) and line.strip():
                return line.removeprefix(opening).strip()
    if done.signal is not None:
        return f"git was ended by signal {done.signal}"
    return f"git ended with status {done.exit_code} and said nothing"


def name(raw: bytes) -> str:
    """A path as text. One that is not UTF-8, or begins with a double quote, is given in git's
    C-quoted form, so that no two paths have the same text."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return quoted(raw)
    return quoted(raw) if text.startswith('"') else text


def quoted(raw: bytes) -> str:
    """A path in double quotes, with git's C escapes for all but printable ASCII."""

    def one(byte: int) -> str:
        if byte in _ESCAPES:
            return "\\" + _ESCAPES[byte]
        return chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}"

    return '"' + "".join(map(one, raw)) + '"'


def is_id(text: str) -> bool:
    """Whether this is a full object id, and so can be no option, range or path."""
    return re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", text) is not None
