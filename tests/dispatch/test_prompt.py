"""The prompt: from the packet's file or its objective, byte for byte, and measured."""

from __future__ import annotations

import hashlib
import json
import subprocess
from typing import Any

import pytest


def play(project: Any, packet: Any, codex: Any, *words: str, **changes: Any) -> Any:
    return project.run("dispatch", "--codex", codex.path, *words, stdin=packet(changes))


@pytest.mark.parametrize(
    "data",
    [
        b"short",
        b"x" * (127 << 10),
        b"x" * (129 << 10),
        b"y" * (2 << 20),
        "é".encode() * 70_000,
        b"\xff\xfe no text at all \r\n\n",
    ],
    ids=["short", "127 KiB", "129 KiB", "2 MiB", "70000 letters", "bytes"],
)
def test_a_prompt_travels_byte_for_byte(
    project: Any, packet: Any, standin: Any, data: bytes
) -> None:
    (project.top / "ask.md").write_bytes(data)
    codex = standin()
    done = play(project, packet, codex, **{"execution.prompt_path": "ask.md"})
    record = project.record()
    assert (done.status, codex.stdin) == (0, data)
    assert record["prompt"] == {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    assert (project.folder() / "prompt.md").read_bytes() == data
    assert done.json["stdin"]["bytes_written"] == len(data)
    assert max(map(len, codex.call["argv"])) < 300
    assert max(map(len, codex.call["environment"].values())) < 2000


def test_an_objective_of_many_letters_is_the_prompt_without_a_file(
    project: Any, packet: Any, standin: Any
) -> None:
    codex = standin()
    done = play(project, packet, codex, objective="é" * 70_000)
    assert (done.status, codex.stdin) == (0, "é".encode() * 70_000)
    assert done.json["stdin"]["mode"] == "pipe-prompt"


def test_what_a_worker_did_not_read_is_not_counted(project: Any, packet: Any, standin: Any) -> None:
    (project.top / "ask.md").write_bytes(b"z" * (2 << 20))
    done = play(project, packet, standin(stdin="ignore"), **{"execution.prompt_path": "ask.md"})
    assert done.status == 0
    assert done.json["stdin"]["bytes_written"] == 0
    assert project.record()["prompt"]["bytes"] == 2 << 20


def test_a_prompt_on_the_command_line_goes_with_a_closed_stdin(
    project: Any, packet: Any, standin: Any
) -> None:
    codex = standin()
    argv = [*packet()["execution"]["argv"][:-1], "Do it now."]
    closed = {"mode": "closed", "close_after_prompt": True}
    done = play(project, packet, codex, argv=argv, **{"execution.stdin": closed})
    assert (done.status, codex.stdin, codex.call["argv"][-1]) == (0, b"", "Do it now.")
    assert done.json["stdin"]["bytes_written"] == 0
    assert done.json["stdin"]["mode"] == "closed"
    assert project.record()["prompt"] is None
    assert not (project.folder() / "prompt.md").exists()


def test_our_own_stdin_never_reaches_the_worker(project: Any, packet: Any, standin: Any) -> None:
    project.write("packet.json", json.dumps(packet()))
    codex = standin()
    done = project.run("dispatch", "--codex", codex.path, "packet.json", stdin="stray input")
    assert (done.status, codex.stdin) == (0, b"Do it.")


def test_a_prompt_that_is_the_run_folders_own_stays_there(
    project: Any, packet: Any, standin: Any
) -> None:
    project.write(".codex/runs/t1/prompt.md", "from packet-make")
    codex = standin()
    changes = {"execution.prompt_path": ".codex/runs/t1/prompt.md"}
    done = play(project, packet, codex, **changes)
    assert (done.status, codex.stdin) == (0, b"from packet-make")
    again = play(project, packet, codex, "--attempt", "2", **changes)
    assert (again.status, codex.stdin) == (0, b"from packet-make")


def test_the_worker_runs_in_the_packets_folder_with_the_packets_command(
    project: Any, packet: Any, standin: Any
) -> None:
    (project.top / "sub").mkdir()
    codex = standin(edit="echo x > here.txt")
    argv = packet()["execution"]["argv"]
    done = play(project, packet, codex, cwd=str(project.top / "sub"))
    assert done.status == 0
    assert codex.call["cwd"] == str(project.top / "sub")
    assert codex.call["argv"] == argv[1:]
    assert done.json["command"] == {"argv": argv}
    assert done.json["changed_files"] == ["sub/here.txt"]
    assert (project.top / "sub" / ".codex" / "runs" / "t1" / "receipt.json").exists()


def test_a_folder_is_taken_relative_to_where_dispatch_is_called(
    project: Any, packet: Any, standin: Any
) -> None:
    done = project.run(
        "dispatch", "--codex", standin().path, stdin=packet(cwd="project"), cwd=project.root
    )
    assert (done.status, done.json["cwd"]) == (0, "project")
    assert project.record()["cwd"] == str(project.top)


def test_a_folder_reached_through_a_link_is_the_same_folder(
    project: Any, packet: Any, standin: Any
) -> None:
    (project.root / "link").symlink_to(project.top)
    done = project.run("dispatch", "--codex", standin().path, stdin=packet(cwd="../link"))
    assert (done.status, done.json["cwd"]) == (0, "../link")
    assert done.json["changed_files"] == ["made.txt"]
    (judgement,) = project.run("receipt-check", project.folder()).rows
    assert {row["rule"] for row in judgement["reasons"]} == {"verdict"}


def test_a_stdin_of_ours_that_nobody_closes_holds_nothing_up(
    project: Any, packet: Any, standin: Any
) -> None:
    path = project.write("packet.json", json.dumps(packet()))
    codex = standin()
    words = ["dispatch", "--codex", str(codex.path), str(path)]
    with subprocess.Popen(
        words, cwd=project.top, env=project.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.read())["exit_code"] == 0
        assert process.wait() == 0
    assert codex.stdin == b"Do it."
