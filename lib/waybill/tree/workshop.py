"""Trees of a working tree, made while nobody else's git dir is touched.

A snapshot holds what a person would call the state of the files: uncommitted, staged and
untracked content, without what is ignored. Where git's own `add` would leave something out
or follow the repository's settings, the private index is corrected first:

- bits of the user's index that hide changes are dropped, absent sparse entries stay;
- a submodule is recorded by its commit alone, without asking git about its files (git would
  run its configured filters), and one with changed files is named;
- an embedded repository's files are taken as ordinary files;
- the excluded paths keep the entries of the base commit.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from waybill.base import exits, git
from waybill.base.exits import Fault, fault
from waybill.tree.annex import Annex
from waybill.tree.change import Change
from waybill.tree.entries import Entries, drop, examine, put
from waybill.tree.repository import Repository, find
from waybill.tree.survey import STRAY, Survey, beyond_link, parents, survey

MOST_IGNORED = 1000  # paths that a list of ignored ones may have

_LISTING = ("ls-files", "-v", "--stage", "-z")
_TRIES = 3  # a file that goes or grows while git reads it makes one `add` fail


class Workshop:
    """The trees of one working tree, from before a run to after it; a context manager.

    `scratch` is a folder for the private git dir, removed at the end; `exclude` are absolute
    paths that are in no tree (files or folders of ours). The ignore rules outside the working
    tree and the user's index are read when the workshop opens. Trees exist as long as it does.
    `warnings` names what a tree does not hold, each thing once.
    """

    def __init__(
        self,
        repository: Repository,
        scratch: Path,
        exclude: Sequence[Path] = (),
        *,
        env: Mapping[str, str] | None = None,
        limit: float = git.LIMIT,
    ) -> None:
        self.repository = repository
        self.warnings: list[str] = []
        self._scratch = scratch
        self._env = os.environ if env is None else env
        self._limit = limit
        self._outside = [*exclude, scratch]
        self._top = os.fsencode(repository.top)
        self._excluded = repository.below(self._outside)
        self._entries = Entries()
        self._started = False
        common = None if repository.common_dir is None else Path(repository.common_dir)
        excludes = repository.excludes_file
        self._annex = Annex(
            scratch,
            repository.top,
            objects=None if common is None else common / "objects",
            object_format=repository.object_format,
            env=self._env,
            settings=[] if excludes is None else [f"core.excludesFile={excludes}"],
            limit=limit,
        )
        if common is not None:
            self._annex.take(common / "info/exclude", "info/exclude")

    def __enter__(self) -> Workshop:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the private git dir, and the scratch folder when nothing else is in it."""
        self._annex.close()

    def snapshot(self) -> str:
        """The tree id of the working tree as it is now."""
        self._start()
        entries = self._entries
        seen = survey(self._top, self._excluded, entries.gitlinks)
        left_out = {*self._excluded, *entries.gitlinks, *seen.odd}
        if seen.empty_stray and not self._base_entries([STRAY]):
            left_out.add(STRAY)
            entries.edits.append(self._drop(STRAY))
            self._warn(STRAY, "an empty file that Codex leaves behind; not in the tree")
        self._correct(seen)
        self._record_submodules(seen)
        self._add(left_out)
        return self._annex.write_tree()

    def ignored(self) -> list[str]:
        """Untracked paths that the ignore rules leave out, the first MOST_IGNORED of them; a
        folder of which everything is left out is one path that ends with a slash."""
        self._start()
        listing = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"]
        found = self._annex.read(*listing, "--", *map(os.fsdecode, self._all_but(self._excluded)))
        kept: list[bytes] = []
        for path in sorted(filter(None, found.split(b"\0"))):
            if not (kept and kept[-1].endswith(b"/") and path.startswith(kept[-1])):
                kept.append(path)
            if len(kept) > MOST_IGNORED:
                break
        return [git.name(path) for path in kept[:MOST_IGNORED]]

    def patch(self, old: str | None, new: str, out_fd: int) -> None:
        """Write the complete binary patch from `old` (a commit or tree; None: the empty tree)
        to `new` to a descriptor."""
        self._annex.patch(old, new, out_fd)

    def changed(self, old: str | None, new: str) -> list[Change]:
        """The paths that differ between two trees or commits."""
        return self._annex.changed(old, new)

    def base_tree_of_commit(self, commit: str) -> str:
        """The tree id of a commit."""
        return self._annex.tree_of(commit)

    def replay(self, patches: Sequence[Path]) -> str:
        """The tree that patches make of the base commit; it can be compared with a snapshot."""
        return self._annex.build(self.repository.base_commit, patches)

    def _warn(self, path: bytes, text: str) -> None:
        line = f"{git.name(path)}: {text}"
        if line not in self.warnings:
            self.warnings.append(line)

    def _start(self) -> None:
        """Begin with the user's index, whose file times save reading unchanged files again."""
        if self._started:
            return
        theirs = None if self.repository.git_dir is None else Path(self.repository.git_dir)
        listing = None
        if theirs is not None and self._annex.take(theirs / "index", "index"):
            for shared in theirs.glob("sharedindex.*"):
                self._annex.take(shared, shared.name)
            done = self._annex.run(*_LISTING)
            if done.exit_code == 0:
                listing = done.stdout
            else:
                self.warnings.append(f"the index was not used: {git.sentence(done)}")
                (self._annex.folder / "index").unlink()
        if listing is None and self.repository.base_commit is not None:
            self._annex.read("read-tree", self.repository.base_commit)
            listing = self._annex.read(*_LISTING)
        self._entries = examine(listing or b"", self._excluded)
        if self._entries.excluded:
            self._entries.edits += map(self._drop, sorted(self._entries.excluded))
            self._entries.edits += self._base_entries(self._excluded)
        self._started = True

    def _base_entries(self, paths: Iterable[bytes]) -> list[bytes]:
        """The edits that put in again what the base commit has at or under some paths."""
        if self.repository.base_commit is None:
            return []
        literal = [os.fsdecode(b":(top,literal)" + path) for path in sorted(paths)]
        listing = ("ls-tree", "-r", "-z", "--full-tree", self.repository.base_commit, "--")
        found = self._annex.read(*listing, *literal)
        return [entry + b"\0" for entry in found.split(b"\0")[:-1]]

    def _correct(self, seen: Survey) -> None:
        """Put the corrections into the private index."""
        edits, self._entries.edits = self._entries.edits, []
        sparse = self._entries.sparse
        for path in [path for path in sparse if os.path.lexists(os.path.join(self._top, path))]:
            edits.append(sparse.pop(path))
        ignored = self._among_ignored([*seen.embedded, *seen.odd])
        for path, kind in seen.odd.items():
            edits.append(self._drop(path))
            if path not in ignored:
                self._warn(path, f"{kind}; not in the tree")
        for path in seen.embedded:
            if path not in ignored:
                # git goes into a folder that it knows a file of, and takes a repository that
                # it knows nothing of for a submodule. No such file exists: `add` drops it.
                blob = self._annex.no_object.replace("0", "1").encode()
                edits.append(put(b"100644", blob, path + b"/.waybill-entered"))
                self._warn(path, "a repository of its own; its files are taken without its history")
        for path in seen.closed:
            self._warn(path, "a folder that cannot be read; its files are as before")
        if edits:
            self._annex.read("update-index", "-z", "--index-info", stdin=b"".join(edits))

    def _among_ignored(self, paths: list[bytes]) -> set[bytes]:
        if not paths:
            return set()
        done = self._annex.run("check-ignore", "-z", "--stdin", stdin=b"\0".join(paths) + b"\0")
        if done.exit_code not in (0, 1):
            raise Fault(exits.PROTOCOL, "git check-ignore", git.sentence(done))
        return set(done.stdout.split(b"\0"))

    def _record_submodules(self, seen: Survey) -> None:
        for path in seen.hollow:
            self._warn(path, "a submodule without a repository; its files are not in the tree")
        for path in seen.submodules:
            self._look_into(path)
        known = [
            path
            for path in sorted(self._entries.gitlinks)
            if path not in seen.odd and not beyond_link(self._top, path)
        ]
        if known:
            listing = b"".join(path + b"\0" for path in known)
            self._annex.read("update-index", "--add", "--remove", "-z", "--stdin", stdin=listing)

    def _look_into(self, path: bytes) -> None:
        """Name a submodule whose files are not those of its commit. Its own git dir is as
        little trusted as the outer one, so it gets a workshop of its own."""
        folder = os.fsdecode(os.path.join(self._top, path))
        try:
            found = find(Path(folder), self._env)
            if found.top != folder:
                raise fault("config_error", folder, "not a repository of its own")
            scratch = self._scratch / "submodule"
            with Workshop(found, scratch, self._outside, env=self._env, limit=self._limit) as inner:
                tree = inner.snapshot()
                commit = found.base_commit
                clean = commit is not None and inner.base_tree_of_commit(commit) == tree
            for line in inner.warnings:
                self._warn(path, line)
        except Fault as error:
            self._warn(path, f"a submodule that cannot be compared: {error.message}")
            return
        if not clean:
            self._warn(path, "a submodule with uncommitted changes; they are not in the patch")

    def _add(self, left_out: set[bytes]) -> None:
        given = b"".join(pathspec + b"\0" for pathspec in self._all_but(left_out))
        arguments = ["--all", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul"]
        for _ in range(_TRIES):
            done = self._annex.run("add", *arguments, stdin=given)
            if done.exit_code == 0:
                return
        if done.exit_code != 1:
            raise Fault(exits.PROTOCOL, "git add", git.sentence(done))
        for line in done.stderr.splitlines():
            if line.startswith(b"error: "):
                text = f"git: {line[7:].decode(errors='backslashreplace')}"
                if text not in self.warnings:
                    self.warnings.append(text)

    def _all_but(self, left_out: set[bytes]) -> list[bytes]:
        """The pathspecs of everything but some paths. git refuses to hear of a path that lies
        beyond a link or in a submodule, and would not go there."""
        named = [b":(top)"]
        for path in sorted(left_out):
            if left_out.isdisjoint(parents(path)) and not beyond_link(self._top, path):
                named.append(b":(exclude,top,literal)" + path)
        return named

    def _drop(self, path: bytes) -> bytes:
        return drop(path, self._annex.no_object)
