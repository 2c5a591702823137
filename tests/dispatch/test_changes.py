"""What a run changed: from the tree before to the tree after, whatever git status would say."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any


def play(project: Any, packet: Any, standin: Any, edit: str, *words: str, **changes: Any) -> Any:
    codex = standin(edit=edit)
    return project.run("dispatch", "--codex", codex.path, *words, stdin=packet(changes))


def applied(project: Any) -> Path:
    """A clone with both patches applied."""
    path: Path = project.root / "applied"
    project.git("clone", "-q", str(project.top), str(path))
    project_base = project.record()["tree"]["base_commit"]
    for words in (["checkout", "-q", project_base], *(
        ["apply", "--allow-empty", str(project.folder() / name)]
        for name in ("base.patch", "work.patch")
    )):  # fmt: skip
        subprocess.run(["git", *words], cwd=path, env=project.env, check=True)
    return path


def test_dirt_that_was_there_before_is_not_the_workers(
    project: Any, packet: Any, standin: Any
) -> None:
    project.write("README", "dirty\n")
    project.write("untracked.txt", "x\n")
    project.write("staged.txt", "x\n")
    project.git("add", "staged.txt")
    before = project.git("status", "--short")
    done = play(project, packet, standin, "echo more >> untracked.txt; rm staged.txt")
    assert (done.status, done.json["changed_files"]) == (0, ["staged.txt", "untracked.txt"])
    path = applied(project)
    assert (path / "README").read_text() == "dirty\n"
    assert (path / "untracked.txt").read_text() == "x\nmore\n"
    assert not (path / "staged.txt").exists()
    assert project.git("status", "--short").splitlines()[0] == before.splitlines()[0]


def test_work_that_the_worker_committed_is_in_the_patch(
    project: Any, packet: Any, standin: Any
) -> None:
    done = play(project, packet, standin, "echo x > a.txt; git add a.txt; git -c user.name=a"
                " -c user.email=a@b commit -qm c; echo y > b.txt")  # fmt: skip
    assert (done.status, done.json["changed_files"]) == (0, ["a.txt", "b.txt"])
    assert (applied(project) / "a.txt").read_text() == "x\n"


def test_odd_names_are_told_as_they_are(project: Any, packet: Any, standin: Any) -> None:
    names = ["a -> b", "sp ace", "é.txt", 'quo"te', "tab\there"]
    edit = "; ".join(f"echo x > '{name}'" for name in names)
    done = play(project, packet, standin, edit)
    assert done.json["changed_files"] == sorted(names)


def test_modes_links_binaries_and_deletions_are_changes(
    project: Any, packet: Any, standin: Any
) -> None:
    edit = "chmod -x check; ln -s README link; printf '\\0\\1' > bin; rm README; mkdir empty"
    done = play(project, packet, standin, edit)
    assert done.json["changed_files"] == ["README", "bin", "check", "link"]
    rows = {row["path"]: row["status"] for row in project.record()["patch"]["files"]}
    assert rows == {"README": "D", "bin": "A", "check": "M", "link": "A"}
    path = applied(project)
    assert (path / "bin").read_bytes() == b"\0\1" and (path / "link").is_symlink()


def test_our_own_files_and_known_strays_are_in_no_patch(
    project: Any, packet: Any, standin: Any
) -> None:
    names = {
        "output.jsonl_path": "out/events.jsonl",
        "output.receipt_path": "out/receipt.json",
        "evidence.receipt_path": "out/receipt.json",
    }
    done = play(project, packet, standin, "echo x > made.txt", **names)
    assert (done.status, done.json["changed_files"]) == (0, ["made.txt"])
    assert (project.top / "out" / "receipt.json").exists()


def test_in_a_linked_worktree_the_change_is_taken_from_its_files(
    project: Any, packet: Any, standin: Any
) -> None:
    other = project.root / "linked"
    project.git("worktree", "add", "-q", str(other))
    done = play(project, packet, standin, "echo x > made.txt", cwd=str(other))
    assert (done.status, done.json["changed_files"]) == (0, ["made.txt"])
    receipt = other / ".codex" / "runs" / "t1"
    tree = json.loads((receipt / "run.json").read_text())["tree"]
    assert tree["top"] == str(other)
    assert tree["git_dir"] == str(project.top / ".git" / "worktrees" / "linked")


def test_a_worker_that_breaks_the_repository_loses_nothing(
    project: Any, packet: Any, standin: Any
) -> None:
    done = play(project, packet, standin, "echo x > made.txt; rm .git/index; echo junk > .git/HEAD")
    assert done.json["changed_files"] == ["made.txt"]
    assert "+x" in (project.folder() / "work.patch").read_text()


def test_the_users_repository_gets_nothing_from_a_run(
    project: Any, packet: Any, standin: Any
) -> None:
    def kept() -> dict[str, bytes]:
        git = project.top / ".git"
        return {str(p): p.read_bytes() for p in git.rglob("*") if p.is_file()}

    before = kept()
    done = play(project, packet, standin, "echo x > made.txt")
    assert (done.status, kept() == before) == (0, True)


def test_a_hook_or_a_filter_that_the_worker_configures_never_runs(
    project: Any, packet: Any, standin: Any
) -> None:
    mark = project.root / "ran"
    edit = (
        f"git config core.fsmonitor 'touch {mark}';"
        f" git config filter.x.clean 'touch {mark}; cat'; git config filter.x.required true;"
        f" git config diff.external 'touch {mark}'; git config core.pager 'touch {mark}';"
        " echo '* filter=x diff=x' > .gitattributes;"
        f" git config diff.x.textconv 'touch {mark}'; echo x > made.txt"
    )
    done = play(project, packet, standin, edit)
    assert (done.status, done.json["changed_files"]) == (0, [".gitattributes", "made.txt"])
    assert not mark.exists()
