"""The machine: Python, the kernel, git, and room for state."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from waybill.base import descendants, git, guard, state
from waybill.doctor.patient import Finding, Patient, failed, ok, warning

LEAST_PYTHON = (3, 11)
LEAST_GIT = (2, 30)
LEAST_FREE = 1 << 30  # bytes; one long run leaves some hundred megabytes

_GIT_VERSION = re.compile(r"git version ((\d+)\.(\d+)\S*)")


def python(_: Patient) -> Iterator[Finding]:
    """The interpreter that we run in."""
    version = ".".join(map(str, sys.version_info[:3]))
    found = f"{version}, {sys.executable}"
    if sys.version_info[:2] >= LEAST_PYTHON:
        yield ok("python", found)
    else:
        yield failed("python", found, f"install Python {'.'.join(map(str, LEAST_PYTHON))}")


def platform(_: Patient) -> Iterator[Finding]:
    """What the guard needs to find and end everything that a run has started."""
    about = os.uname()
    found = f"{about.sysname} {about.release} {about.machine}"
    needed = "runs are guarded on Linux with /proc mounted; run them there"
    if sys.platform != "linux":
        yield failed("platform", found, needed)
        return
    if descendants.look(os.getpid()) is None:
        yield failed("platform", f"{found}, and /proc does not show this process", needed)
        return
    try:
        guard.adopt()
    except OSError as error:
        why = f"{found}, and no process can adopt orphans: {error.strerror}"
        yield failed("platform", why, needed)
        return
    yield ok("platform", f"{found}, with /proc and subreaper")


def git_version(patient: Patient) -> Iterator[Finding]:
    """The git on PATH."""
    least = ".".join(map(str, LEAST_GIT))
    advice = f"install git {least} or later"
    done = git.run(["--version"], cwd=patient.scratch, env=patient.environment, limit=10)
    match = _GIT_VERSION.match(done.stdout.decode("utf-8", "replace"))
    if match is None:
        yield failed("git", f"git --version: {git.sentence(done)}", advice)
    elif (int(match[2]), int(match[3])) < LEAST_GIT:
        yield failed("git", match[1], advice)
    else:
        yield ok("git", match[1])


def store(patient: Patient) -> Iterator[Finding]:
    """Whether state can be written, and whether there is room for it and for runs."""
    try:
        folder = state.folder()
        _write(folder)
    except (OSError, RuntimeError) as error:
        why = f"cannot be written: {getattr(error, 'strerror', None) or error}"
        where = getattr(error, "filename", None) or "the state folder"
        advice = "make it writable, or name another folder in XDG_STATE_HOME"
        yield failed("state folder", f"{where} {why}", advice)
        return
    yield ok("state folder", f"{folder} can be written")
    yield room([folder, *([patient.cwd] if patient.cwd.is_dir() else [])])


def room(folders: list[Path], least: int = LEAST_FREE) -> Finding:
    """The free space where these folders are."""
    free = {folder: _free(folder) for folder in folders}
    found = ", ".join(f"{size / (1 << 30):.1f} GiB free for {path}" for path, size in free.items())
    if min(free.values()) < least:
        return warning("disk", found, "make room: a run that cannot be recorded is lost")
    return ok("disk", found)


def _write(folder: Path) -> None:
    # Only a write shows a full quota or a file system that is read-only.
    path = folder / f".doctor.{os.getpid()}"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, b"written\n")
    finally:
        os.close(descriptor)
        path.unlink()


def _free(folder: Path) -> int:
    about = os.statvfs(folder)
    return about.f_bavail * about.f_frsize
