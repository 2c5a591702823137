"""Files below an open folder: whole or not at all, and never through a link."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from waybill.base import exits, files
from waybill.base.exits import Fault
from waybill.base.files import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    """An open folder of its own."""
    (tmp_path / "folder").mkdir()
    with Folder.open(tmp_path / "folder") as opened:
        yield opened


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_replaced_file_is_the_new_one_and_its_readers_keep_the_old(folder: Folder) -> None:
    folder.replace("a", b"old")
    with (folder.path / "a").open("rb") as reader:
        folder.replace("a", b"new")
        assert reader.read() == b"old"
    assert folder.read("a", 10) == b"new"
    assert mode(folder.path / "a") == files.MODE
    assert folder.names() == ["a"]


@pytest.mark.parametrize("broken", ["fsync", "rename"])
def test_a_replacement_that_fails_leaves_the_old_file_and_nothing_else(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    folder.replace("a", b"old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, broken, fail)
    with pytest.raises(OSError, match="Input/output error"):
        folder.replace("a", b"new")
    monkeypatch.undo()
    assert folder.read("a", 10) == b"old"
    assert folder.names() == ["a"]


def test_a_link_is_replaced_and_its_target_left_alone(folder: Folder, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"theirs")
    (folder.path / "a").symlink_to(target)
    folder.replace("a", b"ours")
    assert target.read_bytes() == b"theirs"
    assert not (folder.path / "a").is_symlink()


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda folder: folder.read("a", 10), id="reading"),
        pytest.param(lambda folder: folder.append("a", b"line\n"), id="appending"),
        pytest.param(lambda folder: folder.create("a"), id="creating"),
        pytest.param(lambda folder: folder.open_file("a", os.O_WRONLY), id="opening"),
    ],
)
@pytest.mark.parametrize(
    "planted",
    [
        pytest.param(lambda path, other: path.symlink_to(other), id="a link to a file"),
        pytest.param(lambda path, other: path.symlink_to(other.parent / "no"), id="a dangling one"),
        pytest.param(lambda path, other: os.mkfifo(path), id="a FIFO"),
        pytest.param(lambda path, other: path.mkdir(), id="a folder"),
    ],
)
def test_nothing_but_a_regular_file_is_opened(
    folder: Folder,
    tmp_path: Path,
    use: Callable[[Folder], object],
    planted: Callable[[Path, Path], None],
) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"theirs")
    planted(folder.path / "a", other)
    with pytest.raises(OSError):
        use(folder)
    assert other.read_bytes() == b"theirs"
    assert sorted(os.listdir(tmp_path)) == ["folder", "other"]


@pytest.mark.parametrize(
    "depth", [pytest.param(0, id="the first"), pytest.param(1, id="one between"), 2]
)
def test_a_link_is_refused_at_every_component(tmp_path: Path, depth: int) -> None:
    names = ["a", "b", "c"]
    (tmp_path / "real" / "a" / "b" / "c").mkdir(parents=True)
    path = tmp_path / "way"
    path.mkdir()
    for index, name in enumerate(names):
        path = path / name
        if index == depth:
            path.symlink_to(tmp_path.joinpath("real", *names[: index + 1]))
            break
        path.mkdir()
    assert (tmp_path / "way" / "a" / "b" / "c").is_dir()
    with pytest.raises(OSError) as caught:
        Folder.open(tmp_path / "way" / "a" / "b" / "c", make=True)
    assert caught.value.errno in (errno.ELOOP, errno.ENOTDIR)


@pytest.mark.parametrize(
    "planted",
    [
        pytest.param(lambda path: path.symlink_to("/"), id="a link"),
        pytest.param(lambda path: path.touch(), id="a file"),
        pytest.param(lambda path: os.mkfifo(path), id="a FIFO"),
        pytest.param(lambda path: None, id="nothing, when it is not to be made"),
    ],
)
def test_a_folder_below_is_a_folder(folder: Folder, planted: Callable[[Path], None]) -> None:
    planted(folder.path / "sub")
    with pytest.raises(OSError):
        folder.sub("sub", make=False)
    folder.replace("still", b"open")


def test_made_folders_are_private(tmp_path: Path) -> None:
    with Folder.open(tmp_path / "a" / "b", make=True) as made, made.sub("c") as below:
        below.replace("file", b"")
    assert [mode(tmp_path / name) for name in ("a", "a/b", "a/b/c")] == [files.FOLDER_MODE] * 3


def test_a_folder_that_moved_goes_on_being_written(folder: Folder, tmp_path: Path) -> None:
    folder.replace("a", b"1")
    assert folder.in_place()
    folder.path.rename(tmp_path / "moved")
    assert not folder.in_place()
    (tmp_path / "trap").mkdir()
    folder.path.symlink_to(tmp_path / "trap")
    assert not folder.in_place()
    folder.replace("a", b"2")
    folder.append("b", b"line\n")
    with folder.sub("c") as below:
        below.replace("d", b"3")
    assert (tmp_path / "moved" / "a").read_bytes() == b"2"
    assert (tmp_path / "moved" / "c" / "d").read_bytes() == b"3"
    assert os.listdir(tmp_path / "trap") == []


def test_another_folder_in_its_place_is_not_it(folder: Folder, tmp_path: Path) -> None:
    folder.path.rename(tmp_path / "moved")
    folder.path.mkdir()
    assert not folder.in_place()


def test_records_are_appended_whole(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.append("ledger", b"one\n")
    folder.append("ledger", b"two\n")
    assert folder.read("ledger", 100) == b"one\ntwo\n"
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:2]))
    with pytest.raises(OSError, match="only partly written"):
        folder.append("ledger", b"three\n")


def test_a_file_is_created_once(folder: Folder) -> None:
    os.close(folder.create("a"))
    with pytest.raises(FileExistsError):
        folder.create("a")


@pytest.mark.parametrize(
    ("size", "found"), [(4, b"xxxx"), pytest.param(5, None, id="one byte over the limit")]
)
def test_reading_is_bounded(folder: Folder, size: int, found: bytes | None) -> None:
    folder.replace("a", b"x" * size)
    if found is not None:
        assert folder.read("a", 4) == found
        return
    with pytest.raises(OSError, match="larger than 4 bytes"):
        folder.read("a", 4)


def test_what_is_not_there_is_no_fault(folder: Folder) -> None:
    assert folder.read("a", 10) is None
    assert folder.status("a") is None
    folder.remove("a")


def test_a_link_is_looked_at_and_moved_and_not_followed(folder: Folder, tmp_path: Path) -> None:
    (folder.path / "a").symlink_to(tmp_path)
    status = folder.status("a")
    assert status is not None
    assert stat.S_ISLNK(status.st_mode)
    with folder.sub("b") as other:
        folder.move("a", other, "c")
    assert (folder.path / "b" / "c").readlink() == tmp_path
    assert folder.names() == ["b"]


def test_a_closed_folder_can_be_closed_again(tmp_path: Path) -> None:
    opened = Folder.open(tmp_path)
    opened.close()
    opened.close()
    assert opened.descriptor == -1


def test_what_cannot_be_stored_is_a_store_error() -> None:
    with pytest.raises(Fault) as caught, files.storing("run.json"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert (caught.value.status, caught.value.outcome) == (exits.STORE, "store_error")
    assert str(caught.value) == "run.json: cannot be stored: No space left on device"
