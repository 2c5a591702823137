"""Every example of every page is run, and shows what the page says that it shows.

A `console` block is one session in a fresh repository: a line that begins with `$ ` is a
command, `> ` goes on with it, and what follows is what a terminal shows. `...` stands for
anything within a line, and alone on a line for any lines.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from codex_cli_bin import bundled_codex_path

TOP = Path(__file__).resolve().parents[2]
DOCS = TOP / "docs"
LIMIT = 60  # seconds for one session
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(
    r"^`(\S+)`.*?:\n\n(?:<!--[^\n]*-->\n)?```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
_MARK = "\x1e"


@dataclass
class Step:
    """One command, and what it shows."""

    command: str
    shown: list[str] = field(default_factory=list)


@dataclass
class Session:
    """One block of a page."""

    place: str
    steps: list[Step]


def sessions() -> Iterator[Session]:
    """Every console block of every page."""
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        for match in _BLOCK.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield Session(f"{page.relative_to(DOCS)}:{line}", list(_steps(match[1])))


def _steps(block: str) -> Iterator[Step]:
    step = None
    for line in block.splitlines():
        if line.startswith("$ "):
            if step:
                yield step
            step = Step(line[2:])
        elif line.startswith("> ") and step and not step.shown:
            step.command += "\n" + line[2:]
        else:
            assert step, f"output before the first command: {line}"
            step.shown.append(line)
    assert step, "a block without a command"
    yield step


def place_files(repo: Path) -> None:
    """The files that the conventions page says every session begins with."""
    text = (DOCS / "conventions.md").read_text(encoding="utf-8")
    section = text.split("## How examples are run", 1)[1].split("\n## ", 1)[0]
    files = _FILE.findall(section)
    assert {name for name, _ in files} == {"check", "rehearsal.yaml"}
    for name, content in files:
        (repo / name).write_text(content, encoding="utf-8")
    (repo / "check").chmod(0o755)


def environment(root: Path) -> dict[str, str]:
    """What a session is run with; nothing of the caller's but the path to programs."""
    own = [str(TOP / "bin"), str(Path(sys.executable).parent)]
    return {
        "PATH": os.pathsep.join([*own, os.environ["PATH"]]),
        "HOME": str(root / "home"),
        "XDG_STATE_HOME": str(root / "state"),
        "WAYBILL_CODEX": str(bundled_codex_path()),
        "LANG": "C.UTF-8",
    }


def repository(root: Path, env: dict[str, str]) -> Path:
    """A fresh repository with the files committed."""
    repo = root / "project"
    repo.mkdir()
    (root / "home").mkdir()
    place_files(repo)
    settings = ["-c", "user.name=Example", "-c", "user.email=example@example.org"]
    for words in (["init", "-q"], ["add", "-A"], [*settings, "commit", "-q", "-m", "start"]):
        subprocess.run(["git", *words], cwd=repo, env=env, check=True)
    return repo


def play(session: Session, root: Path) -> list[str]:
    """What each command showed, stdout and stderr as they came."""
    env = environment(root)
    repo = repository(root, env)
    script = root / "session.sh"
    script.write_text(
        "".join(
            f"{{\n{step.command}\n}} 2>&1\nstatus=$?; printf '{_MARK}'; (exit $status)\n"
            for step in session.steps
        )
    )
    done = subprocess.run(
        ["bash", str(script)],
        cwd=repo,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=LIMIT,
        check=False,
    )
    shown = done.stdout.decode("utf-8").split(_MARK)
    assert len(shown) == len(session.steps) + 1, done.stdout.decode()
    return shown[:-1]


def pattern(lines: list[str]) -> str:
    """The regular expression of what a page shows."""
    parts = []
    for line in lines:
        if line.strip() == "...":
            parts.append(r"(?:[^\n]*\n)*?")
        else:
            parts.append(".*".join(re.escape(part) for part in line.split("...")) + r"\n")
    return "".join(parts)


@pytest.mark.parametrize("session", list(sessions()), ids=lambda session: session.place)
def test_an_example_shows_what_the_page_says(session: Session, tmp_path: Path) -> None:
    for step, text in zip(session.steps, play(session, tmp_path), strict=True):
        whole = text if text.endswith("\n") or not text else text + "\n"
        assert re.fullmatch(pattern(step.shown), whole), (
            f"{session.place}: $ {step.command}\n--- page\n"
            + "\n".join(step.shown)
            + f"\n--- real\n{whole}"
        )
