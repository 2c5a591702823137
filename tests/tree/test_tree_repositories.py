"""Which repository a folder belongs to, and what is no usable repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from waybill.base import git
from waybill.base.exits import CONFIG, NOINPUT, PROTOCOL, TIMEOUT, UNAVAILABLE, Fault
from waybill.tree.rebuild import Repository, Workshop, find, rebuild
from workplace import Place, fingerprint, listing


def test_a_repository_is_described(place: Place) -> None:
    head = place.git("rev-parse", "HEAD").strip()
    excludes = str(place.home / ".config/git/ignore")
    git_dir = str(place.top / ".git")
    expected = Repository("git", str(place.top), git_dir, git_dir, head, "sha1", excludes)
    assert find(place.top, place.env) == expected
    assert find(place.top / "d", place.env) == expected


def test_a_repository_behind_a_link_is_the_same_repository(place: Place) -> None:
    (place.root / "alias").symlink_to(place.top)
    assert find(place.root / "alias/d", place.env) == find(place.top, place.env)
    trip = place.trip(
        lambda: place.write("runs/1/packet.json", "{}") and place.write("new", "n\n"),
        cwd=place.root / "alias/d",
        exclude=[place.root / "alias/runs"],
    )
    assert trip.paths == ["A new"]


@pytest.mark.parametrize("name", ["new\nline", "nicht-\udcff", '"quoted"', "a#b", " # "])
def test_a_repository_may_stand_anywhere(tmp_path: Path, name: str) -> None:
    place = Place(tmp_path / name)
    place.init()
    place.write("a", "a\n")
    place.commit()
    assert find(place.top, place.env).top == str(place.top)
    assert place.trip(lambda: place.write("a", "b\n")).paths == ["M a"]


def test_a_linked_worktree(place: Place) -> None:
    linked = place.root / "linked"
    place.git("worktree", "add", "-q", "-b", "side", str(linked))
    place.write(".git/info/exclude", "*.log\n")
    found = find(linked, place.env)
    assert found.git_dir == str(place.top / ".git/worktrees/linked")
    assert found.common_dir == str(place.top / ".git")
    whole = fingerprint(place.top / ".git")

    def change() -> None:
        (linked / "a.txt").write_text("linked\n")
        (linked / "x.log").write_text("l\n")

    trip = place.trip(change, cwd=linked)
    assert trip.paths == ["M a.txt"]
    assert trip.ignored == ["x.log"]
    assert fingerprint(place.top / ".git") == whole


def test_a_detached_head(place: Place) -> None:
    place.git("checkout", "-q", "--detach")
    assert find(place.top, place.env).base_commit == place.git("rev-parse", "HEAD").strip()
    assert place.trip(lambda: place.write("a.txt", "x\n")).paths == ["M a.txt"]


def test_an_unborn_head(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.init()
    place.write("before", "b\n")
    place.write("staged", "s\n")
    place.git("add", "staged")
    assert find(place.top, place.env).base_commit is None
    trip = place.trip(lambda: place.write("new", "n\n"))
    assert trip.paths == ["A new"]
    assert trip.files == listing(place.top)
    assert b"new file mode" in trip.base_patch


def test_no_repository(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("before", "b\n")
    (place.top / ".git").mkdir()  # as a sandbox leaves it
    found = find(place.top, place.env)
    assert (found.kind, found.top, found.base_commit) == ("folder", str(place.top), None)
    trip = place.trip(lambda: place.write("d/new", "n\n"))
    assert trip.paths == ["A d/new"]
    assert trip.files == listing(place.top)


def test_an_empty_folder(tmp_path: Path) -> None:
    place = Place(tmp_path)
    trip = place.trip(lambda: None)
    assert (trip.base, trip.paths) == (git.EMPTY_TREE["sha1"], [])


def test_a_sha256_repository(tmp_path: Path) -> None:
    place = Place(tmp_path, "sha256")
    place.init()
    assert place.trip(lambda: None).base == git.EMPTY_TREE["sha256"]
    place.write("a", "a\n")
    place.write("run/tracked", "t\n")
    place.commit()
    place.write(".codex", "")
    (place.top / "embedded").mkdir()
    place.init(place.top / "embedded")

    def change() -> None:
        place.write("a", b"\0binary")
        place.write("embedded/e", "e\n")
        place.write("run/tracked", "changed\n")

    trip = place.trip(change, exclude=[place.top / "run"])
    assert trip.paths == ["M a", "A embedded/e"]
    assert len(trip.result) == 64
    assert trip.files["run/tracked"] == ("file", b"t\n")


def test_a_shallow_clone_and_one_with_borrowed_objects(place: Place) -> None:
    for name, options in {"shallow": ["--depth=1"], "shared": ["--shared"]}.items():
        clone = place.root / name
        place.git("clone", "-q", *options, f"file://{place.top}", str(clone), at=place.root)
        trip = place.trip(lambda clone=clone: (clone / "a.txt").unlink(), cwd=clone)  # type: ignore[misc]
        assert trip.paths == ["D a.txt"]


def test_a_partial_clone_fetches_nothing(place: Place) -> None:
    place.write("far/one", "1\n")
    place.commit()
    place.git("config", "uploadpack.allowFilter", "true")
    clone = place.root / "partial"
    options = ["--filter=blob:none", "--sparse"]
    place.git("clone", "-q", *options, f"file://{place.top}", str(clone), at=place.root)
    assert not (clone / "far").exists()
    place.top.rename(place.root / "gone")
    with Workshop(find(clone, place.env), place.root / "s", env=place.env) as shop:
        base = shop.snapshot()
        (clone / "a.txt").write_text("changed\n")
        changes = shop.changed(base, shop.snapshot())
    assert [change.path for change in changes] == ["a.txt"]


def broken(place: Place, how: str) -> Path:
    git_dir = place.top / ".git"
    if how == "bare":
        place.git("init", "-q", "--bare", str(place.root / "bare"), at=place.root)
        return place.root / "bare"
    if how == "inside the git dir":
        return git_dir
    if how == "no HEAD":
        (git_dir / "HEAD").unlink()
    elif how == "config":
        (git_dir / "config").write_text("[core\n")
    elif how == "format":
        (git_dir / "config").write_text("[core]\nrepositoryformatversion = 99\n")
    elif how == "commit gone":
        (git_dir / "refs/heads/main").write_text("1" * 40 + "\n")
    elif how == "work tree elsewhere":
        place.git("config", "core.worktree", str(place.home))
    else:
        git_dir.rename(place.root / "aside")
        git_dir.write_text("gitdir: /nowhere\n" if how == "lost worktree" else "junk\n")
    return place.top / "d"


BROKEN = {
    "bare": "this operation must be run in a work tree",
    "inside the git dir": "this operation must be run in a work tree",
    "no HEAD": "not a git repository",
    "config": "bad config line 1 in file",
    "format": "repo version",
    "commit gone": "HEAD names a commit that the repository has not",
    "work tree elsewhere": "work",
    "lost worktree": "not a git repository: /nowhere",
    "junk file": "invalid gitfile format",
}


@pytest.mark.parametrize("how", BROKEN)
def test_an_unusable_repository_is_a_fault_in_gits_words(place: Place, how: str) -> None:
    cwd = broken(place, how)
    with pytest.raises(Fault) as caught:
        find(cwd, place.env)
    assert (caught.value.outcome, caught.value.status) == ("config_error", CONFIG)
    assert BROKEN[how] in caught.value.message
    assert "\n" not in caught.value.message


def test_a_folder_that_is_none_is_a_fault(place: Place) -> None:
    for cwd in (place.top / "absent", place.top / "a.txt"):
        with pytest.raises(Fault) as caught:
            find(cwd, place.env)
        assert caught.value.status == NOINPUT


def fake_git(place: Place, script: str) -> dict[str, str]:
    folder = place.root / "bin"
    folder.mkdir()
    (folder / "git").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "git").chmod(0o755)
    return place.env | {"PATH": f"{folder}:{place.env['PATH']}"}


def test_a_repository_of_another_owner_is_a_fault_in_gits_words(place: Place) -> None:
    said = "fatal: detected dubious ownership in repository at '/r'\nTo add an exception, call:\n"
    env = fake_git(place, f'printf "{said}" >&2; exit 128')
    with pytest.raises(Fault) as caught:
        find(place.top, env)
    assert caught.value.message == "detected dubious ownership in repository at '/r'"
    assert caught.value.outcome == "config_error"


def test_a_git_that_answers_in_another_form_is_a_fault(place: Place) -> None:
    with pytest.raises(Fault) as caught:
        find(place.top, fake_git(place, "echo surprise"))
    assert caught.value.outcome == "config_error"


def test_a_git_that_is_killed_is_a_fault(place: Place) -> None:
    with pytest.raises(Fault) as caught:
        find(place.top, fake_git(place, "kill -9 $$"))
    assert caught.value.message == "git was ended by signal 9"


def test_no_git_is_a_fault(place: Place) -> None:
    with pytest.raises(Fault) as caught:
        find(place.top, place.env | {"PATH": str(place.home)})
    assert caught.value.status == UNAVAILABLE


def test_a_git_that_does_not_end_is_ended(place: Place) -> None:
    env = fake_git(place, "exec sleep 60")
    with pytest.raises(Fault) as caught:
        git.run(["status"], cwd=place.top, env=env, limit=0.05)
    assert caught.value.status == TIMEOUT
    assert caught.value.subject == "git status"


def test_an_id_that_is_none_reaches_no_command(place: Place) -> None:
    with Workshop(find(place.top, place.env), place.root / "s", env=place.env) as shop:
        tree = shop.snapshot()
        for wrong in ("HEAD", "--output=/x", tree[:-1], tree + "\n", ""):
            with pytest.raises(Fault) as caught:
                shop.changed(tree, wrong)
            assert caught.value.status == PROTOCOL
        assert shop.base_tree_of_commit(place.git("rev-parse", "HEAD").strip()) == tree
        with pytest.raises(Fault):
            shop.base_tree_of_commit("1" * 40)
    with pytest.raises(Fault) as caught:
        rebuild(None, None, [], place.root / "s", object_format="md5", env=place.env)
    assert caught.value.status == PROTOCOL


def test_a_scratch_folder_of_a_killed_run_is_used_again(place: Place) -> None:
    scratch = place.root / "s"
    (scratch / "annex.git/objects").mkdir(parents=True)
    (scratch / "annex.git/index.lock").write_text("")
    (scratch / "other").write_text("kept")
    with Workshop(find(place.top, place.env), scratch, env=place.env) as shop:
        assert (scratch / "annex.git").stat().st_mode & 0o777 == 0o700
        assert shop.snapshot() == place.git("rev-parse", "HEAD^{tree}").strip()
    assert os.listdir(scratch) == ["other"]


def test_a_scratch_folder_that_cannot_be_made_is_a_store_fault(place: Place) -> None:
    (place.root / "file").write_text("")
    with pytest.raises(Fault) as caught:
        Workshop(find(place.top, place.env), place.root / "file/s", env=place.env)
    assert caught.value.outcome == "store_error"
