"""Nothing that stands in a git configuration runs, hides a change or alters a byte."""

from __future__ import annotations

from pathlib import Path

import pytest
from waybill.base import git
from waybill.tree.rebuild import Workshop, find
from workplace import Place, fingerprint, listing

PROGRAMS = [
    "core.fsmonitor",
    "core.pager",
    "core.editor",
    "core.sshCommand",
    "core.askPass",
    "core.alternateRefsCommand",
    "diff.external",
    "diff.marked.command",
    "diff.marked.textconv",
    "filter.marked.clean",
    "filter.marked.smudge",
    "filter.marked.process",
    "merge.marked.driver",
    "pager.diff-tree",
    "alias.add",
    "alias.rev-parse",
    "credential.helper",
    "gpg.program",
    "uploadpack.packObjectsHook",
]
SETTINGS = {
    "color.ui": "always",
    "color.diff": "always",
    "core.quotePath": "true",
    "core.autocrlf": "true",
    "core.eol": "crlf",
    "core.safecrlf": "true",
    "core.ignoreCase": "true",
    "core.symlinks": "false",
    "core.ignoreStat": "true",
    "core.trustctime": "false",
    "core.checkStat": "minimal",
    "core.protectNTFS": "true",
    "core.preloadIndex": "false",
    "core.splitIndex": "true",
    "core.untrackedCache": "true",
    "core.whitespace": "trailing-space,cr-at-eol",
    "apply.whitespace": "error",
    "apply.ignoreWhitespace": "change",
    "add.ignoreErrors": "false",
    "diff.noprefix": "true",
    "diff.mnemonicPrefix": "true",
    "diff.renames": "copies",
    "diff.context": "0",
    "diff.interHunkContext": "9",
    "diff.algorithm": "patience",
    "diff.submodule": "log",
    "diff.ignoreSubmodules": "all",
    "diff.orderFile": "/dev/null",
    "diff.suppressBlankEmpty": "true",
    "diff.wordRegex": ".",
    "diff.relative": "true",
    "status.showUntrackedFiles": "no",
    "status.renames": "copies",
    "index.version": "4",
    "feature.manyFiles": "true",
    "advice.addEmbeddedRepo": "true",
}


def plant(place: Place, config: Path) -> Path:
    """Programs under every key that names one; each leaves its name in the marker folder."""
    markers = place.root / "markers"
    markers.mkdir(exist_ok=True)
    for key in PROGRAMS:
        program = place.root / f"program-{key}"
        program.write_text(f"#!/bin/sh\n: > '{markers / key}'\ncat\n")
        program.chmod(0o755)
        value = f"!{program}" if key.startswith("alias") else str(program)
        place.git("config", "--file", str(config), key, value)
    hooks = place.root / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("post-index-change", "pre-applypatch", "post-checkout", "reference-transaction"):
        (hooks / hook).write_text(f"#!/bin/sh\n: > '{markers / hook}'\n")
        (hooks / hook).chmod(0o755)
    place.git("config", "--file", str(config), "core.hooksPath", str(hooks))
    place.git("config", "--file", str(config), "filter.marked.required", "true")
    return markers


def change(place: Place) -> None:
    place.write("a.txt", b"one\r\ntwo\r\nthree\n")
    place.write("d/x", "$Id$\n")
    place.write("d/y", "y \n")
    place.write("wide.txt", "größe\n".encode("utf-16"))
    place.write("b.bin", b"\0\n\r\n" * 99)
    place.write("new.txt", b"n\r\n")
    place.write("NEW.txt", b"other case\n")
    (place.top / "run.sh").chmod(0o644)
    (place.top / "link").unlink()
    (place.top / "link").symlink_to("d")


EXPECTED = ["A NEW.txt", "M a.txt", "M b.bin", "M d/x", "M d/y", "M link", "A new.txt"]
EXPECTED += ["M run.sh", "A wide.txt"]


@pytest.mark.parametrize("where", ["repository", "home"])
def test_planted_settings_neither_run_nor_change_a_byte(place: Place, where: str) -> None:
    plain = place.trip(lambda: None)
    place.write(
        ".gitattributes",
        "[attr]mine filter=marked\n"
        "* filter=marked diff=marked merge=marked ident text=auto\n"
        "*.txt text eol=crlf mine\n"
        "wide.txt working-tree-encoding=UTF-16\n"
        "*.bin diff text -binary\n",
    )
    place.commit()
    config = place.top / ".git/config" if where == "repository" else place.home / ".gitconfig"
    markers = plant(place, config)
    for key, value in SETTINGS.items():
        place.git("config", "--file", str(config), key, value)
    attributes = place.home / "attributes"
    attributes.write_text("* filter=marked\n")
    place.git("config", "--file", str(config), "core.attributesFile", str(attributes))
    untouched = fingerprint(place.top / ".git")
    trip = place.trip(lambda: change(place))
    assert list(markers.iterdir()) == []
    assert fingerprint(place.top / ".git") == untouched
    assert trip.paths == EXPECTED
    assert trip.files == listing(place.top)
    assert trip.warnings == []
    assert trip.base_patch == plain.base_patch == b""
    assert trip.work_patch.startswith(b"diff --git a/NEW.txt b/NEW.txt\nnew file mode 100644\n")
    assert b"\x1b" not in trip.work_patch
    assert b"GIT binary patch" in trip.work_patch


def test_the_planted_programs_do_run_when_plain_git_is_asked(place: Place) -> None:
    markers = plant(place, place.top / ".git/config")
    place.write(".gitattributes", "* filter=marked diff=marked\n")
    place.write("a.txt", "changed\n")
    place.git("config", "--unset", "filter.marked.process")
    place.git("diff")
    place.git("add", "d/x", "a.txt")
    ran = {path.name for path in markers.iterdir()}
    assert {"core.fsmonitor", "filter.marked.clean"} <= ran


def test_a_patch_is_the_same_whatever_is_configured(place: Place) -> None:
    patches = []
    for config in ({}, SETTINGS):
        for key, value in config.items():
            place.git("config", key, value)
        change(place)
        patches.append(place.trip(lambda: (place.top / "a.txt").unlink()).work_patch)
        place.git("-c", "core.autocrlf=false", "checkout", "-q", "-f", "HEAD", "--", "a.txt")
    assert patches[0] == patches[1]


def test_a_file_mode_is_recorded_where_git_is_told_to_ignore_it(place: Place) -> None:
    place.git("config", "core.fileMode", "false")
    trip = place.trip(lambda: (place.top / "a.txt").chmod(0o755))
    assert [change.new_mode for change in trip.changes] == ["100755"]


@pytest.mark.parametrize("where", ["repository", "home", "default", "xdg", "info", "file"])
def test_the_users_ignore_rules_hold(place: Place, where: str) -> None:
    rules = {
        "repository": place.home / "rules",
        "home": place.home / "rules",
        "default": place.home / ".config/git/ignore",
        "xdg": place.home / "elsewhere/git/ignore",
        "info": place.top / ".git/info/exclude",
        "file": place.top / ".gitignore",
    }[where]
    env = dict(place.env)
    rules.parent.mkdir(parents=True, exist_ok=True)
    rules.write_text("*.log\nbuild/\n")
    if where == "repository":
        place.git("config", "core.excludesFile", str(rules))
    elif where == "home":
        place.git("config", "--global", "core.excludesFile", "~/rules")
    elif where == "xdg":
        env["XDG_CONFIG_HOME"] = str(place.home / "elsewhere")

    def change() -> None:
        place.write("x.log", "l\n")
        place.write("d/deep.log", "l\n")
        place.write("build/a/b", "b\n")
        place.write("only/x.log", "l\n")
        place.write("kept", "k\n")

    trip = place.trip(change, env=env)
    assert trip.paths == ["A kept"]
    assert trip.ignored == ["build/", "d/deep.log", "only/", "x.log"]


def test_a_tracked_file_is_not_ignored(place: Place) -> None:
    place.write(".gitignore", "*.log\n")
    place.write("x.log", "l\n")
    place.commit()
    trip = place.trip(lambda: place.write("x.log", "changed\n"))
    assert trip.paths == ["M x.log"]
    assert trip.ignored == []


def test_the_list_of_ignored_paths_is_bounded(place: Place) -> None:
    place.write(".gitignore", "*.log\n")
    for number in range(1100):
        place.write(f"{number:04}.log", "")
    with Workshop(find(place.top, place.env), place.root / "s", env=place.env) as shop:
        ignored = shop.ignored()
    assert (len(ignored), ignored[-1]) == (1000, "0999.log")


@pytest.mark.parametrize("name", ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "all"])
def test_inherited_variables_do_not_lead_to_another_repository(place: Place, name: str) -> None:
    victim = Place(place.root / "v")
    victim.init()
    victim.write("precious", "p\n")
    victim.commit()
    inherited = {
        "GIT_DIR": str(victim.top / ".git"),
        "GIT_COMMON_DIR": str(victim.top / ".git"),
        "GIT_WORK_TREE": str(victim.top),
        "GIT_INDEX_FILE": str(victim.top / ".git/index"),
        "GIT_OBJECT_DIRECTORY": str(victim.top / ".git/objects"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(victim.top / ".git/objects"),
        "GIT_NAMESPACE": "n",
        "GIT_PREFIX": "d/",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_EXTERNAL_DIFF": "/bin/false",
        "GIT_DIFF_OPTS": "--unified=0",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.worktree",
        "GIT_CONFIG_VALUE_0": str(victim.top),
        "GIT_CONFIG_PARAMETERS": "'core.bare=true'",
        "GIT_CEILING_DIRECTORIES": str(place.root),
        "GIT_TRACE": "1",
    }
    env = dict(place.env)
    env |= inherited if name == "all" else {name: inherited[name]}
    untouched = fingerprint(victim.root)
    trip = place.trip(lambda: place.write("new", "n\n"), cwd=place.top / "d", env=env)
    assert trip.paths == ["A new"]
    assert fingerprint(victim.root) == untouched


def test_gits_environment_is_made_plain() -> None:
    made = git.environment({"GIT_DIR": "/x", "LC_ALL": "de_DE", "LANG": "de_DE", "A": "b"})
    assert made == {
        "A": "b",
        "LANG": "de_DE",
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
    }
