"""What differs between two trees, and the one line of a patch that git itself cannot read."""

from __future__ import annotations

from dataclasses import dataclass

from waybill.base import git


@dataclass(frozen=True)
class Change:
    """One path that differs between two trees.

    `path` is relative to the top (see `git.name` for paths that are not UTF-8), `status` is
    A, D, M or T (another kind of file). Modes are six octal digits, ids full object ids; both
    are all zeros on the side where the path is absent.
    """

    path: str
    status: str
    old_mode: str
    new_mode: str
    old_id: str
    new_id: str


def read_changes(raw: bytes) -> list[Change]:
    """Read the output of `git diff-tree -r --raw -z`."""
    fields = raw.split(b"\0")
    changes = []
    for head, path in zip(fields[:-1:2], fields[1::2], strict=True):
        old_mode, new_mode, old_id, new_id, status = head.decode().removeprefix(":").split()
        changes.append(Change(git.name(path), status, old_mode, new_mode, old_id, new_id))
    return changes


def unambiguous(line: bytes) -> bytes:
    """A line of a patch, where git can read it again. It cannot find out the name from a header
    like `diff --git a/x /y b/x /y`, with a folder that ends in a space, unless it is quoted."""
    if not line.startswith(b"diff --git a/") or b" /" not in line:
        return line
    names = line.removeprefix(b"diff --git ").removesuffix(b"\n")
    old, new = names[: len(names) // 2], names[len(names) // 2 + 1 :]
    return f"diff --git {git.quoted(old)} {git.quoted(new)}\n".encode()
