"""What a worker and a check are given, and what is masked of it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

SECRET = "correct-horse-battery"


def play(
    project: Any, packet: Any, codex: Any, *words: str, env: Any = None, **changes: Any
) -> Any:
    return project.run("dispatch", "--codex", codex.path, *words, stdin=packet(changes), env=env)


def test_a_workers_environment_is_built_from_a_list(
    project: Any, packet: Any, standin: Any
) -> None:
    ours = {
        "HOME": str(project.home),
        "CODEX_HOME": str(project.home / "codex"),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "https_proxy": "http://127.0.0.1:9",
        "SSL_CERT_FILE": "/x.pem",
        "GIT_DIR": "/nowhere",
        "LD_PRELOAD": "",
        "AWS_SECRET_ACCESS_KEY": "x",
        "PYTHONPATH": "/nowhere",
        "EDITOR": "vi",
        "MINE": "yes",
        "OTHER": "no",
    }
    codex = standin()
    done = play(
        project,
        packet,
        codex,
        "--pass-env",
        "MINE",
        "--pass-env",
        "ABSENT",
        env=ours,
        **{"execution.environment": {"TZ": "CET", "OWN": "é"}},
    )
    assert done.status == 0
    given = codex.call["environment"]
    assert {name for name in given if name not in ("LC_WAYBILL_TEST", "PWD", "LC_CTYPE")} == {
        *("PATH", "HOME", "LANG", "TZ", "CODEX_HOME", "SSL_CERT_FILE", "https_proxy"),
        *("LC_ALL", "OWN", "MINE"),
    }
    assert (given["TZ"], given["OWN"], given["MINE"]) == ("CET", "é", "yes")
    record = project.record()
    assert record["relaxations"] == ["pass-env MINE", "pass-env ABSENT"]
    assert "CODEX_HOME" in record["auth"]["environment_names"]
    probed = codex.probes
    assert ["login", "status"] in probed and ["--version"] in probed


def test_a_check_gets_the_same_without_the_way_to_the_login(
    project: Any, packet: Any, standin: Any
) -> None:
    project.write("tool", "#!/bin/sh\nenv\n", 0o755)
    done = play(
        project,
        packet,
        standin(),
        "--pass-env",
        "MINE",
        env={"CODEX_HOME": str(project.home / "codex"), "MINE": "yes", "OTHER": "no"},
        **{"evidence.required_commands": ["./tool"], "execution.environment": {"OWN": "x"}},
    )
    log = (project.folder() / "evidence" / "1.log").read_text().splitlines()
    names = {line.split("=")[0] for line in log}
    assert done.status == 0
    assert {"OWN", "MINE", "PATH", "HOME"} <= names
    assert not {"CODEX_HOME", "OTHER"} & names


def test_the_login_is_asked_under_the_workers_own_environment(
    project: Any, packet: Any, standin: Any
) -> None:
    home = str(project.home / "other")
    codex = standin()
    done = play(project, packet, codex, **{"execution.environment": {"CODEX_HOME": home}})
    assert (done.status, codex.call["environment"]["CODEX_HOME"]) == (0, home)


def victim(root: Path, env: dict[str, str]) -> Path:
    path = root / "victim"
    subprocess.run(["git", "init", "-q", str(path)], check=True, env=env)
    (path / "kept").write_text("x")
    subprocess.run(["git", "add", "kept"], cwd=path, check=True, env=env)
    return path


def test_git_variables_lead_nobody_to_another_repository(
    project: Any, packet: Any, standin: Any
) -> None:
    other = victim(project.root, project.env)
    before = {path: path.read_bytes() for path in other.rglob("*") if path.is_file()}
    env = {
        "GIT_DIR": str(other / ".git"),
        "GIT_WORK_TREE": str(other),
        "GIT_INDEX_FILE": str(other / ".git" / "index"),
        "GIT_OBJECT_DIRECTORY": str(other / ".git" / "objects"),
        "GIT_COMMON_DIR": str(other / ".git"),
    }
    project.write("tool", "#!/bin/sh\ngit rev-parse --show-toplevel\n", 0o755)
    codex = standin(edit="git rev-parse --show-toplevel > made.txt")
    done = play(project, packet, codex, env=env, **{"evidence.required_commands": ["./tool"]})
    assert done.status == 0
    assert (project.top / "made.txt").read_text().strip() == str(project.top)
    assert done.json["commands_run"][1]["output_excerpt"] == str(project.top)
    assert project.record()["tree"]["git_dir"] == str(project.top / ".git")
    assert {path: path.read_bytes() for path in other.rglob("*") if path.is_file()} == before


def test_a_secret_that_the_worker_prints_is_masked_where_people_look(
    project: Any, packet: Any, standin: Any
) -> None:
    message = f"The token is {SECRET}, and sk-abcdefgh12345678 is another."
    project.write("tool", f"#!/bin/sh\necho {SECRET}; exit 3\n", 0o755)
    codex = standin(say=message, stderr=f"error: {SECRET}\n")
    done = play(
        project,
        packet,
        codex,
        **{
            "execution.environment": {"MY_TOKEN": SECRET},
            "evidence.required_commands": ["./tool"],
        },
    )
    assert done.status == 1
    for text in (done.stdout, done.stderr, (project.folder() / "run.json").read_text()):
        assert SECRET not in text and "sk-abcdefgh" not in text
    excerpt = done.json["commands_run"][0]["output_excerpt"]
    assert excerpt == "The token is ***, and *** is another."
    assert done.json["commands_run"][1]["output_excerpt"] == "***"
    assert project.record()["masked"] >= 3
    # Evidence stays byte for byte: what is digested must be what was said.
    assert (project.folder() / "final.md").read_text() == message
    assert SECRET in (project.folder() / "evidence" / "1.log").read_text()
    assert SECRET in (project.folder() / "stderr.log").read_text()


def test_a_secret_of_ours_is_masked_in_a_failure(project: Any, packet: Any, standin: Any) -> None:
    events = [
        {"type": "thread.started", "thread_id": "x"},
        {"type": "turn.failed", "error": {"message": f"no such user {SECRET} here"}},
    ]
    done = play(project, packet, standin(events=events), env={"DB_PASSWORD": SECRET})
    assert (done.status, SECRET in done.stdout + done.stderr) == (1, False)
    assert project.record()["reason"] == "no such user *** here"
    assert SECRET not in "".join(
        path.read_text() for path in project.folder().glob("*.json") if path.name != "packet.json"
    )


def test_a_masked_receipt_still_agrees_with_its_record(
    project: Any, packet: Any, standin: Any
) -> None:
    codex = standin(say=f"It is {SECRET}.")
    play(project, packet, codex, **{"execution.environment": {"MY_TOKEN": SECRET}})
    (judgement,) = project.run("receipt-check", project.folder()).rows
    assert {row["rule"] for row in judgement["reasons"]} == {"verdict"}


def test_a_plan_shows_no_secret(project: Any, packet: Any, standin: Any) -> None:
    done = play(
        project,
        packet,
        standin(login=[f"Logged in using ChatGPT as {SECRET}", 0]),
        "--dry-run",
        env={"MY_KEY": SECRET},
    )
    assert done.status == 0
    assert json.loads(done.stdout)["auth"]["status"] == "Logged in using ChatGPT as ***"
