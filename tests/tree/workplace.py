"""A place with a home, git settings and repositories of its own, whatever the machine has."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from waybill.tree.rebuild import Change, Workshop, find, rebuild

STAMP = "2024-01-02T03:04:05Z"


@dataclass
class Trip:
    """What a run from a base to a result gave, once the patches had given the same."""

    base: str
    result: str
    changes: list[Change]
    warnings: list[str]
    ignored: list[str]
    base_patch: bytes
    work_patch: bytes
    files: dict[str, tuple[str, bytes]]

    @property
    def paths(self) -> list[str]:
        return [f"{change.status} {change.path}" for change in self.changes]


class Place:
    def __init__(self, root: Path, object_format: str = "sha1") -> None:
        self.root = root
        self.top = root / "repo"
        self.home = root / "home"
        self.object_format = object_format
        self.home.mkdir(parents=True)
        self.top.mkdir()
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "A",
            "GIT_AUTHOR_EMAIL": "a@example.org",
            "GIT_AUTHOR_DATE": STAMP,
            "GIT_COMMITTER_NAME": "C",
            "GIT_COMMITTER_EMAIL": "c@example.org",
            "GIT_COMMITTER_DATE": STAMP,
        }
        self.trips = 0

    def git(self, *arguments: str, at: Path | None = None, stdin: bytes = b"") -> str:
        done = subprocess.run(
            ["git", "-c", "protocol.file.allow=always", *arguments],
            cwd=at or self.top,
            env=self.env,
            input=stdin,
            capture_output=True,
        )
        assert done.returncode == 0, (arguments, done.stderr.decode(errors="replace"))
        return os.fsdecode(done.stdout)

    def init(self, at: Path | None = None) -> None:
        self.git("init", "-q", "-b", "main", f"--object-format={self.object_format}", at=at)

    def commit(self, *, at: Path | None = None) -> str:
        self.git("add", "-A", "-f", at=at)
        self.git("commit", "-q", "--allow-empty", "-m", "m", at=at)
        return self.git("rev-parse", "HEAD", at=at).strip()

    def write(self, path: str | bytes, content: str | bytes = "", mode: int = 0o644) -> Path:
        target = self.top / os.fsdecode(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        target.chmod(mode)
        return target

    def trip(
        self,
        change: Callable[[], object],
        *,
        cwd: Path | None = None,
        exclude: Iterable[Path] = (),
        env: dict[str, str] | None = None,
    ) -> Trip:
        """Snapshot, change, snapshot; then make the result again from the stored patches."""
        self.trips += 1
        work = self.root / f"trip-{self.trips}"
        work.mkdir()
        repository = find(cwd or self.top, env or self.env)
        top = Path(repository.top)
        git_dir = Path(repository.git_dir) if repository.git_dir else top / "no-repository"
        with Workshop(repository, work / "scratch", list(exclude), env=env or self.env) as shop:
            untouched = fingerprint(git_dir)
            base = shop.snapshot()
            assert fingerprint(git_dir) == untouched
            change()
            untouched = fingerprint(git_dir)
            result = shop.snapshot()
            patches = [work / "base.patch", work / "work.patch"]
            for patch, (old, new) in zip(
                patches, [(repository.base_commit, base), (base, result)], strict=True
            ):
                with patch.open("wb") as file:
                    shop.patch(old, new, file.fileno())
            changes, ignored = shop.changed(base, result), shop.ignored()
            assert fingerprint(git_dir) == untouched
        assert not (work / "scratch").exists()
        common = Path(repository.common_dir) if repository.common_dir else None
        again = rebuild(
            common,
            repository.base_commit,
            patches,
            work / "rebuild",
            object_format=repository.object_format,
            checkout=work / "out",
            env=self.env,
        )
        assert again == result
        assert not (work / "rebuild").exists()
        assert fingerprint(git_dir) == untouched
        return Trip(
            base,
            result,
            changes,
            shop.warnings,
            ignored,
            patches[0].read_bytes(),
            patches[1].read_bytes(),
            listing(work / "out"),
        )


def fingerprint(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file below a folder, with mode, time and content. Objects are without their time:
    git renews that of one that it would otherwise have written."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        time = 0 if "objects" in path.parts else status.st_mtime_ns
        found[str(path)] = (status.st_mode, time, content)
    return found


def listing(folder: Path) -> dict[str, tuple[str, bytes]]:
    """The files of a tree as they stand: kind and content (the target of a link); no `.git`."""
    found = {}
    for place, folders, files in os.walk(folder):
        for name in [*files, *folders]:
            path = Path(place, name)
            relative = str(path.relative_to(folder))
            if path.is_symlink():
                found[relative] = ("link", os.fsencode(path.readlink()))
            elif path.is_file() and name != ".git":
                kind = "program" if path.stat().st_mode & 0o100 else "file"
                found[relative] = (kind, path.read_bytes())
        folders[:] = [name for name in folders if name != ".git"]
    return found
