"""Base commit + base.patch + work.patch is the result tree, and that is what stands on disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from waybill.base.exits import NOINPUT, PROTOCOL, STORE, Fault
from waybill.tree.rebuild import Workshop, find, rebuild
from workplace import Place, listing


def replace(path: Path, target: str) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.symlink_to(target)


def folder_to_file(place: Place) -> None:
    shutil.rmtree(place.top / "d")
    place.write("d", "now a file\n")


def file_to_folder(place: Place) -> None:
    (place.top / "a.txt").unlink()
    place.write("a.txt/inside", "in\n")


def swap(place: Place) -> None:
    folder_to_file(place)
    file_to_folder(place)


def link_to_folder_of_files(place: Place) -> None:
    (place.top / "link").unlink()
    place.write("link/x", "not through a link\n")


def append(place: Place, path: str, content: bytes) -> None:
    with (place.top / path).open("ab") as file:
        file.write(content)


CHANGES: dict[str, tuple[Callable[[Place], object], list[str]]] = {
    "nothing": (lambda p: None, []),
    "untracked": (lambda p: p.write("new/deep/file", "n\n"), ["A new/deep/file"]),
    "modified": (lambda p: append(p, "a.txt", b"three\n"), ["M a.txt"]),
    "no line feed at the end": (lambda p: p.write("a.txt", "one\ntwo"), ["M a.txt"]),
    "deleted": (lambda p: (p.top / "a.txt").unlink(), ["D a.txt"]),
    "folder deleted": (lambda p: shutil.rmtree(p.top / "d"), ["D d/x", "D d/y"]),
    "renamed": (lambda p: (p.top / "a.txt").rename(p.top / "z.txt"), ["D a.txt", "A z.txt"]),
    "mode": (lambda p: (p.top / "a.txt").chmod(0o755), ["M a.txt"]),
    "mode back": (lambda p: (p.top / "run.sh").chmod(0o644), ["M run.sh"]),
    "mode and content": (lambda p: p.write("a.txt", "q\n", 0o755), ["M a.txt"]),
    "link moved": (lambda p: replace(p.top / "link", "b.bin"), ["M link"]),
    "file to link": (lambda p: replace(p.top / "a.txt", "b.bin"), ["T a.txt"]),
    "link to file": (
        lambda p: ((p.top / "link").unlink(), p.write("link", "one\ntwo\n")),
        ["T link"],
    ),
    "link to a folder": (lambda p: (p.top / "l").symlink_to("d"), ["A l"]),
    "link outside": (lambda p: (p.top / "l").symlink_to("/etc/passwd"), ["A l"]),
    "dangling link": (lambda p: (p.top / "l").symlink_to("n\no\xff"), ["A l"]),
    "folder to link": (lambda p: replace(p.top / "d", "/usr"), ["A d", "D d/x", "D d/y"]),
    "link to folder of files": (link_to_folder_of_files, ["D link", "A link/x"]),
    "file to folder": (file_to_folder, ["D a.txt", "A a.txt/inside"]),
    "folder to file": (folder_to_file, ["A d", "D d/x", "D d/y"]),
    "both swapped": (swap, ["D a.txt", "A a.txt/inside", "A d", "D d/x", "D d/y"]),
    "binary": (lambda p: append(p, "b.bin", b"\0\1\2" * 999), ["M b.bin"]),
    "binary to text": (lambda p: p.write("b.bin", "text\n"), ["M b.bin"]),
    "empty file": (lambda p: p.write("empty", ""), ["A empty"]),
    "emptied": (lambda p: p.write("a.txt", ""), ["M a.txt"]),
    "carriage returns": (lambda p: p.write("a.txt", b"one\r\n\rtwo\r"), ["M a.txt"]),
    "blank at the end": (lambda p: p.write("a.txt", "one \n\t \n\n\n"), ["M a.txt"]),
    "not UTF-8 inside": (lambda p: p.write("a.txt", b"\xff\xfe\xc3\n"), ["M a.txt"]),
    "text like a patch": (
        lambda p: p.write("a.txt", "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"),
        ["M a.txt"],
    ),
    "an empty folder": (lambda p: (p.top / "void").mkdir(), []),
    "everything gone": (
        lambda p: [
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            for path in p.top.iterdir()
            if path.name != ".git"
        ],
        ["D a.txt", "D b.bin", "D d/x", "D d/y", "D link", "D run.sh"],
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_rebuilt(place: Place, name: str) -> None:
    change, paths = CHANGES[name]
    trip = place.trip(lambda: change(place))
    assert trip.paths == paths
    assert trip.files == listing(place.top)
    assert trip.base_patch == b""
    assert (trip.work_patch == b"") == (paths == [])
    assert trip.warnings == []


NAMES = [
    b"with space",
    b" leading and trailing ",
    b"new\nline",
    b"tab\there",
    b'quote"s',
    b'"at the start"',
    b"back\\slash",
    b"not-utf8-\xff\xfe",
    b"\xe4/b\xf6se",
    "größe-日本.txt".encode(),
    b"-leading-dash",
    b"--cached",
    b"a -> b",
    b"x b/x",
    b":(top)x",
    b":!x",
    b":",
    b"*.txt",
    b"[a-z]?",
    b"#comment",
    b"!not",
    b"folder /file",
    b"a /b /\xc3\xbc c",
    b" / /b/ / ",
    b"git~1",
    b"CON",
    b"a\r",
    b"\x01\x7f",
    b"/".join([b"deep"] * 40),
]


@pytest.mark.parametrize("content", [b"text\n", b"", b"\0\xff"], ids=["text", "empty", "binary"])
def test_odd_names_are_rebuilt(place: Place, content: bytes) -> None:
    def change() -> None:
        for name in NAMES:
            place.write(name, content)

    trip = place.trip(change)
    assert trip.files == listing(place.top)
    assert len(trip.changes) == len(NAMES)

    def again() -> None:
        for count, name in enumerate(NAMES):
            target = place.top / os.fsdecode(name)
            if count % 3 == 0:
                target.unlink()
            elif count % 3 == 1:
                target.chmod(0o755)
            else:
                replace(target, "a -> b\n")

    trip = place.trip(again)
    assert trip.files == listing(place.top)
    assert len(trip.changes) == len(NAMES)


def test_a_name_is_text_or_quoted_so_that_no_two_are_alike(place: Place) -> None:
    def change() -> None:
        for name in (b"n\xff", b'"n\\377"', b"plain\n", "ü".encode()):
            place.write(name, "c")

    trip = place.trip(change)
    assert {change.path for change in trip.changes} == {
        '"n\\377"',
        '"\\"n\\\\377\\""',
        "plain\n",
        "ü",
    }


def test_a_change_tells_modes_and_ids(place: Place) -> None:
    trip = place.trip(lambda: (place.top / "a.txt").chmod(0o755))
    (change,) = trip.changes
    assert (change.old_mode, change.new_mode) == ("100644", "100755")
    assert change.old_id == change.new_id == place.git("rev-parse", "HEAD:a.txt").strip()


def test_the_stored_patches_can_be_replayed_while_the_run_is_at_hand(place: Place) -> None:
    place.write("before", "b\n")
    patch = place.root / "base.patch"
    with Workshop(find(place.top, place.env), place.root / "s", env=place.env) as shop:
        base = shop.snapshot()
        with patch.open("wb") as file:
            shop.patch(shop.repository.base_commit, base, file.fileno())
        place.write("before", "a\n")
        assert shop.snapshot() != base
        assert shop.replay([patch]) == base
        assert shop.replay([]) == place.git("rev-parse", "HEAD^{tree}").strip()


def test_uncommitted_work_before_the_run_is_in_the_base_patch(place: Place) -> None:
    place.write("a.txt", "staged\n")
    place.write("staged-only", "s\n")
    place.git("add", "a.txt", "staged-only")
    place.write("a.txt", "and changed again\n")
    (place.top / "staged-only").unlink()
    place.write("untracked", "u\n")
    place.write("intended", "i\n")
    place.git("add", "-N", "intended")
    place.git("rm", "-q", "--cached", "run.sh")
    (place.top / "d/x").unlink()
    before = listing(place.top)
    trip = place.trip(lambda: place.write("untracked", "by the worker\n"))
    assert trip.paths == ["M untracked"]
    assert b"+and changed again" in trip.base_patch
    assert b"by the worker" not in trip.base_patch
    assert trip.files == before | {"untracked": ("file", b"by the worker\n")}


def test_a_merge_in_conflict_is_taken_as_it_stands(place: Place) -> None:
    place.git("checkout", "-q", "-b", "other")
    place.write("a.txt", "theirs\n")
    (place.top / "b.bin").unlink()
    place.commit()
    place.git("checkout", "-q", "main")
    place.write("a.txt", "ours\n")
    place.write("b.bin", b"\0ours")
    place.commit()
    with pytest.raises(AssertionError):
        place.git("merge", "other")
    trip = place.trip(lambda: place.write("new", "n\n"))
    assert trip.paths == ["A new"]
    assert trip.files == listing(place.top)
    assert b"<<<<<<<" in trip.files["a.txt"][1]


def test_a_worker_that_commits_and_rewrites_changes_nothing_of_the_account(place: Place) -> None:
    def change() -> None:
        place.write("committed", "c\n")
        place.commit()
        place.write("amended", "a\n")
        place.git("add", "-A")
        place.git("commit", "-q", "--amend", "-m", "other")
        place.write("a.txt", "changed\n")
        place.git("reset", "-q", "--soft", "HEAD~1")
        place.git("checkout", "-q", "-b", "elsewhere")
        place.git("commit", "-q", "-am", "kept")
        place.write("untracked", "u\n")

    trip = place.trip(change)
    assert trip.paths == ["M a.txt", "A amended", "A committed", "A untracked"]
    assert trip.files == listing(place.top)


def test_a_file_with_its_old_size_and_time_is_still_seen_as_changed(place: Place) -> None:
    def change() -> None:
        target = place.top / "a.txt"
        status = target.stat()
        target.write_bytes(b"ONE\nTWO\n")
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))

    assert place.trip(change).paths == ["M a.txt"]


def test_what_was_in_the_base_stays_when_a_rule_comes_to_ignore_it(place: Place) -> None:
    place.write("notes", "n\n")
    trip = place.trip(lambda: place.write(".gitignore", "notes\n*.log\n"))
    assert trip.paths == ["A .gitignore"]
    assert trip.files["notes"] == ("file", b"n\n")


def test_a_patch_that_does_not_fit_is_a_fault(place: Place, tmp_path: Path) -> None:
    patch = tmp_path / "bad.patch"
    patch.write_text(
        "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-other\n+o\n"
    )
    repository = find(place.top, place.env)
    assert repository.common_dir is not None
    common, commit = Path(repository.common_dir), repository.base_commit
    for given, base, status, words in [
        (patch, commit, PROTOCOL, "does not apply"),
        (tmp_path / "absent", commit, NOINPUT, "No such file"),
        (place.top / "b.bin", commit, PROTOCOL, "does not apply"),
        (patch, "1" * 40, PROTOCOL, "the base commit cannot be read"),
        (patch, "--help", PROTOCOL, "not a full object id"),
    ]:
        with pytest.raises(Fault) as caught:
            rebuild(common, base, [given], tmp_path / "scratch", env=place.env)
        assert caught.value.status == status
        assert words in caught.value.message
        assert not (tmp_path / "scratch").exists()


def test_relative_paths_lead_from_the_current_folder(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    (tmp_path / "empty.patch").write_bytes(b"")
    tree = rebuild(
        Path("repo/.git"),
        place.git("rev-parse", "HEAD").strip(),
        [Path("empty.patch")],
        Path("scratch"),
        checkout=Path("out"),
    )
    assert tree == place.git("rev-parse", "HEAD^{tree}").strip()
    assert listing(tmp_path / "out") == listing(place.top)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700


def test_a_checkout_goes_to_a_new_folder_only(place: Place, tmp_path: Path) -> None:
    repository = find(place.top, place.env)
    assert repository.common_dir is not None
    full, link, file = tmp_path / "full", tmp_path / "link", tmp_path / "file"
    full.mkdir()
    (full / "d").symlink_to(place.home)
    link.symlink_to(place.home)
    file.write_text("f")
    for target in (full, link, file):
        with pytest.raises(Fault) as caught:
            rebuild(
                Path(repository.common_dir),
                repository.base_commit,
                [],
                tmp_path / "scratch",
                checkout=target,
                env=place.env,
            )
        assert caught.value.status == STORE
    assert list(place.home.iterdir()) == []
