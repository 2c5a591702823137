"""Event streams as they come: cut, noisy, huge, silent, or held open by somebody else."""

from __future__ import annotations

import hashlib
import json
import time
from typing import Any

import pytest

THREAD = {"type": "thread.started", "thread_id": "01998000-0000-7000-8000-00000000000a"}
BEGUN = {"type": "turn.started"}
ENDED = {"type": "turn.completed", "usage": {"input_tokens": 100, "output_tokens": 20}}


def said(text: str) -> dict[str, Any]:
    return {"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": text}}


def failed(text: str) -> dict[str, Any]:
    return {"type": "turn.failed", "error": {"message": text}}


def play(project: Any, packet: Any, codex: Any, *words: str, **changes: Any) -> Any:
    return project.run("dispatch", "--codex", codex.path, *words, stdin=packet(changes))


def outcome(project: Any) -> tuple[str, str]:
    record = project.record()
    return record["outcome"], record["reason"]


@pytest.mark.outcome("incomplete_stream", by="standin")
@pytest.mark.parametrize(
    ("events", "exit_code", "why"),
    [
        ([], 0, "the stream holds no event, and Codex exited 0"),
        ([THREAD, BEGUN, said("half")], 0, "no terminal event, and Codex exited 0"),
        ([THREAD, BEGUN, said("half"), '{"type": "turn.comp'], 0, "no terminal event"),
        (["Welcome to the wrapper!\n", "</done>\n"], 0, "the stream holds no event"),
        ([{"type": "task.over", "text": "x"}] * 3, 0, "the stream holds no event"),
        ([THREAD, BEGUN], 3, "no terminal event, and Codex exited 3: boom at the end"),
    ],
    ids=["nothing", "no end", "cut in a line", "a banner", "unknown events", "a crash"],
)
def test_a_stream_without_an_end_of_the_turn_is_incomplete(
    project: Any, packet: Any, standin: Any, events: list[Any], exit_code: int, why: str
) -> None:
    codex = standin(
        events=events, exit=exit_code, stderr="boom at the end\n" if exit_code else "", last="skip"
    )
    done = play(project, packet, codex)
    word, reason = outcome(project)
    assert (done.status, word) == (76, "incomplete_stream")
    assert why in reason
    assert done.json["exit_code"] == exit_code
    assert done.json["changed_files"] == ["made.txt"]  # work is kept whatever the outcome
    assert done.json["verdict"]["status"] == "ERROR"


def test_a_provisional_message_is_kept(project: Any, packet: Any, standin: Any) -> None:
    codex = standin(events=[THREAD, BEGUN, said("half an answer")], last="skip")
    done = play(project, packet, codex)
    assert done.status == 76
    assert (project.folder() / "final.md").read_text() == "half an answer"
    assert project.record()["final_message"]["source"] == "events"
    assert done.json["commands_run"][0]["output_excerpt"] == "half an answer"


@pytest.mark.parametrize("exit_code", [0, 1])
def test_a_failed_turn_fails_whatever_codex_exits_with(
    project: Any, packet: Any, standin: Any, exit_code: int
) -> None:
    inner = json.dumps({"error": {"message": "the model said no", "code": "x"}})
    codex = standin(
        events=[THREAD, BEGUN, {"type": "error", "message": inner}, failed(inner)], exit=exit_code
    )
    done = play(project, packet, codex)
    assert (done.status, outcome(project)) == (1, ("agent_failed", "the model said no"))
    assert done.json["exit_code"] == exit_code


def test_a_completed_turn_and_a_bad_exit_are_both_told(
    project: Any, packet: Any, standin: Any
) -> None:
    done = play(project, packet, standin(exit=3))
    word, reason = outcome(project)
    assert (done.status, word) == (1, "agent_failed")
    assert reason == "the turn completed, but Codex exited 3"
    assert project.record()["turn"]["status"] == "completed"


def test_a_signal_that_ends_codex_is_named(project: Any, packet: Any, standin: Any) -> None:
    done = play(project, packet, standin(signal=9))
    assert (done.status, done.json["exit_code"]) == (1, -1)
    assert outcome(project)[1] == "the turn completed, but Codex was ended by signal 9"
    assert project.record()["process"]["signal"] == 9


def test_the_error_of_the_stream_is_told_and_not_a_notice_on_stderr(
    project: Any, packet: Any, standin: Any
) -> None:
    codex = standin(
        events=[THREAD, BEGUN, {"type": "error", "message": "boom"}, failed("boom")],
        stderr="Reading additional input from stdin...\n",
        exit=1,
    )
    play(project, packet, codex)
    assert outcome(project) == ("agent_failed", "boom")
    assert "Reading additional" in (project.folder() / "stderr.log").read_text()


def test_reconnect_notices_are_warnings_when_the_turn_completes(
    project: Any, packet: Any, standin: Any
) -> None:
    notices = [{"type": "error", "message": f"Reconnecting... {n}/5"} for n in (1, 2, 3)]
    done = play(project, packet, standin(events=[THREAD, BEGUN, *notices, said("x"), ENDED]))
    events = project.record()["events"]
    assert (done.status, events["warnings"], events["errors"]) == (0, 3, 0)


def test_reconnects_that_run_out_fail_with_the_last_reason(
    project: Any, packet: Any, standin: Any
) -> None:
    notices = [{"type": "error", "message": f"Reconnecting... {n}/2"} for n in (1, 2)]
    codex = standin(events=[THREAD, BEGUN, *notices, failed("the network is gone")], exit=1)
    assert play(project, packet, codex).status == 1
    assert outcome(project) == ("agent_failed", "the network is gone")


@pytest.mark.parametrize("size", [70_000, 3 << 20, 9 << 20])
def test_a_long_line_breaks_nothing(project: Any, packet: Any, standin: Any, size: int) -> None:
    done = play(project, packet, standin(big=size, last="skip"))
    row = project.record()["events"]
    data = (project.folder() / "events.jsonl").read_bytes()
    assert (row["bytes"], row["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert row["bytes"] > size and row["oversize"] == (size > 8 << 20)
    assert len(done.stdout) < 20_000
    if size <= 8 << 20:
        assert done.status == 0
        assert (project.folder() / "final.md").stat().st_size == size


def test_a_last_line_without_a_line_feed_counts(project: Any, packet: Any, standin: Any) -> None:
    codex = standin(events=[THREAD, BEGUN, said("x"), json.dumps(ENDED)])
    assert play(project, packet, codex).status == 0


def test_a_flood_is_stored_whole(project: Any, packet: Any, standin: Any) -> None:
    flood = "y" * (1 << 20) + "\n"
    codex = standin(events=[THREAD, BEGUN, *[flood] * 17, said("x"), ENDED], stderr="e" * (1 << 20))
    done = play(project, packet, codex)
    row = project.record()["events"]
    assert (done.status, row["noise"], row["bytes"] > 17 << 20) == (0, 17, True)
    assert (project.folder() / "events.jsonl").stat().st_size == row["bytes"]
    assert project.record()["stderr"]["bytes"] == 1 << 20
    assert len(done.json["commands_run"][0].get("output_excerpt", "")) <= 1000


def test_names_of_other_versions_are_understood_and_unknown_ones_counted(
    project: Any, packet: Any, standin: Any
) -> None:
    old = {"type": "item.completed", "item": {"id": "1", "item_type": "assistant_message",
                                              "text": "old"}}  # fmt: skip
    events = [THREAD, BEGUN, {"type": "news.flash"}, old, ENDED]
    done = play(project, packet, standin(events=events, last="skip"))
    assert (done.status, project.record()["events"]["unknown"]) == (0, {"news.flash": 1})
    assert (project.folder() / "final.md").read_text() == "old"


def test_the_last_message_before_the_end_is_the_final_one(
    project: Any, packet: Any, standin: Any
) -> None:
    codex = standin(events=[THREAD, BEGUN, said("first"), said("second"), ENDED], last="skip")
    play(project, packet, codex)
    assert (project.folder() / "final.md").read_text() == "second"


def test_commands_that_all_failed_in_the_sandbox_are_no_work(
    project: Any, packet: Any, standin: Any
) -> None:
    item = {
        "id": "1",
        "type": "command_execution",
        "command": "ls",
        "exit_code": 1,
        "status": "failed",
        "aggregated_output": "bwrap: No permissions to create a new namespace\n",
    }
    events = [THREAD, BEGUN, {"type": "item.completed", "item": item}, said("done"), ENDED]
    done = play(project, packet, standin(events=events))
    word, reason = outcome(project)
    assert (done.status, word) == (1, "no_work")
    assert "sandbox could not start" in reason
    assert project.record()["events"]["sandbox_errors"] == 1


def test_refused_tools_are_named(project: Any, packet: Any, standin: Any) -> None:
    item = {"id": "1", "type": "mcp_tool_call", "server": "s", "tool": "t", "status": "failed",
            "error": {"message": "user cancelled MCP tool call"}}  # fmt: skip
    events = [THREAD, BEGUN, {"type": "item.completed", "item": item}, said("x"), ENDED]
    play(project, packet, standin(events=events))
    (row,) = project.record()["events"]["refused_tools"]
    assert (row["server"], row["tool"]) == ("s", "t")


@pytest.mark.parametrize("line", ["sleep 600 &", "setsid sleep 600 &", "trap '' TERM; sleep 600"])
def test_what_a_worker_leaves_behind_is_ended_and_the_run_ends_with_its_leader(
    project: Any, packet: Any, standin: Any, line: str
) -> None:
    began = time.monotonic()
    done = play(project, packet, standin(spawn=line), "--grace", "0.5")
    assert done.status == 0
    assert time.monotonic() - began < 20
    assert project.idle(2)
    assert project.record()["process"]["cleaned"]


def test_events_before_a_limit_are_kept(project: Any, packet: Any, standin: Any) -> None:
    events = [THREAD, BEGUN, said("one"), said("two"), {"type": "item.started", "item": {}}]
    codex = standin(events=events, hang_at=5, spawn="sleep 600")
    given = {"execution.timeout_seconds": 2}
    done = play(project, packet, codex, "--grace", "1", **given)
    record = project.record()
    assert (done.status, record["outcome"]) == (124, "timeout_wall")
    assert (done.json["exit_code"], done.json["timed_out"]) == (-1, True)
    assert record["events"]["lines"] == 5
    assert record["final_message"]["source"] == "events"
    assert record["usage"]["run"] is None
    assert len(done.json["commands_run"]) == 1
    assert done.json["verdict"]["status"] == "ERROR"
    assert project.idle(2)


def test_heartbeats_are_no_progress(project: Any, packet: Any, standin: Any) -> None:
    beats = [row for _ in range(100) for row in ({"type": "heartbeat"}, {"wait": 0.1})]
    done = play(project, packet, standin(events=[THREAD, BEGUN, *beats]), "--idle-limit", "1")
    record = project.record()
    assert (done.status, record["outcome"]) == (124, "timeout_idle")
    assert record["reason"] == "no progress for 1 s"


def test_a_slow_command_is_progress_while_it_runs(project: Any, packet: Any, standin: Any) -> None:
    item = {"id": "1", "type": "command_execution", "command": "make", "exit_code": 0,
            "status": "completed"}  # fmt: skip
    events = [THREAD, BEGUN, {"type": "item.started", "item": item}, {"wait": 1.5},
              {"type": "item.completed", "item": item}, said("x"), ENDED]  # fmt: skip
    assert play(project, packet, standin(events=events), "--idle-limit", "0.5").status == 0


def test_no_event_within_the_start_limit_is_a_failed_launch(
    project: Any, packet: Any, standin: Any
) -> None:
    done = play(project, packet, standin(hang_at=0), "--start-limit", "0.5", "--grace", "1")
    word, reason = outcome(project)
    assert (done.status, word) == (69, "launch_failed")
    assert "no event within 0.5 s" in reason and "stdin" in reason
    assert done.json["timed_out"] is True


def test_a_packet_without_a_stream_is_judged_by_exit_message_and_tree(
    project: Any, packet: Any, standin: Any
) -> None:
    argv = [word for word in packet()["execution"]["argv"] if word != "--json"]
    codex = standin(events=["The answer.\n"], last="skip")
    done = play(project, packet, codex, argv=argv)
    record = project.record()
    assert (done.status, record["turn"]["status"]) == (0, "unknown")
    assert (record["thread"]["id"], record["usage"]["run"]) == (None, None)
    assert record["usage"]["reason"] == "no event stream asked for"
    assert "codex_session_id" not in done.json
    assert (project.folder() / "final.md").read_text() == "The answer."


def test_a_packet_without_a_stream_whose_codex_fails_is_told_by_stderr(
    project: Any, packet: Any, standin: Any
) -> None:
    argv = [word for word in packet()["execution"]["argv"] if word != "--json"]
    codex = standin(events=[], last="skip", stderr="ERROR: You've hit your usage limit.\n", exit=1)
    done = play(project, packet, codex, argv=argv)
    assert (done.status, outcome(project)[0]) == (75, "quota")


def test_a_stream_goes_to_the_file_that_the_packet_names(
    project: Any, packet: Any, standin: Any
) -> None:
    done = play(project, packet, standin(), **{"output.jsonl_path": "logs/run one.jsonl"})
    assert done.status == 0
    assert project.record()["events"]["path"] == "../../../logs/run one.jsonl"
    lines = (project.top / "logs" / "run one.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["type"] == "turn.completed"
    assert done.json["changed_files"] == ["made.txt"]  # our own file is not the worker's


def test_a_thread_that_was_not_asked_for_is_a_lost_session(
    project: Any, packet: Any, standin: Any
) -> None:
    asked = "01998000-0000-7000-8000-00000000000b"
    argv = packet()["execution"]["argv"]
    done = play(
        project,
        packet,
        standin(resume_id=THREAD["thread_id"]),
        argv=[*argv[:-1], "--cd", str(project.top), "resume", asked, "-"],
        resume={"policy": "session-id", "session_id": asked, "allow_resume": True},
    )
    word, reason = outcome(project)
    assert (done.status, word) == (76, "session_lost")
    assert asked in reason and THREAD["thread_id"] in reason


def test_a_command_line_that_codex_does_not_take_is_a_config_error(
    project: Any, packet: Any, standin: Any
) -> None:
    codex = standin(events=[], exit=2, stderr="error: unexpected argument '--json' found\n")
    done = play(project, packet, codex)
    assert (done.status, outcome(project)[0]) == (78, "config_error")
