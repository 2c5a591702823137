"""Where a run works: the repository around a folder, or the folder alone.

Looked up with commands that start nothing of what the repository's configuration names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from waybill.base import exits, git
from waybill.base.exits import Fault, fault

# rev-parse prints one answer a line, and a path may hold a line feed: an answer that can only
# be "true" or "false" stands after each path and shows where it ends.
_QUESTIONS = (
    *("--show-toplevel", "--is-inside-work-tree"),
    *("--absolute-git-dir", "--is-inside-work-tree"),
    *("--git-common-dir", "--is-inside-work-tree"),
    "--show-object-format",
    # An unborn head ends the list here; one that names a missing commit gives the first only.
    *("--revs-only", "HEAD", "HEAD^{commit}"),
)
_ANSWERS = re.compile(
    rb"(?P<top>.+)\n(?:true|false)\n(?P<git>.+)\n(?:true|false)\n(?P<common>.+)\n(?:true|false)\n"
    rb"(?P<format>sha1|sha256)\n"
    rb"(?:(?P<head>[0-9a-f]{40,64})\n)?(?:(?P<commit>[0-9a-f]{40,64})\n)?",
    re.DOTALL,
)


@dataclass(frozen=True)
class Repository:
    """A working tree. Paths are absolute and hold no link.

    `kind` is `git` or `folder`; a folder has no git dir and no base commit, an unborn head has
    no base commit. `git_dir` is that of this working tree, `common_dir` holds the objects (two
    folders in a linked worktree). `object_format` is `sha1` or `sha256`. `excludes_file` is
    the user's own ignore file, which need not exist.
    """

    kind: str
    top: str
    git_dir: str | None
    common_dir: str | None
    base_commit: str | None
    object_format: str = "sha1"
    excludes_file: str | None = None

    def below(self, paths: Iterable[Path]) -> set[bytes]:
        """Those of the absolute paths that lie under the top, relative to it. A path that is a
        link counts both where it stands and where it leads.

        Fault `config_error` for a path that holds the whole working tree.
        """
        found = set()
        for path in paths:
            stands = str(Path(os.path.realpath(path.parent), path.name))
            for real in {stands, os.path.realpath(path)}:
                if os.path.commonpath([self.top, real]) == real:
                    message = f"holds the whole working tree {self.top}"
                    raise fault("config_error", str(path), message)
                relative = os.path.relpath(real, self.top)
                if relative.split(os.sep)[0] != os.pardir:
                    found.add(os.fsencode(relative))
        return found


def find(cwd: Path, env: Mapping[str, str]) -> Repository:
    """The repository around `cwd`, or the folder itself where there is none.

    Fault `config_error`, with git's own sentence, for a bare or broken repository and for one
    that git does not trust because of its owner.
    """
    here = os.path.realpath(cwd)
    if not Path(here).is_dir():
        raise Fault(exits.NOINPUT, str(cwd), "not a folder")
    done = git.run(["rev-parse", *_QUESTIONS], cwd=Path(here), env=env)
    if done.exit_code != 0:
        said = git.sentence(done)
        if not said.startswith("not a git repository (or any") or _broken(here):
            raise fault("config_error", str(cwd), said)
        return Repository("folder", here, None, None, None, "sha1", _excludes_file(here, env))
    found = _ANSWERS.fullmatch(done.stdout)
    if found is None:
        raise fault("config_error", str(cwd), "git describes this repository in an unknown form")
    if found["head"] and not found["commit"]:
        raise fault("config_error", str(cwd), "HEAD names a commit that the repository has not")
    top = os.path.realpath(os.fsdecode(found["top"]))
    if os.path.commonpath([top, here]) != top:
        raise fault("config_error", str(cwd), f"core.worktree puts the working tree at {top}")
    return Repository(
        "git",
        top,
        os.path.realpath(os.fsdecode(found["git"])),
        os.path.realpath(Path(here, os.fsdecode(found["common"]))),
        found["commit"].decode() if found["commit"] else None,
        found["format"].decode(),
        _excludes_file(here, env),
    )


def _broken(here: str) -> bool:
    """Whether git passed over a `.git` that it should have found: it says only that there is
    none. An empty folder of that name is not one; sandboxes leave such folders behind."""
    device = Path(here).stat().st_dev
    for folder in (Path(here), *Path(here).parents):
        if folder.stat().st_dev != device:
            return False
        inner = folder / ".git"
        if inner.is_dir():
            if any(inner.iterdir()):
                return True
        elif os.path.lexists(inner):
            return True
    return False


def _excludes_file(here: str, env: Mapping[str, str]) -> str | None:
    done = git.run(
        ["config", "--get", "--null", "--type=path", "core.excludesFile"], cwd=Path(here), env=env
    )
    if done.exit_code == 0:
        return os.fsdecode(done.stdout.removesuffix(b"\0"))
    if done.exit_code != 1:
        raise fault("config_error", here, git.sentence(done))
    if env.get("XDG_CONFIG_HOME"):
        return str(Path(env["XDG_CONFIG_HOME"], "git", "ignore"))
    return str(Path(env["HOME"], ".config", "git", "ignore")) if env.get("HOME") else None
