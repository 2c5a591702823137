"""A repository inside the tree: a submodule by its commit, any other by its files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from workplace import Place, fingerprint, listing


def embed(place: Place, path: str, *, commit: bool = True) -> Path:
    inner = place.top / path
    inner.mkdir(parents=True)
    place.init(inner)
    place.write(f"{path}/one", "1\n")
    place.write(f"{path}/deep/two", "2\n")
    place.write(f"{path}/x.o", "o\n")
    place.write(f"{path}/.gitignore", "*.o\n")
    if commit:
        place.git("add", "-A", at=inner)
        place.git("commit", "-q", "-m", "m", at=inner)
    return inner


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("during", [True, False])
def test_the_files_of_an_embedded_repository_are_taken(
    place: Place, commit: bool, during: bool
) -> None:
    def make() -> None:
        embed(place, "vendor/in ner", commit=commit)
        embed(place, "vendor/in ner/nested", commit=commit)

    def change() -> None:
        if during:
            make()
        place.write("vendor/in ner/one", "changed\n")
        (place.top / "vendor/in ner/nested/deep/two").unlink()

    if not during:
        make()
    trip = place.trip(change)
    if not during:
        assert trip.paths == ["D vendor/in ner/nested/deep/two", "M vendor/in ner/one"]
    assert trip.ignored == ["vendor/in ner/nested/x.o", "vendor/in ner/x.o"]
    expected = listing(place.top)
    for path in trip.ignored:
        del expected[path]
    assert trip.files == expected
    text = "a repository of its own; its files are taken without its history"
    assert trip.warnings == [f"vendor/in ner: {text}", f"vendor/in ner/nested: {text}"]


def test_an_embedded_repository_without_files_is_in_no_tree(place: Place) -> None:
    inner = place.top / "inner"
    inner.mkdir()
    trip = place.trip(lambda: place.init(inner))
    assert trip.paths == []
    assert place.trip(lambda: (inner / "f").write_text("f\n")).paths == ["A inner/f"]


def test_a_linked_worktree_inside_the_tree_is_taken_as_files(place: Place) -> None:
    trip = place.trip(lambda: place.git("worktree", "add", "-q", "wt/side"))
    assert trip.files == listing(place.top)
    assert "A wt/side/a.txt" in trip.paths
    assert len(trip.warnings) == 1


def test_an_ignored_embedded_repository_is_ignored(place: Place) -> None:
    place.write(".gitignore", "deps/\n")
    trip = place.trip(lambda: embed(place, "deps/inner"))
    assert (trip.paths, trip.ignored, trip.warnings) == ([], ["deps/"], [])


def test_a_tracked_folder_that_becomes_a_repository_stays_files(place: Place) -> None:
    def change() -> None:
        place.init(place.top / "d")
        place.git("add", "-A", at=place.top / "d")
        place.git("commit", "-q", "-m", "m", at=place.top / "d")
        place.write("d/x", "changed\n")

    trip = place.trip(change)
    assert trip.paths == ["M d/x"]
    assert trip.files == listing(place.top)


def submodule(place: Place) -> Path:
    source = place.root / "source"
    source.mkdir()
    place.init(source)
    (source / "s").write_text("s\n")
    place.commit(at=source)
    place.git("submodule", "add", "-q", str(source), "sub")
    place.commit()
    place.git("commit", "-q", "--allow-empty", "-m", "later", at=place.top / "sub")
    place.git("reset", "-q", "--hard", "HEAD~1", at=place.top / "sub")
    return place.top / "sub"


DIRTY = "sub: a submodule with uncommitted changes; they are not in the patch"


def test_a_clean_submodule_is_recorded_by_its_commit(place: Place) -> None:
    sub = submodule(place)
    trip = place.trip(lambda: place.write("a.txt", "x\n"))
    assert (trip.paths, trip.warnings) == (["M a.txt"], [])
    assert "sub/s" not in trip.files
    place.git("config", "--file", ".gitmodules", "submodule.sub.ignore", "all")
    trip = place.trip(lambda: place.git("reset", "-q", "--hard", "ORIG_HEAD", at=sub))
    assert (trip.paths, trip.warnings) == (["M sub"], [])
    assert b"+Subproject commit" in trip.work_patch


@pytest.mark.parametrize("how", ["modified", "untracked", "staged", "deleted"])
def test_a_dirty_submodule_is_named(place: Place, how: str) -> None:
    sub = submodule(place)

    def change() -> None:
        if how == "deleted":
            (sub / "s").unlink()
        elif how == "untracked":
            (sub / "new").write_text("n\n")
        else:
            (sub / "s").write_text("changed\n")
        if how == "staged":
            place.git("add", "-A", at=sub)

    trip = place.trip(change)
    assert (trip.paths, trip.warnings) == ([], [DIRTY])


def test_a_run_folder_in_a_submodule_is_no_change_of_it(place: Place) -> None:
    sub = submodule(place)
    trip = place.trip(
        lambda: place.write("sub/runs/p/run.json", "{}"), exclude=[sub / "runs", sub / "runs/p"]
    )
    assert (trip.paths, trip.warnings) == ([], [])


def test_the_settings_of_a_submodule_do_not_run(place: Place) -> None:
    sub = submodule(place)
    marker = place.root / "ran"
    program = place.root / "program"
    program.write_text(f"#!/bin/sh\n: > '{marker}'\ncat\n")
    program.chmod(0o755)
    place.git("config", "filter.f.clean", str(program), at=sub)
    place.git("config", "core.fsmonitor", str(program), at=sub)
    (place.top / ".git/modules/sub/info/attributes").write_text("* filter=f\n")
    whole = fingerprint(place.top / ".git")
    trip = place.trip(lambda: (sub / "s").write_text("S\n"))
    assert trip.warnings == [DIRTY]
    assert not marker.exists()
    assert fingerprint(place.top / ".git") == whole
    place.git("status")
    assert marker.exists()


def test_a_submodule_that_is_not_there_is_no_deletion(place: Place) -> None:
    submodule(place)
    place.git("submodule", "deinit", "-q", "-f", "sub")
    trip = place.trip(lambda: place.write("a.txt", "x\n"))
    assert (trip.paths, trip.warnings) == (["M a.txt"], [])
    trip = place.trip(lambda: place.write("sub/lost", "l\n"))
    assert trip.paths == []
    assert trip.warnings == ["sub: a submodule without a repository; its files are not in the tree"]


def test_a_submodule_may_become_a_file_or_a_link_or_go(place: Place) -> None:
    sub = submodule(place)

    def to_file() -> None:
        sub.rename(place.root / "aside")
        sub.write_text("f\n")

    def to_link() -> None:
        sub.unlink()
        sub.symlink_to("d")

    def to_fifo() -> None:
        sub.unlink()
        os.mkfifo(sub)

    assert place.trip(to_file).paths == ["T sub"]
    assert place.trip(to_link).paths == ["T sub"]
    assert place.trip(to_fifo).paths == ["D sub"]


def test_a_folder_of_submodules_may_become_a_link(place: Place) -> None:
    place.write("deep/f", "f\n")
    source = place.root / "source"
    source.mkdir()
    place.init(source)
    place.commit(at=source)
    place.git("submodule", "add", "-q", str(source), "deep/sub")
    place.commit()

    def change() -> None:
        (place.top / "deep").rename(place.root / "deep")
        (place.top / "deep").symlink_to(place.root / "deep")

    assert place.trip(change).paths == ["A deep", "D deep/f", "D deep/sub"]


@pytest.mark.parametrize("there", [True, False])
def test_a_submodule_in_conflict_is_taken_as_it_stands(place: Place, there: bool) -> None:
    sub = submodule(place)
    ids = [place.git("rev-parse", name, at=sub).strip() for name in ("HEAD", "ORIG_HEAD")]
    if not there:
        place.git("submodule", "deinit", "-q", "-f", "sub")
    lines = "".join(f"160000 {ids[n]} {n + 1}\tsub\0" for n in (0, 1)) + "100644 "
    lines += place.git("rev-parse", "HEAD:a.txt").strip() + " 3\tsub\0"
    nothing = f"0 {'0' * 40}\tsub\0"
    place.git("update-index", "-z", "--index-info", stdin=(nothing + lines).encode())
    assert "UU sub" in place.git("status", "--short")
    trip = place.trip(lambda: place.write("new", "n\n"))
    assert trip.paths == ["A new"]
    assert (trip.base_patch == b"") == there


def test_a_submodule_with_a_broken_repository_is_named(place: Place) -> None:
    sub = submodule(place)
    trip = place.trip(lambda: (sub / ".git").write_text("junk\n"))
    assert trip.paths == []
    assert len(trip.warnings) == 1
    assert trip.warnings[0].startswith("sub: a submodule that cannot be compared: ")
