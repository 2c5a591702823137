"""What of a user's index must be corrected before a tree is made with it.

An edit is a record for `git update-index -z --index-info`. An entry that is put in again loses
its flags and its file times, so that git looks at the file itself.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

_GITLINK = b"160000"


@dataclass
class Entries:
    """`gitlinks` are the submodules. `sparse` maps entries that need no file to the edit for
    the case that there is one. `excluded` are the entries that stand under an excluded path.
    `edits` drop "assume unchanged" and settle conflicts about submodules, for ours."""

    gitlinks: set[bytes] = field(default_factory=set)
    sparse: dict[bytes, bytes] = field(default_factory=dict)
    excluded: set[bytes] = field(default_factory=set)
    edits: list[bytes] = field(default_factory=list)


def examine(listing: bytes, excluded: Collection[bytes]) -> Entries:
    """Read the output of `git ls-files -v --stage -z`."""
    found = Entries()
    conflicts: dict[bytes, bytes] = {}
    for line in listing.split(b"\0")[:-1]:
        head, path = line.split(b"\t", 1)
        tag, mode, object_id, stage = head.split(b" ")
        if any(path == one or path.startswith(one + b"/") for one in excluded):
            found.excluded.add(path)
            continue
        edit = put(mode, object_id, path)
        if mode == _GITLINK:
            found.gitlinks.add(path)
            if stage == b"2" or (stage != b"0" and path not in conflicts):
                conflicts[path] = edit
        if tag in b"Ss":  # "skip worktree"
            found.sparse[path] = edit
        elif tag.islower():  # "assume unchanged"
            found.edits.append(edit)
    found.edits += conflicts.values()
    return found


def put(mode: bytes, object_id: bytes, path: bytes) -> bytes:
    """The edit that makes `path` an entry."""
    return b"%s %s 0\t%s\0" % (mode, object_id, path)


def drop(path: bytes, no_object: str) -> bytes:
    """The edit that takes `path` out; one that is not there is no error."""
    return b"0 %s 0\t%s\0" % (no_object.encode(), path)
