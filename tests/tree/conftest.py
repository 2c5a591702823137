"""A repository with a home and git settings of its own, whatever the machine has."""

from __future__ import annotations

from pathlib import Path

import pytest
from workplace import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A repository with one commit: files, a program, a link, a binary and a folder."""
    made = Place(tmp_path)
    made.init()
    made.write("a.txt", "one\ntwo\n")
    made.write("b.bin", bytes(range(256)))
    made.write("run.sh", "#!/bin/sh\n", 0o755)
    made.write("d/x", "x\n")
    made.write("d/y", "y\n")
    (made.top / "link").symlink_to("a.txt")
    made.commit()
    return made
