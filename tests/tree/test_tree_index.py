"""The user's index saves work, and neither its bits nor its state hide anything."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from waybill.tree.rebuild import Workshop, find
from workplace import Place, listing


@pytest.mark.parametrize("bit", ["--assume-unchanged", "--skip-worktree", "--fsmonitor-valid"])
def test_no_bit_of_the_index_hides_a_change(place: Place, bit: str) -> None:
    place.git("update-index", bit, "a.txt")
    place.write("a.txt", "before\n")
    trip = place.trip(lambda: place.write("a.txt", "during\n"))
    assert trip.paths == ["M a.txt"]
    assert b"+before" in trip.base_patch
    assert b"+during" in trip.work_patch


def test_an_assumed_unchanged_file_that_is_deleted_is_seen(place: Place) -> None:
    place.git("update-index", "--assume-unchanged", "a.txt")
    assert place.trip(lambda: (place.top / "a.txt").unlink()).paths == ["D a.txt"]


def test_a_file_system_monitor_that_saw_nothing_hides_nothing(place: Place) -> None:
    monitor = place.root / "monitor"
    monitor.write_text("#!/bin/sh\nprintf 'token\\0'\n")
    monitor.chmod(0o755)
    place.git("config", "core.fsmonitor", str(monitor))
    place.git("config", "core.fsmonitorHookVersion", "2")
    place.git("update-index", "--fsmonitor")
    place.git("status")
    assert b"FSMN" in (place.top / ".git/index").read_bytes()
    assert place.trip(lambda: place.write("a.txt", "seen\n")).paths == ["M a.txt"]


def test_sparse_entries_are_no_deletions_and_what_stands_there_is_taken(place: Place) -> None:
    place.write("top.txt", "t\n")
    place.write("far/one", "1\n")
    place.write("far/two", "2\n")
    place.commit()
    whole = listing(place.top)
    place.git("sparse-checkout", "set", "--cone", "d")
    assert not (place.top / "far").exists()
    trip = place.trip(lambda: place.write("d/x", "changed\n"))
    assert trip.paths == ["M d/x"]
    assert trip.files == whole | {"d/x": ("file", b"changed\n")}
    trip = place.trip(lambda: place.write("far/one", "made\n"))
    assert trip.paths == ["M far/one"]
    assert trip.files["far/two"] == ("file", b"2\n")


def test_a_sparse_index_is_read_whole(place: Place) -> None:
    place.write("far/deep/one", "1\n")
    place.commit()
    place.git("sparse-checkout", "set", "--cone", "--sparse-index", "d")
    assert "far/\n" in place.git("ls-files", "--sparse") + "\n"
    trip = place.trip(lambda: place.write("d/x", "changed\n"))
    assert trip.paths == ["M d/x"]
    assert trip.files["far/deep/one"] == ("file", b"1\n")


def test_a_split_index_is_read_whole(place: Place) -> None:
    place.git("update-index", "--split-index")
    place.write("more", "m\n")
    place.git("add", "more")
    assert list((place.top / ".git").glob("sharedindex.*"))
    trip = place.trip(lambda: (place.top / "more").unlink())
    assert trip.paths == ["D more"]
    assert trip.files == listing(place.top)


@pytest.mark.parametrize("index", [None, b"", b"DIRC\0\0\0\2", b"no index" * 99])
def test_an_index_that_is_absent_or_damaged_is_done_without(
    place: Place, index: bytes | None
) -> None:
    place.write("a.txt", "uncommitted\n")
    (place.top / ".git/index").unlink()
    if index is not None:
        (place.top / ".git/index").write_bytes(index)
    trip = place.trip(lambda: place.write("new", "n\n"))
    assert trip.paths == ["A new"]
    assert trip.files == listing(place.top)
    assert len(trip.warnings) == (0 if index is None else 1)


def test_unchanged_files_are_not_read_again(place: Place) -> None:
    long_ago = 1_000_000_000
    os.utime(place.top / "a.txt", (long_ago, long_ago))
    os.utime(place.write("untracked", "u\n"), (long_ago, long_ago))
    place.git("update-index", "--refresh")
    with Workshop(find(place.top, place.env), place.root / "s", env=place.env) as shop:
        ours, theirs = place.root / "s/annex.git/objects", place.top / ".git/objects"

        def forget(objects: Path, name: str) -> Path:
            blob = place.git("hash-object", name).strip()
            stored = objects / blob[:2] / blob[2:]
            stored.unlink()
            return ours / blob[:2] / blob[2:]

        known = forget(theirs, "a.txt")
        first = shop.snapshot()
        made = forget(ours, "untracked")
        assert shop.snapshot() == first
        assert not known.exists()
        assert not made.exists()
