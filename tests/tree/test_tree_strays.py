"""What is left out of a tree, and what git alone would have left out or taken for another thing."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from waybill.base.exits import Fault
from waybill.tree.rebuild import Workshop, find
from workplace import Place, listing


def test_the_run_folder_is_in_no_tree(place: Place) -> None:
    run = place.top / ".codex/runs/p-1"
    place.write(".codex/runs/p-1/.gitignore", "*\n")

    def change() -> None:
        place.write(".codex/runs/p-1/run.json", "{}")
        place.write(".codex/runs/p-1/deep/file", "{}")
        place.write(".codex/runs/p-10/other", "o\n")
        place.write(".codex/config.toml", "c\n")

    trip = place.trip(change, exclude=[run])
    assert trip.paths == ["A .codex/config.toml", "A .codex/runs/p-10/other"]
    assert trip.ignored == []
    assert trip.warnings == []


def test_the_run_folder_is_in_no_tree_when_nothing_hides_it(place: Place) -> None:
    def change() -> None:
        place.write("odd [*] \n:(top)name/run.json", "{}")
        place.write("receipt.json", "{}")

    exclude = [place.top / "odd [*] \n:(top)name", place.top / "receipt.json"]
    assert place.trip(change, exclude=exclude).paths == []


@pytest.mark.parametrize("staged", [False, True])
def test_a_tracked_run_folder_stays_as_the_commit_has_it(place: Place, staged: bool) -> None:
    place.write("run/receipt.json", "old\n")
    place.write("run/gone", "g\n")
    place.commit()
    committed = listing(place.top)
    place.write("run/receipt.json", "before\n")
    place.write("run/staged", "s\n")
    if staged:
        place.git("add", "-A")

    def change() -> None:
        place.write("run/receipt.json", "new\n")
        (place.top / "run/gone").unlink()
        place.write("run/more", "m\n")

    trip = place.trip(change, exclude=[place.top / "run"])
    assert (trip.base_patch, trip.work_patch) == (b"", b"")
    assert trip.files == committed


def test_a_run_folder_whose_parent_becomes_a_link_is_not_followed(place: Place) -> None:
    place.write(".codex/runs/p/run.json", "{}")

    def change() -> None:
        (place.top / ".codex").rename(place.root / "aside")
        (place.top / ".codex").symlink_to(place.root / "aside")

    trip = place.trip(change, exclude=[place.top / ".codex/runs/p"])
    assert trip.paths == ["A .codex"]
    assert trip.files[".codex"][0] == "link"


def test_a_run_folder_outside_is_no_matter(place: Place) -> None:
    exclude = [place.root / "elsewhere", place.root / "repo-like"]
    assert place.trip(lambda: place.write("n", ""), exclude=exclude).paths == ["A n"]


def test_a_run_folder_that_holds_the_working_tree_is_a_fault(place: Place) -> None:
    for folder in (place.top, place.root, Path("/")):
        with pytest.raises(Fault) as caught:
            Workshop(find(place.top, place.env), place.root / "s", [folder], env=place.env)
        assert caught.value.outcome == "config_error"


def test_a_scratch_folder_inside_the_tree_is_not_in_it(place: Place) -> None:
    with Workshop(find(place.top, place.env), place.top / "tmp/scratch", env=place.env) as shop:
        assert shop.snapshot() == place.git("rev-parse", "HEAD^{tree}").strip()
        assert shop.ignored() == []
    assert not (place.top / "tmp/scratch").exists()


def test_codex_own_stray_is_left_out_and_named(place: Place) -> None:
    trip = place.trip(lambda: place.write(".codex", ""))
    assert trip.paths == []
    assert trip.warnings == [".codex: an empty file that Codex leaves behind; not in the tree"]
    place.git("add", "-f", ".codex")
    trip = place.trip(lambda: None)
    assert trip.base_patch == b""


def test_a_file_of_that_name_with_content_or_in_the_commit_is_kept(place: Place) -> None:
    assert place.trip(lambda: place.write(".codex", "c\n")).paths == ["A .codex"]
    place.commit()
    trip = place.trip(lambda: place.write(".codex", ""))
    assert (trip.paths, trip.warnings) == (["M .codex"], [])

    def to_link() -> None:
        (place.top / ".codex").unlink()
        (place.top / ".codex").symlink_to("d")

    assert place.trip(to_link).paths == ["T .codex"]
    assert place.trip(lambda: place.write("e/.codex", "")).paths == ["A e/.codex"]


def test_an_odd_kind_of_file_is_named_and_breaks_nothing(place: Place) -> None:
    place.write(".gitignore", "*.ignored\n")
    listener = socket.socket(socket.AF_UNIX)

    def change() -> None:
        os.mkfifo(place.top / "pipe")
        os.mkfifo(place.top / "d/pipe.ignored")
        (place.top / "a.txt").unlink()
        os.mkfifo(place.top / "a.txt")
        (place.top / "n").mkdir()
        here = os.open(place.top / "n", os.O_RDONLY)
        listener.bind(f"/proc/self/fd/{here}/sock\n")
        os.close(here)
        place.write("new", "n\n")

    with listener:
        trip = place.trip(change)
    assert trip.paths == ["D a.txt", "A new"]
    assert trip.warnings == [
        "a.txt: a fifo; not in the tree",
        "n/sock\n: a socket; not in the tree",
        "pipe: a fifo; not in the tree",
    ]


UNREADABLE = """
import ctypes, os, sys
from pathlib import Path
from waybill.tree.rebuild import Workshop, find

# Else root, as which these tests may run, could read everything.
for capability in (1, 2):
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
top, scratch = Path(sys.argv[1]), Path(sys.argv[2])
env = dict(os.environ)
with Workshop(find(top, env), scratch, env=env) as shop:
    base = shop.snapshot()
    (top / "a.txt").chmod(0)
    (top / "secret").write_text("s")
    (top / "secret").chmod(0)
    (top / "new").write_text("n")
    (top / "d").chmod(0)
    result = shop.snapshot()
    print([f"{c.status} {c.path}" for c in shop.changed(base, result)])
    print(*shop.warnings, sep="\\n")
(top / "d").chmod(0o755)
"""


def test_what_cannot_be_read_is_named_and_breaks_nothing(place: Place) -> None:
    done = subprocess.run(
        [sys.executable, "-c", UNREADABLE, place.top, place.root / "s"],
        env=place.env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    changes, *warnings = done.stdout.splitlines()
    assert changes == "['A new']"
    assert "git: unable to index file 'secret'" in warnings
    assert any(line.startswith("git: unable to index file 'a.txt'") for line in warnings)


def test_a_folder_too_deep_to_name_breaks_nothing(place: Place) -> None:
    def change() -> None:
        here = os.open(place.top, os.O_RDONLY)
        for _ in range(20):
            os.mkdir("n" * 250, dir_fd=here)
            deeper = os.open("n" * 250, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = deeper
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        os.close(here)
        place.write("new", "n\n")

    trip = place.trip(change)
    assert trip.paths == ["A new"]
    assert len(trip.warnings) == 1
    assert trip.warnings[0].endswith("a folder that cannot be read; its files are as before")


def test_a_file_that_goes_while_git_reads_it_is_tried_again(place: Place) -> None:
    marker = place.root / "failed-once"
    real = shutil.which("git", path=place.env["PATH"])
    script = f"""#!/bin/sh
case "$*" in *--ignore-errors*)
    test -e '{marker}' || {{ : > '{marker}'; echo "fatal: unable to stat 'x'" >&2; exit 128; }};;
esac
exec {real} "$@"
"""
    (place.root / "bin").mkdir()
    (place.root / "bin/git").write_text(script)
    (place.root / "bin/git").chmod(0o755)
    env = place.env | {"PATH": f"{place.root / 'bin'}:{place.env['PATH']}"}
    assert place.trip(lambda: place.write("new", "n\n"), env=env).paths == ["A new"]
    assert marker.exists()


def test_a_path_that_git_never_takes_is_named(place: Place) -> None:
    def change() -> None:
        place.write("x/.GIT/config", "c\n")
        place.write("new", "n\n")

    trip = place.trip(change)
    assert trip.paths == ["A new"]
    assert any("x/.GIT/config" in line for line in trip.warnings)
