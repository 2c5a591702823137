"""The declared artifacts: which are there, and which the run made."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from good import make
from waybill.packet import artifacts, boundary

Change = Callable[[Path], object]


@pytest.mark.parametrize(
    ("before", "after", "there", "made"),
    [
        pytest.param(None, lambda path: path.write_text("x"), True, 1, id="a new file"),
        pytest.param("old", lambda path: path.write_text("x"), True, 1, id="a changed file"),
        pytest.param("x", lambda path: path.write_text("x"), True, 1, id="one written again"),
        pytest.param("x", lambda path: None, True, 0, id="one that was there"),
        pytest.param(None, lambda path: None, False, 0, id="nothing"),
        pytest.param("x", lambda path: path.unlink(), False, 0, id="one that was removed"),
        pytest.param(None, lambda path: path.mkdir(), False, 0, id="a folder"),
        pytest.param(None, lambda path: os.mkfifo(path), False, 0, id="a FIFO"),
        pytest.param(
            None, lambda path: path.symlink_to("/etc/passwd"), False, 0, id="a link elsewhere"
        ),
    ],
)
def test_an_artifact_is_a_regular_file_made_by_the_run(
    tmp_path: Path, before: str | None, after: Change, there: bool, made: int
) -> None:
    path = tmp_path / "out" / "a.txt"
    path.parent.mkdir()
    if before is not None:
        path.write_text(before)
        os.utime(path, ns=(0, 0))
    drawn = boundary.draw(make({"evidence.artifacts": ["out/a.txt"]}, tmp_path), tmp_path)
    identities = artifacts.identities(drawn)
    after(path)
    ((row,), count) = artifacts.rows(drawn, identities)
    digest = hashlib.sha256(b"x").hexdigest()
    expected = {"sha256": digest, "bytes": 1} if there else {"sha256": None, "bytes": None}
    assert row == {"path": "out/a.txt", **expected}
    assert count == made


def test_an_artifact_is_not_read_through_a_link_put_in_its_way(tmp_path: Path) -> None:
    (tmp_path / "work" / "out").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.txt").write_text("x")
    work = tmp_path / "work"
    drawn = boundary.draw(make({"evidence.artifacts": ["out/a.txt"]}, work), work)
    identities = artifacts.identities(drawn)
    (work / "out").rmdir()
    (work / "out").symlink_to(tmp_path / "other")
    assert artifacts.rows(drawn, identities) == (
        [{"path": "out/a.txt", "sha256": None, "bytes": None}],
        0,
    )
