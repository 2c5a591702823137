"""Base and result trees of a run, the patches between them, and the proof that they are whole.

    with Workshop(find(cwd, env), scratch, exclude=[run_folder]) as workshop:
        base = workshop.snapshot()
        ...
        result = workshop.snapshot()
        workshop.patch(base, result, descriptor)

`rebuild` makes the result tree again from the base commit and the stored patches.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from waybill.tree.annex import Annex
from waybill.tree.change import Change
from waybill.tree.repository import Repository, find
from waybill.tree.workshop import Workshop

__all__ = ["Change", "Repository", "Workshop", "find", "rebuild"]


def rebuild(
    objects: Path | None,
    base_commit: str | None,
    patches: Sequence[Path],
    scratch: Path,
    *,
    object_format: str = "sha1",
    checkout: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> str:
    """The id of the tree that `patches`, applied in order, make of the base commit.

    `objects` is a repository's common dir or object folder, None where there is none;
    `base_commit` None means the empty tree. `scratch` is a folder for a private git dir,
    removed at the end. With `checkout`, a folder that is absent or empty, the tree is written
    there byte for byte. Faults: PROTOCOL for a missing base commit or a patch that does not
    apply, NOINPUT for a patch that cannot be read, STORE for a checkout that cannot be written.
    """
    if objects is not None and (objects / "objects").is_dir():
        objects = objects / "objects"
    annex = Annex(
        scratch,
        str(scratch),
        objects=objects,
        object_format=object_format,
        env=os.environ if env is None else env,
    )
    try:
        tree = annex.build(base_commit, patches)
        if checkout is not None:
            annex.check_out(checkout)
        return tree
    finally:
        annex.close()
