"""The path boundary: what lies inside once every link is resolved."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from waybill.base import paths


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    """A working directory with links of every kind, and places beside it."""
    work = tmp_path / "work"
    for made in ("work/sub", "work-sibling", "out/deep"):
        (tmp_path / made).mkdir(parents=True)
    (work / "file").touch()
    (tmp_path / "out" / "file").touch()
    (work / "in-link").symlink_to("sub")
    (work / "up-link").symlink_to("..")
    (work / "back-link").symlink_to("../work/sub")
    (work / "out-link").symlink_to(tmp_path / "out")
    (work / "out-file").symlink_to(tmp_path / "out" / "file")
    (work / "chain").symlink_to("out-link/deep")
    (work / "dangling").symlink_to("nowhere")
    (work / "dangling-out").symlink_to(tmp_path / "out" / "new")
    (work / "loop").symlink_to("loop")
    (work / "too-long").symlink_to("x" * 300)
    os.symlink(b"\xff", work / "latin-link")
    os.mkdir(os.fsencode(work) + b"/\xff")
    (tmp_path / "alias").symlink_to("work")
    return work


@pytest.mark.parametrize(
    ("text", "real"),
    [
        pytest.param("file", "file", id="a file"),
        pytest.param(".", ".", id="the folder itself"),
        pytest.param("new", "new", id="what does not exist yet"),
        pytest.param("new/deep/file", "new/deep/file", id="below what does not exist yet"),
        pytest.param("sub/../file", "file", id="up and down again"),
        pytest.param("../work/file", "file", id="out and in again"),
        pytest.param("in-link/new", "sub/new", id="through a link to a folder inside"),
        pytest.param("back-link/new", "sub/new", id="through a link that goes out and in"),
        pytest.param("up-link/work/file", "file", id="through a link up, and in again"),
        pytest.param("in-link/../file", "file", id="up from a link's target"),
        pytest.param("{tmp}/work/new", "new", id="an absolute path"),
        pytest.param("{tmp}/alias/new", "new", id="an absolute path through a link"),
        pytest.param("a b/é", "a b/é", id="any text"),
    ],
)
def test_a_path_inside_is_resolved(cwd: Path, text: str, real: str) -> None:
    found = paths.inside(cwd, [cwd], text.format(tmp=cwd.parent))
    assert found == Path(os.path.normpath(cwd / real))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("..", "escapes cwd", id="the folder above"),
        pytest.param("../new", "escapes cwd", id="beside, relative"),
        pytest.param("sub/../../new", "escapes cwd", id="beside, after a step in"),
        pytest.param("new/../../new", "escapes cwd", id="beside, after a step that is not there"),
        pytest.param("{tmp}/out/new", "escapes cwd", id="elsewhere, absolute"),
        pytest.param("/", "escapes cwd", id="the root"),
        pytest.param("../work-sibling/new", "escapes cwd", id="a sibling with the same beginning"),
        pytest.param("out-file", "escapes cwd", id="a link to a file elsewhere"),
        pytest.param("out-link/file", "escapes cwd", id="an existing file through a link"),
        pytest.param("out-link/new/deep", "escapes cwd", id="a missing one through a link"),
        pytest.param("chain/new", "escapes cwd", id="through a chain of links"),
        pytest.param("up-link/new", "escapes cwd", id="through a link up"),
        pytest.param("out-link/../work/../new", "escapes cwd", id="up from a link's target"),
        pytest.param("dangling", "leads nowhere", id="a dangling link"),
        pytest.param("dangling/new", "leads nowhere", id="below a dangling link"),
        pytest.param("dangling-out", "leads nowhere", id="a link that a write would follow out"),
        pytest.param("loop/new", "leads nowhere", id="a link to itself"),
        pytest.param("too-long", "leads nowhere", id="a link that the system will not follow"),
        pytest.param("file/new", "cannot be resolved", id="below a file"),
        pytest.param("x" * 300, "cannot be resolved", id="a name that no system holds"),
        pytest.param("a\0b", "NUL", id="a NUL"),
        pytest.param("latin-link/x", "not UTF-8", id="a name that no record could hold"),
    ],
)
def test_a_path_that_leads_outside_or_nowhere_is_refused(cwd: Path, text: str, said: str) -> None:
    with pytest.raises(paths.Escape, match=said):
        paths.inside(cwd, [cwd], text.format(tmp=cwd.parent))


@pytest.mark.parametrize(
    ("allowed", "text", "permitted"),
    [
        pytest.param("{tmp}/out", "../out/new", True, id="an absolute root elsewhere"),
        pytest.param("{tmp}/out", "out-link/new", True, id="reached by a link"),
        pytest.param("{tmp}/work/out-link", "../out/new", True, id="a root that is a link"),
        pytest.param("{tmp}/work/chain", "../out/new", False, id="a deeper root only"),
        pytest.param("{tmp}/out/file", "../out/file", True, id="a root that is a file"),
        pytest.param("{tmp}/out/file", "../out/file2", False, id="beside a root that is a file"),
        pytest.param("{tmp}/work-sib", "../work-sibling/x", False, id="a prefix of a name"),
        pytest.param("{tmp}/later", "../later/new", True, id="a root that is not there yet"),
        pytest.param("../out", "../out/new", False, id="a relative root that escapes"),
        pytest.param("out-link", "out-link/new", False, id="a relative link that escapes"),
        pytest.param("sub", "../out/new", False, id="a relative root inside"),
        pytest.param("dangling", "dangling", False, id="a root that leads nowhere"),
        pytest.param(" ", "../new", False, id="a blank root"),
        pytest.param("/", "../new", True, id="everything, when it is said"),
    ],
)
def test_only_an_absolute_root_permits_a_place_elsewhere(
    cwd: Path, allowed: str, text: str, permitted: bool
) -> None:
    roots = paths.roots(cwd, [allowed.format(tmp=cwd.parent)])
    if permitted:
        assert paths.inside(cwd, roots, text) == Path(os.path.realpath(cwd / text))
        return
    with pytest.raises(paths.Escape):
        paths.inside(cwd, roots, text)


def test_many_links_are_followed_and_not_without_end(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    for number in range(1, 60):
        (tmp_path / str(number)).symlink_to(str(number - 1))
    assert paths.resolve(tmp_path / "30" / "x") == tmp_path / "0" / "x"
    with pytest.raises(paths.Escape, match="leads nowhere"):
        paths.resolve(tmp_path / "59")


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        *((name, True) for name in ("a", "task-1", "A_b.c-d", "_x", "0", "x" * 200)),
        pytest.param("", False, id="nothing"),
        pytest.param(".", False, id="the folder itself"),
        pytest.param("..", False, id="the folder above"),
        pytest.param(".hidden", False, id="a dot first"),
        pytest.param("-rf", False, id="a dash first"),
        pytest.param("a/b", False, id="a slash"),
        pytest.param("a\\b", False, id="a backslash"),
        pytest.param("a b", False, id="a blank"),
        pytest.param("a\n", False, id="a line end last"),
        pytest.param("a\0", False, id="a NUL"),
        pytest.param("é", False, id="a letter that file systems spell in two ways"),
        pytest.param("a.", False, id="a dot last"),
        pytest.param("CON", False, id="a device"),
        pytest.param("nul.txt", False, id="a device with an ending"),
        pytest.param("lpt9", False, id="a numbered device"),
        pytest.param("x" * 201, False, id="too long"),
        pytest.param("console", True, id="only begins like a device"),
    ],
)
def test_an_identifier_is_one_safe_name(name: str, safe: bool) -> None:
    assert (paths.unsafe_name(name) is None) == safe


def test_a_regular_file_is_no_link(cwd: Path) -> None:
    names = ("file", "out-file", "sub", "dangling", "new")
    assert [name for name in names if paths.is_regular(cwd / name)] == ["file"]
