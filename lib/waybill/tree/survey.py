"""What stands in a working tree that git would pass over or take for something else."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from dataclasses import dataclass, field

STRAY = b".codex"  # Codex leaves an empty file of this name at the top of a working tree

_KINDS = {
    stat.S_IFIFO: "a fifo",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a block device",
    stat.S_IFCHR: "a character device",
}


@dataclass
class Survey:
    """Paths relative to the top, ignored ones among them.

    `odd` maps what is neither file, folder nor link to what it is; `embedded` are folders with
    a repository of their own; `closed` are folders that cannot be read. Of the given
    submodules, `submodules` have a repository and `hollow` have files but none. `empty_stray`:
    an empty file STRAY stands at the top.
    """

    odd: dict[bytes, str] = field(default_factory=dict)
    embedded: list[bytes] = field(default_factory=list)
    closed: list[bytes] = field(default_factory=list)
    submodules: list[bytes] = field(default_factory=list)
    hollow: list[bytes] = field(default_factory=list)
    empty_stray: bool = False


def survey(top: bytes, excluded: Collection[bytes], gitlinks: Collection[bytes]) -> Survey:
    """Walk the tree once. Links are not followed; excluded paths and submodules not entered."""
    seen = Survey()
    folders = [b""]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(os.path.join(top, folder)) as listing:
                entries = list(listing)
        except (FileNotFoundError, NotADirectoryError):
            continue  # gone since its parent was read
        except OSError:
            seen.closed.append(folder)
            continue
        if folder in gitlinks:
            if any(entry.name == b".git" for entry in entries):
                seen.submodules.append(folder)
            elif entries:
                seen.hollow.append(folder)
            continue
        prefix = folder + b"/" if folder else b""
        for entry in entries:
            path = prefix + entry.name
            if entry.name == b".git":
                if folder:
                    seen.embedded.append(folder)
            elif path in excluded:
                continue
            elif entry.is_dir(follow_symlinks=False):
                folders.append(path)
            elif not entry.is_symlink() and not entry.is_file(follow_symlinks=False):
                _note_odd(seen, path, entry)
            elif path == STRAY and _is_empty_file(entry):
                seen.empty_stray = True
    seen.odd = dict(sorted(seen.odd.items()))
    for found in (seen.embedded, seen.closed, seen.submodules, seen.hollow):
        found.sort()
    return seen


def parents(path: bytes) -> list[bytes]:
    """The folders on the way to a relative path, the outermost first."""
    parts = path.split(b"/")
    return [b"/".join(parts[:count]) for count in range(1, len(parts))]


def beyond_link(top: bytes, path: bytes) -> bool:
    """Whether a folder on the way from `top` to `path` is a link."""
    return any(os.path.islink(os.path.join(top, folder)) for folder in parents(path))


def _note_odd(seen: Survey, path: bytes, entry: os.DirEntry[bytes]) -> None:
    try:
        kind = stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode)
    except OSError:
        return
    if kind in _KINDS:
        seen.odd[path] = _KINDS[kind]


def _is_empty_file(entry: os.DirEntry[bytes]) -> bool:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size == 0
