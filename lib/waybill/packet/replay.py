"""Replay: a run's result made again from its commit and patches, and its checks run on it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from waybill.base.exits import Fault
from waybill.packet import environment, evidence
from waybill.packet.boundary import BASE_PATCH, WORK_PATCH
from waybill.packet.judgement import Bundle, Reason
from waybill.tree import repository
from waybill.tree.rebuild import rebuild

GRACE = 5.0  # seconds


def reasons(folder: Path, found: Bundle, repo: str | None) -> list[Reason]:
    """What a replay shows to be otherwise than the records say; any clone with the base will do."""
    row = found.record
    where = row["tree"]
    if where is None or where["result_tree"] is None:
        return [Reason("replay", "run.json", "the run left no tree to replay")]
    try:
        common = _objects(Path(repo) if repo else Path(where["top"]))
        with tempfile.TemporaryDirectory(prefix="waybill-replay-") as scratch:
            root = Path(scratch)
            patches = [folder / BASE_PATCH, folder / WORK_PATCH]
            made = [
                rebuild(
                    common,
                    where["base_commit"],
                    patches[:count],
                    root / f"git-{count}",
                    object_format=where["object_format"],
                    checkout=checkout,
                    env=os.environ,
                )
                for count, checkout in ((1, None), (2, root / "tree"))
            ]
            wrong = [
                Reason("replay", name, f"makes the tree {have[:12]}, not {want[:12]}")
                for name, have, want in zip(
                    (BASE_PATCH, WORK_PATCH), made, (where["base_tree"], where["result_tree"]),
                    strict=True,
                )
                if have != want
            ]  # fmt: skip
            return wrong or _evidence(found, root / "tree")
    except Fault as fault:
        return [Reason("replay", fault.subject, fault.message)]


def _objects(repo: Path) -> Path | None:
    common = repository.find(repo, os.environ).common_dir
    return Path(common) if common else None


def _evidence(found: Bundle, checkout: Path) -> list[Reason]:
    """Every check that passed then passes now, in the same folder of the checkout."""
    row = found.record
    cwd = checkout / os.path.relpath(row["cwd"], row["tree"]["top"])
    given = environment.evidence(environment.worker(os.environ, found.packet.environment))
    wrong = []
    for entry in row["evidence"]:
        with tempfile.TemporaryFile() as log:
            try:
                digest = evidence.digest(Path(os.path.realpath(cwd)), entry["command"])
            except evidence.Unpinned as unpinned:
                wrong.append(Reason("replay", entry["command"], str(unpinned)))
                continue
            if entry["pinned"] and digest != entry["pinned"]:
                wrong.append(Reason("replay", entry["command"], "is not the program pinned"))
                continue
            check = evidence.run(
                entry["command"].split(),
                cwd=cwd,
                environment=given,
                stdout=log.fileno(),
                stderr=log.fileno(),
                limit=found.packet.wall_seconds,
                grace=GRACE,
            )
        if check.exit_code != entry["exit_code"]:
            said = f"exited {entry['exit_code']} then, {check.exit_code} now"
            wrong.append(Reason("replay", entry["command"], said))
    return wrong
