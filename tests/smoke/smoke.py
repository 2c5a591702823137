"""The proof that the chain works: offline on the real binary, and on the real service.

Offline, a scripted model plays the worker and the judge. With STRICT=1 the same path runs on
the real service with the operator's ChatGPT login: a missing login, a malformed stream, a
mismatch, a passed limit or any fallback fails. Without STRICT the real service is skipped,
and a skip proves nothing.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import sh

CHECK = "#!/bin/sh\ngrep -qx 'hello, waybill' greeting.txt\n"
OBJECTIVE = "Create the file greeting.txt holding exactly one line: hello, waybill"
SCRIPT: dict[str, Any] = {
    "scripts": [
        {
            "match": "independent reviewer",
            "steps": [
                {"exec": "cat greeting.txt"},
                {
                    "say": json.dumps(
                        {"blockers": [], "warnings": [], "summary": "as asked", "needsFix": False}
                    )
                },
            ],
        },
        {
            "match": "Create the file",
            "steps": [{"exec": "echo 'hello, waybill' > greeting.txt"}, {"say": "done"}],
        },
    ]
}


class Failure(Exception):
    """What the proof could not show."""


def project(place: Path) -> Path:
    """A repository with one commit and a check."""
    folder = place / "project"
    folder.mkdir()
    check = folder / "check"
    check.write_text(CHECK)
    check.chmod(0o755)
    git = sh.git.bake(_cwd=str(folder), _tty_out=False)
    git("init", "-q")
    git("add", "-A")
    git("-c", "user.name=smoke", "-c", "user.email=smoke@example.org", "commit", "-qm", "base")
    return folder


def step(name: str, *words: str, cwd: Path, stdin: str = "", env: dict[str, str]) -> str:
    """Run one command of the chain; its standard output. Raises Failure with its last line."""
    done = sh.Command(name)(
        *words, _cwd=str(cwd), _in=stdin, _tty_out=False, _tty_in=False, _env=env,
        _ok_code=range(256), _return_cmd=True,
    )  # fmt: skip
    if done.exit_code != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise Failure(f"{name}: exit {done.exit_code}: {said[-1] if said else 'no word'}")
    return str(done.stdout.decode())


def chain(place: Path, env: dict[str, str], rehearse: list[str], allow: list[str]) -> Path:
    """Packet, dispatch, verify, review, check; the run folder."""
    folder = project(place)
    words = ["--objective", OBJECTIVE, "--packet-id", "smoke", "--require", "./check"]
    packet = step("packet-make", *words, "--timeout", "600", cwd=folder, env=env)
    receipt = step("dispatch", *rehearse, cwd=folder, stdin=packet, env=env)
    receipt = step("verify", cwd=folder, stdin=receipt, env=env)
    receipt = step("review", *rehearse, cwd=folder, stdin=receipt, env=env)
    step("receipt-check", "--replay", *allow, cwd=folder, stdin=receipt, env=env)
    return folder / ".codex" / "runs" / "smoke"


def strict(run: Path) -> None:
    """No fallback of any kind was taken."""
    record = json.loads((run / "run.json").read_text())
    events = record["events"]
    wrong = {
        "malformed stream": events["noise"] or events["unknown"] or events["oversize"],
        "no turn was completed": record["turn"]["status"] != "completed",
        "another sandbox": record["sandbox"]["effective"] != record["sandbox"]["requested"],
        "the model is not known": record["model"]["effective"] is None,
        "the final message came from the stream": record["final_message"]["source"] != "file",
        "the login was not seen": record["auth"]["mode"] != "chatgpt-subscription",
        "usage is not known": record["usage"]["run"] is None,
        "a limit passed": record["limits"]["passed"],
        "it was a rehearsal": record["rehearsal"],
    }
    for said, held in wrong.items():
        if held:
            raise Failure(f"{said}: {held}")


def offline(place: Path) -> None:
    """The whole chain under a scripted model, in a home of its own."""
    script = place / "script.json"
    script.write_text(json.dumps(SCRIPT))
    env = {name: value for name, value in os.environ.items() if name != "OPENAI_API_KEY"}
    env |= {"HOME": str(place), "XDG_STATE_HOME": str(place / "state")}
    env.pop("CODEX_HOME", None)
    chain(place, env, ["--rehearse", str(script)], ["--allow", "rehearsal"])


def real(place: Path) -> None:
    """The whole chain on the real service, under the operator's own login."""
    strict(chain(place, dict(os.environ), [], []))


def main() -> int:
    """Run the proofs; 0 when every one that was tried holds."""
    # Not under the temporary folder: Codex makes no helper programs there.
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "waybill"
    base.mkdir(parents=True, exist_ok=True)
    proofs = [("offline: the real binary, a scripted model", offline)]
    if os.environ.get("STRICT") == "1":
        proofs.append(("strict: the real binary, the real service", real))
    for name, proof in proofs:
        with tempfile.TemporaryDirectory(dir=base) as folder:
            try:
                proof(Path(folder))
            except Failure as failure:
                print(f"FAIL  {name}: {failure}")
                return 1
        print(f"ok    {name}")
    if len(proofs) == 1:
        print("skip  strict: the real service was not tried, and this proves nothing about it;")
        print("      STRICT=1 tries it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
