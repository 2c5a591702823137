"""Somebody to examine: a folder, an environment of its own, and a Codex that is made up."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from waybill.codex import argv
from waybill.doctor.patient import Patient

FLAGS = "\\n".join("  -c, --config" if name == "-c" else f"      {name}" for name in argv.LISTED)


@pytest.fixture
def patient(tmp_path: Path) -> Callable[..., Patient]:
    """Make a patient; what is given goes into its environment."""

    def make(codex: str | None = None, **environment: str) -> Patient:
        for name in ("project", "scratch", "home"):
            (tmp_path / name).mkdir(exist_ok=True)
        usual = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}
        return Patient(codex, tmp_path / "project", usual | environment, tmp_path / "scratch")

    return make


@pytest.fixture
def stub(tmp_path: Path) -> Callable[..., str]:
    """Make a script that is called in place of Codex; one shell line for each call of it."""

    def make(**lines: str) -> str:
        usual = {
            "version": "echo codex-cli 0.149.0",
            "help": f"printf '{FLAGS}\\n'",
            "login": "echo 'Logged in using ChatGPT' >&2",
            # What stands behind the `--` is run, as if in a sandbox: not confined at all.
            "sandbox": 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"',
        } | lines
        path = tmp_path / "codex-stub"
        path.write_text(
            "#!/bin/sh\n"
            'case "$1" in\n'
            f"--version) {usual['version']};;\n"
            f"exec) {usual['help']};;\n"
            f"login) {usual['login']};;\n"
            f"sandbox) {usual['sandbox']};;\n"
            "esac\n"
        )
        path.chmod(0o755)
        return str(path)

    return make


@pytest.fixture
def repository() -> Callable[[Path], None]:
    """Make a folder a repository with one commit."""

    def make(folder: Path) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        for words in (["init", "-q"], [*who, "commit", "-q", "--allow-empty", "-m", "first"]):
            subprocess.run(["git", *words], cwd=folder, check=True)

    return make


@pytest.fixture
def by_name() -> Callable[[Any], dict[str, Any]]:
    """The findings of a check by their names, each there once."""

    def index(findings: Any) -> dict[str, Any]:
        listed = list(findings)
        found = {finding.name: finding for finding in listed}
        assert len(found) == len(listed)
        return found

    return index
