"""A git dir of our own beside somebody's objects.

Trees are made and compared here, so that nothing is added to the repository that they come
from, and nothing that its configuration or attributes name (filters, monitors, hooks, external
and textual diffs) is run. Content is taken and given byte for byte. The one trace is that git
renews the time of an object there that it would else have written here.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from waybill.base import exits, files, git
from waybill.base.exits import Fault
from waybill.base.process import Finished
from waybill.tree.change import Change, read_changes, unambiguous

_CONFIG = """\
[core]
\tbare = false
\tfilemode = true
\tsymlinks = true
\tignorecase = false
\tprecomposeunicode = false
\tprotectNTFS = false
\tprotectHFS = false
\ttrustctime = true
\tcheckStat = default
\tautocrlf = false
\tsafecrlf = false
\tsparseCheckout = false
\tsplitIndex = false
\tuntrackedCache = false
\tfsync = none
\tattributesFile = /dev/null
[advice]
\taddEmbeddedRepo = false
[gc]
\tauto = 0
"""

# `-attr` is "false", which working-tree-encoding takes for an error: that one is made
# unspecified. So is diff, else a .gitattributes could have a binary file printed as text.
_ATTRIBUTES = "* -text -eol -ident -filter !working-tree-encoding !diff\n"

_PATCH = (
    *("--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv"),
    *("--no-color", "--src-prefix=a/", "--dst-prefix=b/", "--unified=3"),
)
# Without this, a .gitmodules that says `ignore = all` hides the change of a submodule.
_COMPARE = ("diff-tree", "-r", "--ignore-submodules=none")


class Annex:
    """A private git dir in the folder `scratch`, made anew, working on the files under `top`.

    `objects` is the object folder that is read from, or None. `settings` are more `name=value`
    for `git -c`, `limit` is in seconds for each call of git.
    """

    def __init__(
        self,
        scratch: Path,
        top: str,
        *,
        objects: Path | None,
        object_format: str,
        env: Mapping[str, str],
        settings: Sequence[str] = (),
        limit: float = git.LIMIT,
    ) -> None:
        if object_format not in git.EMPTY_TREE:
            raise Fault(exits.PROTOCOL, object_format, "not an object format that git has")
        self.folder = Path(os.path.realpath(scratch), "annex.git")
        self.top = os.path.realpath(top)
        self.object_format = object_format
        self.empty_tree = git.EMPTY_TREE[object_format]
        self.no_object = git.NO_OBJECT[object_format]
        self._settings = settings
        self._limit = limit
        self._changes: dict[tuple[str, str], list[Change]] = {}
        # An older git that knows no GIT_CONFIG_GLOBAL finds no settings at HOME either.
        self._env = dict(env) | {"HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder)}
        with files.storing(str(scratch)):
            self._make(objects)

    def _make(self, objects: Path | None) -> None:
        self._remove()
        # Closed to others: it comes to hold what may have been readable by its owner alone.
        self.folder.mkdir(parents=True, mode=0o700)
        for part in ("objects", "objects/info", "refs", "info"):
            (self.folder / part).mkdir()
        plain = self.object_format == "sha1"
        version = f"\trepositoryformatversion = {0 if plain else 1}\n"
        extension = "" if plain else f"[extensions]\n\tobjectformat = {self.object_format}\n"
        (self.folder / "config").write_text(_CONFIG.replace("]\n", "]\n" + version, 1) + extension)
        (self.folder / "HEAD").write_text("ref: refs/heads/none\n")
        (self.folder / "info/attributes").write_text(_ATTRIBUTES)
        if objects is not None:
            # Quoted, since a line that begins with a quote or a hash sign is no plain path.
            line = git.quoted(os.fsencode(os.path.realpath(objects))) + "\n"
            (self.folder / "objects/info/alternates").write_text(line)

    def close(self) -> None:
        """Remove the private git dir, and the folder around it when nothing else is in it."""
        with files.storing(str(self.folder)):
            self._remove()
            around = self.folder.parent
            if around.is_dir() and not any(around.iterdir()):
                around.rmdir()

    def _remove(self) -> None:
        if self.folder.exists():
            import shutil

            shutil.rmtree(self.folder)

    def take(self, source: Path, name: str) -> bool:
        """Copy a file, with its time, into the git dir; False when it cannot be read.

        The time matters: git compares that of an index with those of the files in it.
        """
        try:
            with source.open("rb") as theirs:
                status = os.fstat(theirs.fileno())
                if not stat.S_ISREG(status.st_mode):
                    return False
                content = theirs.read()
        except OSError:
            return False
        with files.storing(str(self.folder)):
            target = self.folder / name
            target.write_bytes(content)
            os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
        return True

    def run(
        self,
        *arguments: str,
        index: str = "index",
        top: str | None = None,
        stdin: bytes | None = None,
        stdout_to: int | None = None,
    ) -> Finished:
        """git in this git dir, with the index file of that name; the status is not judged."""
        return git.run(
            arguments,
            cwd=Path(top or self.top),
            env=self._env,
            own={
                "GIT_DIR": str(self.folder),
                "GIT_WORK_TREE": top or self.top,
                "GIT_INDEX_FILE": str(self.folder / index),
                "GIT_CONFIG_GLOBAL": "/dev/null",
                "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_ATTR_NOSYSTEM": "1",
            },
            settings=self._settings,
            stdin=stdin,
            stdout_to=stdout_to,
            limit=self._limit,
        )

    def read(self, *arguments: str, index: str = "index", stdin: bytes | None = None) -> bytes:
        """What git printed. Fault PROTOCOL, with git's own sentence, where it failed."""
        done = self.run(*arguments, index=index, stdin=stdin)
        if done.exit_code != 0:
            raise Fault(exits.PROTOCOL, f"git {arguments[0]}", git.sentence(done))
        return done.stdout

    def tree_of(self, commit: str) -> str:
        """The tree of a commit (or of a tree)."""
        return self.read("rev-parse", "--verify", f"{_id(commit)}^{{tree}}").decode().strip()

    def write_tree(self, index: str = "index") -> str:
        """The tree of an index. Objects may be missing: a partial clone has not all of them."""
        return self.read("write-tree", "--missing-ok", index=index).decode().strip()

    def changed(self, old: str | None, new: str) -> list[Change]:
        """The paths that differ, in the order of their bytes; a rename is a D and an A."""
        sides = (_id(old or self.empty_tree), _id(new))
        if sides not in self._changes:
            arguments = [*_COMPARE, "--raw", "-z", "--no-abbrev", "--no-renames"]
            self._changes[sides] = read_changes(self.read(*arguments, *sides))
        return list(self._changes[sides])

    def patch(self, old: str | None, new: str, out_fd: int) -> None:
        """Write the complete patch from `old` (None: the empty tree) to `new` to a descriptor.

        After a Fault the descriptor may have got a part of it.
        """
        changes = self.changed(old, new)
        if not changes:
            return
        arguments = [*_COMPARE, "-p", *_PATCH, old or self.empty_tree, new]
        if any(" /" in change.path for change in changes):
            with (
                files.storing(str(self.folder)),
                (self.folder / "patch").open("w+b") as plain,
                open(out_fd, "wb", closefd=False) as out,
            ):
                self._print(arguments, plain.fileno())
                plain.seek(0)
                out.writelines(map(unambiguous, plain))
        else:
            self._print(arguments, out_fd)

    def _print(self, arguments: Sequence[str], out_fd: int) -> None:
        done = self.run(*arguments, stdout_to=out_fd)
        if done.exit_code != 0:
            raise Fault(exits.PROTOCOL, "git diff-tree", git.sentence(done))

    def build(self, base_commit: str | None, patches: Sequence[Path], index: str = "built") -> str:
        """The tree that the patches, applied in order, make of the base commit.

        Fault PROTOCOL where the base commit is missing or a patch does not apply, NOINPUT where
        a patch cannot be read. An empty patch changes nothing.
        """
        (self.folder / index).unlink(missing_ok=True)
        if base_commit is not None:
            done = self.run("read-tree", _id(base_commit), index=index)
            if done.exit_code != 0:
                message = f"the base commit cannot be read: {git.sentence(done)}"
                raise Fault(exits.PROTOCOL, base_commit, message)
        for patch in patches:
            if _size(patch) == 0:
                continue  # git calls an empty patch an error
            arguments = ["--cached", "--binary", "--whitespace=nowarn", str(patch.absolute())]
            done = self.run("apply", *arguments, index=index)
            if done.exit_code != 0:
                message = f"does not apply: {git.sentence(done)}"
                raise Fault(exits.PROTOCOL, str(patch), message)
        return self.write_tree(index)

    def check_out(self, folder: Path, index: str = "built") -> None:
        """Write the files of an index to a folder that is absent or empty, links as links.

        Nothing stands there that could lead a path elsewhere, and a tree cannot hold both a
        link and a path through it.
        """
        if folder.is_symlink():
            raise Fault(exits.STORE, str(folder), "is a link; a checkout goes to a new folder")
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            empty = not any(folder.iterdir())
        except OSError as error:
            raise Fault(exits.STORE, str(folder), error.strerror or "cannot be made") from None
        if not empty:
            raise Fault(exits.STORE, str(folder), "is not empty; a checkout goes to a new folder")
        done = self.run(
            "checkout-index", "--all", "--force", index=index, top=os.path.realpath(folder)
        )
        if done.exit_code != 0:
            raise Fault(exits.STORE, str(folder), git.sentence(done))


def _id(text: str) -> str:
    """An id from a record, which may hold anything: it must be no option and no path."""
    if not git.is_id(text):
        raise Fault(exits.PROTOCOL, text, "not a full object id")
    return text


def _size(patch: Path) -> int:
    try:
        return patch.stat().st_size
    except OSError as error:
        raise Fault(exits.NOINPUT, str(patch), error.strerror or "cannot be read") from None
