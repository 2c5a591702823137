"""One packet, one run at a time: claims, attempts, dead dispatchers and their recovery."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from typing import Any

import pytest

THREAD = {"type": "thread.started", "thread_id": "01998000-0000-7000-8000-00000000000a"}
HALF = [
    THREAD,
    {"type": "turn.started"},
    {"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": "half"}},
]


def play(project: Any, packet: Any, codex: Any, *words: str, **changes: Any) -> Any:
    return project.run("dispatch", "--codex", codex.path, *words, stdin=packet(changes))


def begin(project: Any, packet: Any, codex: Any, *words: str, **changes: Any) -> Any:
    """A dispatch whose worker has written its events and waits."""
    words = ("--codex", codex.path, "--grace", "0.5", *words)
    process = project.start("dispatch", *words, stdin=packet(changes))
    events = project.folder() / "events.jsonl"
    end = time.monotonic() + 20
    while not (events.exists() and b"half" in events.read_bytes()):
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.01)
    return process


def waiting(standin: Any, **knobs: Any) -> Any:
    return standin(**{"events": HALF, "hang_at": len(HALF), **knobs})


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    with process:
        process.communicate()


def test_of_many_dispatchers_at_once_one_wins(project: Any, packet: Any, standin: Any) -> None:
    codex = waiting(standin)
    words = ["--codex", codex.path, "--grace", "0.5"]
    processes = [project.start("dispatch", *words, stdin=packet()) for _ in range(6)]
    losers: list[Any] = []
    end = time.monotonic() + 40
    while len(losers) < 5:
        assert time.monotonic() < end
        for process in [p for p in processes if p.poll() is not None]:
            processes.remove(process)
            losers.append(project.finish(process))
        time.sleep(0.02)
    (winner,) = processes
    while not (project.folder() / "events.jsonl").exists():
        assert winner.poll() is None and time.monotonic() < end
    winner.terminate()
    done = project.finish(winner)
    assert {loser.status for loser in losers} == {75}
    assert all(loser.stdout == "" and "held by" in loser.stderr for loser in losers)
    assert done.status == 143
    assert len(list((project.folder() / "generations").iterdir())) == 1


def test_a_second_dispatcher_leaves_the_receipt_of_an_earlier_attempt_alone(
    project: Any, packet: Any, standin: Any
) -> None:
    codex = standin()
    play(project, packet, codex)
    codex.turn(events=HALF, hang_at=len(HALF))
    process = begin(project, packet, codex, "--attempt", "2")
    run_id = project.record()["run_id"]
    second = play(project, packet, standin(), "--attempt", "3")
    verify = project.run("verify", "--run-dir", project.folder(), stdin=second.stdout or "x")
    recover = project.run("dispatch", "--recover", project.folder())
    process.terminate()
    done = project.finish(process)
    assert (second.status, second.stdout, done.status) == (75, "", 143)
    assert run_id in second.stderr and run_id in recover.stderr
    assert recover.status == 75
    assert verify.status == 65  # no receipt was given to it
    earlier = json.loads((project.folder() / "attempts" / "1" / "receipt.json").read_text())
    assert earlier["receipt_id"] != project.receipt()["receipt_id"]


def test_a_packet_that_ran_gives_its_receipt_again_and_starts_nothing(
    project: Any, packet: Any, standin: Any
) -> None:
    codex = standin(exit=3)
    first = play(project, packet, codex)
    (codex.folder / "call.json").unlink()
    for words in ([], ["--dry-run"]):
        again = play(project, packet, codex, *words)
        assert (again.status, again.json) == (first.status, first.json)
        assert "already ran as attempt 1, agent_failed; nothing was started" in again.stderr
        assert "--attempt 2 runs it again" in again.stderr
    assert not codex.ran


@pytest.mark.parametrize("number", ["1", "3"])
def test_an_attempt_must_be_the_next_one(
    project: Any, packet: Any, standin: Any, number: str
) -> None:
    play(project, packet, standin())
    for words in ([], ["--dry-run"]):
        done = play(project, packet, standin(), "--attempt", number, *words)
        assert (done.status, done.stdout) == (64, "") or words
        assert done.status == 64
        assert f"--attempt: {number} is not the next attempt, 2" in done.stderr


def test_a_further_attempt_keeps_everything_of_the_one_before(
    project: Any, packet: Any, standin: Any
) -> None:
    changes = {"output.jsonl_path": "events-of-it.jsonl", "evidence.required_commands": ["./check"]}
    first = play(project, packet, standin(say="one"), **changes)
    before = {path.name for path in project.folder().iterdir()}
    second = play(project, packet, standin(say="two"), "--attempt", "2", **changes)
    old = project.folder() / "attempts" / "1"
    assert (first.status, second.status, project.record()["attempt"]) == (0, 0, 2)
    assert json.loads((old / "receipt.json").read_text()) == first.json
    assert json.loads((old / "run.json").read_text())["attempt"] == 1
    assert (old / "final.md").read_text() == "one"
    assert "one" in (old / "events-of-it.jsonl").read_text()
    assert (old / "evidence" / "1.log").exists()
    assert (project.folder() / "final.md").read_text() == "two"
    assert {path.name for path in project.folder().iterdir()} == before | {"attempts"}
    names = sorted(path.name for path in (project.folder() / "generations").iterdir())
    assert names == ["1-dispatch.json", "2-dispatch.json"]
    lines = (project.folder().parent / "ledger.jsonl").read_text().splitlines()
    assert [json.loads(line)["attempt"] for line in lines] == [1, 2]


def test_a_folder_of_another_packet_is_refused(project: Any, packet: Any, standin: Any) -> None:
    play(project, packet, standin())
    other = packet(packet_id="t2")
    run_dir = ".codex/runs/t1"
    for words in ([], ["--dry-run"]):
        done = project.run(
            "dispatch", "--codex", standin().path, "--run-dir", run_dir, *words, stdin=other
        )
        assert done.status == 77
        assert "holds another packet, 't1'" in done.stderr
    assert project.receipt()["packet_id"] == "t1"


def test_another_version_of_a_packet_that_ran_is_refused(
    project: Any, packet: Any, standin: Any
) -> None:
    play(project, packet, standin())
    done = play(project, packet, standin(), "--attempt", "2", objective="Something else.")
    assert done.status == 77
    assert "holds a run of another version of this packet" in done.stderr


def test_after_a_kill_nothing_survives_and_the_next_dispatch_recovers_the_run(
    project: Any, packet: Any, standin: Any
) -> None:
    changes = {"evidence.required_commands": ["./check"]}
    codex = waiting(standin, spawn="trap '' TERM; setsid sleep 600")
    process = begin(project, packet, codex, **changes)
    kill(process)
    assert project.idle(3)
    assert project.record()["state"] == "running"

    done = play(project, packet, standin(), **changes)
    record = project.record()
    assert (done.status, record["outcome"], record["state"]) == (143, "interrupted", "recovered")
    assert f"pid {process.pid} on {os.uname().nodename} died; run recovered" in done.stderr
    assert done.json == project.receipt()
    assert done.json["changed_files"] == ["made.txt"]
    assert done.json["commands_run"][0]["output_excerpt"] == "half"
    assert done.json["codex_session_id"] == THREAD["thread_id"]
    assert (done.json["exit_code"], done.json["verdict"]["status"]) == (-1, "ERROR")
    assert record["events"]["lines"] == 3
    assert "+made" in (project.folder() / "work.patch").read_text()
    (judgement,) = project.run("receipt-check", project.folder()).rows
    assert {row["rule"] for row in judgement["reasons"]} <= {"outcome", "verdict", "evidence"}

    again = play(project, packet, standin(), "--attempt", "2", **changes)
    assert (again.status, project.record()["attempt"]) == (0, 2)


def test_a_killed_run_can_be_recovered_by_itself(project: Any, packet: Any, standin: Any) -> None:
    kill(begin(project, packet, waiting(standin)))
    assert project.idle(3)
    done = project.run("dispatch", "--recover", project.folder())
    assert (done.status, done.json["failure_reason"]) == (
        143,
        "interrupted: the dispatcher died; recovered from what was on disk",
    )
    names = [path.name for path in (project.folder() / "generations").iterdir()]
    assert names == ["1-recover.json"]
    again = project.run("dispatch", "--recover", ".codex/runs/t1")
    assert (again.status, again.json) == (143, done.json)
    assert len(list((project.folder() / "generations").iterdir())) == 1


def test_a_whole_run_is_left_as_it_is(project: Any, packet: Any, standin: Any) -> None:
    first = play(project, packet, standin())
    done = project.run("dispatch", "--recover", project.folder())
    assert (done.status, done.json) == (0, first.json)


@pytest.mark.parametrize("folder", ["nowhere", ".", "README"])
def test_there_is_nothing_to_recover_where_no_run_is(project: Any, folder: str) -> None:
    done = project.run("dispatch", "--recover", folder)
    assert (done.status, done.stdout) == (66, "")
    assert done.stderr.startswith(f"dispatch: {folder}: ")


def test_verify_and_review_recover_a_dead_run_first(
    project: Any, packet: Any, standin: Any
) -> None:
    process = begin(project, packet, waiting(standin))
    kill(process)
    assert project.idle(3)
    done = project.run("verify", "--run-dir", project.folder(), stdin=packet())
    assert (done.status, project.record()["outcome"]) == (143, "interrupted")
    assert "died; run recovered as interrupted" in done.stderr


def test_a_claim_of_another_machine_is_believed(project: Any, packet: Any, standin: Any) -> None:
    kill(begin(project, packet, waiting(standin)))
    assert project.idle(3)
    claim = project.folder() / "claim.json"
    found = json.loads(claim.read_text())
    claim.write_text(json.dumps({**found, "host": "elsewhere"}))
    done = play(project, packet, standin())
    assert (done.status, done.stdout) == (75, "")
    assert f"held by run {found['run_id']} on elsewhere" in done.stderr
    claim.write_text(json.dumps({**found, "boot_id": "another-boot"}))
    done = play(project, packet, standin())
    assert (done.status, project.record()["outcome"]) == (143, "interrupted")


def test_a_damaged_record_is_named_and_nothing_is_written(
    project: Any, packet: Any, standin: Any
) -> None:
    play(project, packet, standin())
    (project.folder() / "run.json").write_text('{"schema_version": "1.0"')
    before = (project.folder() / "receipt.json").read_bytes()
    codex = standin()
    done = play(project, packet, codex)
    assert (done.status, done.stdout, codex.ran) == (65, "", False)
    assert "run.json: not JSON" in done.stderr
    assert (project.folder() / "receipt.json").read_bytes() == before


def test_a_damaged_claim_is_a_store_error(project: Any, packet: Any, standin: Any) -> None:
    project.write(".codex/runs/t1/claim.json", "{}")
    codex = standin()
    done = play(project, packet, codex)
    assert (done.status, codex.ran) == (73, False)
    assert "claim.json: is damaged" in done.stderr


def test_what_lies_in_the_run_folder_is_private_and_unseen_by_git(
    project: Any, packet: Any, standin: Any
) -> None:
    play(project, packet, standin(), **{"evidence.required_commands": ["./check"]})
    for path in project.folder().rglob("*"):
        mode = path.stat().st_mode & 0o777
        if path.name == "final.md":
            continue  # Codex made it, by its own umask
        assert mode == (0o700 if path.is_dir() else 0o600), path
    assert project.git("status", "--short", "--untracked-files=all") == "?? made.txt"


def test_runs_side_by_side_keep_one_ledger(project: Any, packet: Any, standin: Any) -> None:
    codex = standin()
    processes = [
        project.start("dispatch", "--codex", codex.path, stdin=packet(packet_id=f"p{n}"))
        for n in range(6)
    ]
    statuses = [project.finish(process).status for process in processes]
    ledger = project.folder().parent / "ledger.jsonl"
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    assert [line["seq"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert len({line["run_id"] for line in lines}) == 6
    assert set(statuses) <= {0, 1}
    assert project.run("receipt-check", "--ledger").status == 0


OURS = ("attempts", "evidence", "generations", "passes", "reviews", "scratch", "lock")


@pytest.mark.parametrize("name", OURS)
def test_a_folder_with_things_of_somebody_else_is_no_run_folder(
    project: Any, packet: Any, standin: Any, name: str
) -> None:
    mine = project.write(name if name == "lock" else f"{name}/1.log", "mine\n")
    project.commit()
    names = dict.fromkeys(("output.receipt_path", "evidence.receipt_path"), "receipt.json")
    names["evidence.required_commands"] = ["./check"]
    codex = standin()
    for words in (["--dry-run"], []):
        done = play(project, packet, codex, *words, **names)
        assert (done.status, codex.ran) == (77, False)
        assert f"holds {name!r}, which is of no run" in done.stderr
    assert mine.read_text() == "mine\n"


def test_a_prompt_of_somebody_else_is_moved_aside_and_not_lost(
    project: Any, packet: Any, standin: Any
) -> None:
    project.write("prompt.md", "mine\n")
    names = dict.fromkeys(("output.receipt_path", "evidence.receipt_path"), "receipt.json")
    assert play(project, packet, standin(), **names).status == 0
    assert (project.top / "attempts" / "0" / "prompt.md").read_text() == "mine\n"


def test_a_run_folder_is_named_from_where_dispatch_is_called(
    project: Any, packet: Any, standin: Any
) -> None:
    (project.top / "sub").mkdir()
    words = ["--codex", standin().path, "--run-dir", "out/r"]
    done = project.run("dispatch", *words, stdin=packet(), cwd=project.top / "sub")
    assert (done.status, done.json["changed_files"]) == (0, ["made.txt"])
    assert (project.top / "sub" / "out" / "r" / "receipt.json").exists()
    again = project.run("verify", "--run-dir", project.top / "sub/out/r", stdin=done.stdout)
    assert again.status == 0


def test_a_dry_run_after_a_kill_says_what_a_dispatch_would_do(
    project: Any, packet: Any, standin: Any
) -> None:
    kill(begin(project, packet, waiting(standin)))
    assert project.idle(3)
    done = play(project, packet, standin(), "--dry-run")
    assert (done.status, done.json["outcome"]) == (143, "interrupted")
    assert "a dispatch recovers it as interrupted" in done.stderr
    assert project.record()["state"] == "running"


def test_a_dispatcher_that_died_before_its_run_began_leaves_no_trace(
    project: Any, packet: Any, standin: Any
) -> None:
    process = project.start("true")
    ident = process.pid
    project.finish(process)
    play(project, packet, standin())
    claim = json.loads((project.folder() / "claim.json").read_text())
    shutil.rmtree(project.folder())
    (project.folder() / "scratch").mkdir(parents=True)
    (project.folder() / "claim.json").write_text(json.dumps({**claim, "pid": ident}))
    done = play(project, packet, standin())
    assert (done.status, project.record()["attempt"]) == (0, 1)
    assert not (project.folder() / "scratch").exists()


def test_a_dispatcher_that_died_between_two_attempts_has_lost_none(
    project: Any, packet: Any, standin: Any
) -> None:
    first = play(project, packet, standin(say="one"))
    aside = project.folder() / "attempts" / "1"
    aside.mkdir(parents=True)
    for path in project.folder().iterdir():
        if path.name not in ("attempts", "generations", "lock", ".gitignore"):
            path.rename(aside / path.name)
    done = play(project, packet, standin(say="two"), "--attempt", "2")
    assert (done.status, project.record()["attempt"]) == (0, 2)
    assert json.loads((aside / "receipt.json").read_text()) == first.json
    assert project.run("receipt-check", "--ledger").status == 0
