"""The command line of `codex exec`: what a packet may say in it.

Only listed flags, each at most once, so that what a packet declares is what runs: a flag
such as --dangerously-bypass-approvals-and-sandbox beside `--sandbox read-only` would write.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

# The published list: name -> whether it takes a value. docs/dispatch.md shows it.
LISTED: dict[str, bool] = {
    "--json": False,
    "--sandbox": True,
    "--cd": True,
    "--output-last-message": True,
    "--output-schema": True,
    "--model": True,
    "--skip-git-repo-check": False,
    "--ephemeral": False,
    "-c": True,
}
LISTED_CONFIG = ("model_reasoning_effort", "project_doc_max_bytes", "projects")

# Known to Codex and not listed: what follows is theirs when --allow-flag names them.
_TAKES_VALUE = frozenset(
    "--config --enable --disable --image -i -m --local-provider --profile -p -s -C --add-dir"
    " --color -o".split()
)
_SUBCOMMANDS = frozenset(("resume", "fork", "review", "help"))


class Unfit(Exception):
    """An argv that is not of the permitted form: the index of the word, a rule, a sentence."""

    def __init__(self, index: int, rule: str, message: str) -> None:
        super().__init__(message)
        self.index = index
        self.rule = rule
        self.message = message


@dataclass
class Invocation:
    """What a permitted argv says."""

    flags: dict[str, str | None] = field(default_factory=dict)
    config: dict[str, str] = field(default_factory=dict)
    allowed: list[str] = field(default_factory=list)  # unlisted flags, let through by name
    resume: str | None = None
    prompt: str | None = None
    reads_stdin: bool = False
    resume_index: int | None = None

    @property
    def json(self) -> bool:
        """Whether an event stream is asked for."""
        return "--json" in self.flags

    def spellings(self) -> list[str]:
        """The flags used, for comparison with what a version of Codex knows."""
        used = [*self.flags, *(name.split("=")[0] for name in self.allowed)]
        return [*used, *(["-c"] if self.config else [])]


def parse(argv: list[str], allowed: Collection[str] = ()) -> Invocation:
    """Read an argv. Raises Unfit at the first word that is not permitted."""
    if argv[:2] != ["codex", "exec"]:
        raise Unfit(0, "argv-shape", "must begin with: codex exec")
    said = Invocation()
    index = 2
    while index < len(argv):
        word = argv[index]
        if word == "-":
            if index != len(argv) - 1:
                raise Unfit(index, "argv-shape", "'-' must be last")
            said.reads_stdin = True
        elif word.startswith("-"):
            if said.resume is not None:
                raise Unfit(index, "argv-shape", f"{word} must stand before the word resume")
            index += _flag(argv, index, said, allowed)
        elif word == "resume" and said.resume is None:
            if index + 1 >= len(argv) or argv[index + 1].startswith("-"):
                raise Unfit(index, "argv-shape", "resume needs the id of a session")
            said.resume, said.resume_index = argv[index + 1], index
            index += 1
        elif word in _SUBCOMMANDS or said.prompt is not None or not word.strip():
            raise Unfit(index, "argv-shape", f"{word!r} is not permitted here")
        else:
            said.prompt = word
        index += 1
    return said


def _flag(argv: list[str], index: int, said: Invocation, allowed: Collection[str]) -> int:
    """Read one flag; how many further words it took."""
    name, equals, value = argv[index].partition("=")
    listed = name in LISTED
    if not listed and name not in allowed:
        raise Unfit(
            index,
            "argv-flag",
            f"{name} is not a listed flag; --allow-flag {name} lets it through, and is recorded",
        )
    takes = LISTED[name] if listed else name in _TAKES_VALUE
    taken = 0
    given: str | None = value if equals else None
    if equals and not takes and listed:
        raise Unfit(index, "argv-flag", f"{name} takes no value")
    if takes and not equals:
        # Codex would not take a word that begins with a dash for a value.
        if index + 1 >= len(argv) or argv[index + 1].startswith("-"):
            raise Unfit(index, "argv-flag", f"{name} lacks its value")
        given, taken = argv[index + 1], 1
    if not listed:
        said.allowed.append(argv[index])
    elif name == "-c":
        _config(given or "", index, said, allowed)
    elif name in said.flags:
        raise Unfit(index, "argv-duplicate", f"{name} stands twice")
    else:
        said.flags[name] = given
    return taken


def _config(text: str, index: int, said: Invocation, allowed: Collection[str]) -> None:
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals:
        raise Unfit(index, "argv-flag", "-c needs key=value")
    if key not in LISTED_CONFIG and f"-c:{key}" not in allowed:
        raise Unfit(
            index,
            "argv-config",
            f"-c {key} is not a listed key; --allow-flag=-c:{key} lets it through, and is recorded",
        )
    if key in said.config:
        raise Unfit(index, "argv-duplicate", f"-c {key} stands twice")
    if key not in LISTED_CONFIG:
        said.allowed.append(f"-c:{key}")
    said.config[key] = value


def distrust(folders: Iterable[str]) -> str:
    """The value of -c that keeps Codex from trusting projects, and so from their servers.

    The inline table is the only form that works: the dotted one has no effect.
    """
    rows = ",".join(f'{_toml(folder)}={{trust_level="untrusted"}}' for folder in folders)
    return f"projects={{{rows}}}"


def distrusted(value: str) -> set[str] | None:
    """The folders that a `projects` value names, when it trusts none of them; else None."""
    try:
        found: Any = tomllib.loads(f"projects={value}")["projects"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return None
    if not isinstance(found, dict) or not found:
        return None
    if any(row != {"trust_level": "untrusted"} for row in found.values()):
        return None
    return set(found)


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
