"""A project whose Makefile includes ours, and stand-ins for the commands that it calls.

A stand-in writes its name and its last word to a log. What dispatch does stands in the run's
folder: `exits` holds the status (0 without it), and `silent` keeps it from writing a receipt.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

RULES = Path(__file__).resolve().parents[2] / "lib" / "waybill" / "waybill.mk"
LIMIT = 60  # seconds for anything that should take one

_BEGIN = """#!/bin/sh
for operand; do :; done
run=${operand%/*}
echo "${0##*/} $operand" >>"$LOG"
"""
_STAND_INS = {
    # It runs no packet twice: the receipt of a run stays, and its status is given again.
    "dispatch": """
status=$(cat "$run/exits" 2>/dev/null || echo 0)
reason=; [ "$status" = 0 ] || reason="outcome: it said \\\\\\"$status\\\\\\""
[ -e "$run/silent" ] || [ -e "$run/receipt.json" ] ||
    printf '{\\n  "failure_reason": "%s"\\n}\\n' "$reason" >"$run/receipt.json"
exit "$status"
""",
    # It writes the receipt anew, as a review does.
    "review": """
status=$(cat "$run/review-exits" 2>/dev/null || echo 0)
if [ "$status" = 1 ]; then echo '{"failure_reason": "review_rejected: no"}' >"$operand"; fi
touch "$operand"
exit "$status"
""",
    "receipt-check": r"""
if [ -e "$run/check-exits" ]; then exit "$(cat "$run/check-exits")"; fi
if grep -q '"failure_reason": ""' "$operand"; then echo '{"pass": true}'; exit 0; fi
echo '{"pass": false, "reasons": [{"message": "it has no \"pass\": true"}]}'
exit 1
""",
}


@dataclass
class Project:
    """A folder with a Makefile; the stand-ins are first on PATH."""

    top: Path

    @classmethod
    def build(cls, top: Path) -> Project:
        """A project in an empty folder."""
        (top / "bin").mkdir()
        for name, text in _STAND_INS.items():
            program = top / "bin" / name
            program.write_text(_BEGIN + text)
            program.chmod(0o755)
        project = cls(top)
        project.makefile()
        return project

    @property
    def environment(self) -> dict[str, str]:
        path = f"{self.top / 'bin'}:{os.environ['PATH']}"
        return {"PATH": path, "LOG": str(self.top / "log"), "HOME": str(self.top)}

    def makefile(self, before: str = "", after: str = "") -> None:
        (self.top / "Makefile").write_text(f"{before}\ninclude {RULES}\n{after}\n")

    def packet(self, name: str, **says: object) -> Path:
        """A run's folder with a packet; `says` are the files that the stand-ins read."""
        run = self.top / ".codex" / "runs" / name
        run.mkdir(parents=True)
        (run / "packet.json").write_text("{}\n")
        for file, text in says.items():
            (run / file.replace("_", "-")).write_text(f"{text}\n")
        return run

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["make", "--no-print-directory", *words],
            cwd=self.top,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def make(self, *words: str) -> subprocess.CompletedProcess[str]:
        with self.start(*words) as process:
            out, err = process.communicate(timeout=LIMIT)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def calls(self) -> list[str]:
        """What the stand-ins were called with since the last look."""
        log = self.top / "log"
        found = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return found

    def later(self, path: Path, than: Path) -> None:
        """Date a file a second after another one."""
        at = than.stat().st_mtime + 1
        os.utime(path, (at, at))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.build(tmp_path)
