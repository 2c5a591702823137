"""Paths from outside: inside a permitted root, compared after links are resolved.

The boundary of a packet: a path counts as inside when, with every link on the way resolved,
it lies in the working directory or in a permitted root. What does not exist yet is judged by
its nearest existing ancestor. Sibling prefixes do not count.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

MOST_LINKS = 40  # as the kernel
NAME_MAX = 200  # characters of an identifier that becomes a folder's name

_SAFE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*\Z")
# Names that some file systems give another meaning to; a run may be judged elsewhere.
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?\Z", re.IGNORECASE)


def unsafe_name(name: str) -> str | None:
    """Why an identifier cannot be one folder's name; None when it can."""
    if len(name) > NAME_MAX:
        return f"longer than {NAME_MAX} characters"
    if not _SAFE_NAME.match(name):
        return "only letters, digits, '.', '_' and '-', and no '.' or '-' first"
    if name.endswith("."):
        return "ends with a dot"
    if _RESERVED.match(name):
        return "a reserved device name"
    return None


class Escape(Exception):
    """A path that leads outside; the text says how."""


def resolve(path: Path) -> Path:
    """The real path of an absolute one, its missing tail kept.

    Raises Escape for a link that leads nowhere, for links without end, for what the system
    cannot look at, and for a name that is not UTF-8, which no record could hold.
    """
    current = Path("/")
    left = list(reversed(path.parts[1:]))
    links = 0
    while left:
        name = left.pop()
        if name == "..":
            current = current.parent
            continue
        step = current / name
        try:
            mode = step.lstat().st_mode
        except FileNotFoundError:
            mode = 0
        except (OSError, ValueError) as error:
            raise Escape(f"{step}: cannot be resolved: {error}") from None
        if not stat.S_ISLNK(mode):
            current = step
            continue
        links += 1
        try:
            if links > MOST_LINKS or not os.path.exists(step):
                raise Escape(f"{step}: a link that leads nowhere")
            target = Path(os.readlink(step))
        except OSError as error:
            raise Escape(f"{step}: cannot be resolved: {error}") from None
        if target.is_absolute():
            current = Path("/")
        left.extend(reversed(target.parts[1:] if target.is_absolute() else target.parts))
    try:
        str(current).encode()
    except UnicodeEncodeError:
        raise Escape(f"{os.fsencode(current)!r}: not UTF-8, so no record could name it") from None
    return current


def is_inside(path: Path, root: Path) -> bool:
    """Component-wise containment of two resolved paths; a root contains itself."""
    return path == root or root in path.parents


def roots(cwd: Path, allowed: list[str]) -> list[Path]:
    """The permitted roots, resolved: the folder itself, and the allowed paths.

    A relative entry that leads out of the folder permits nothing: only an absolute one, which
    says what it means, can permit a place elsewhere.
    """
    found = [cwd]
    for entry in allowed:
        if not entry.strip():
            continue
        try:
            root = resolve(cwd / entry)
        except Escape:
            continue
        if Path(entry).is_absolute() or is_inside(root, cwd):
            found.append(root)
    return found


def inside(cwd: Path, permitted: list[Path], text: str) -> Path:
    """The resolved path of a text relative to the folder. Raises Escape when outside."""
    if "\0" in text:
        raise Escape("holds a NUL character")
    real = resolve(cwd / text)
    if not any(is_inside(real, root) for root in permitted):
        raise Escape(f"escapes cwd and the allowed paths: {real}")
    return real


def is_regular(path: Path) -> bool:
    """A regular file, not a link to one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False
