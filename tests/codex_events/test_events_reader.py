from __future__ import annotations

import json
import random
import tracemalloc
from pathlib import Path

import pytest
from waybill.codex.events import Reader
from waybill.codex.work import MOST_COMMANDS, MOST_NAMES

RECORDED = Path(__file__).parent / "recorded"
MIB = 1024 * 1024


def jsonl(*events: object) -> bytes:
    return b"".join(json.dumps(event, ensure_ascii=False).encode() + b"\n" for event in events)


def read(*parts: bytes) -> Reader:
    reader = Reader()
    for number, part in enumerate(parts):
        reader.feed(part, float(number))
    reader.close()
    return reader


def item(kind: str, state: str = "completed", **more: object) -> dict[str, object]:
    return {"type": f"item.{state}", "item": {"type": kind, **more}}


def said(text: object) -> dict[str, object]:
    return item("agent_message", text=text)


def ran(exit_code: object, output: str = "", **more: object) -> dict[str, object]:
    status = "completed" if exit_code == 0 else "failed"
    whole = {"aggregated_output": output, "exit_code": exit_code, "status": status}
    return item("command_execution", **{"command": "make", **whole, **more})


THREAD = {"type": "thread.started", "thread_id": "t-1"}
STARTED = {"type": "turn.started"}
USAGE = {
    "input_tokens": 1000,
    "cached_input_tokens": 700,
    "cache_write_input_tokens": 0,
    "output_tokens": 60,
    "reasoning_output_tokens": 5,
}
DONE = {"type": "turn.completed", "usage": USAGE}


def failed(message: object) -> dict[str, object]:
    return {"type": "turn.failed", "error": {"message": message}}


# --- what the real Codex wrote


def test_a_recorded_run_is_read_whole() -> None:
    seen = read((RECORDED / "work.jsonl").read_bytes())
    assert seen.turn == "completed"
    assert seen.thread_id == "01a22e80-2625-7fe1-ba4b-7c60530a54c9"
    assert (seen.message, seen.messages) == ("all done", 2)
    assert [one["exit_code"] for one in seen.work.commands] == [0, 3]
    assert (seen.work.commands_count, seen.work.commands_failed) == (2, 1)
    assert seen.work.file_changes == {"/home/user/project/c.txt": "add"}
    assert seen.usage is not None
    assert seen.usage["input_tokens"] == 400
    assert (seen.lines, seen.recognised, seen.noise, seen.unknown) == (12, 12, 0, {})
    assert seen.work.in_progress == {}


@pytest.mark.parametrize(
    ("name", "turn", "error", "code", "warnings", "errors"),
    [
        ("usage_limit", "failed", "You've hit your usage limit.", None, 0, 1),
        ("model_unknown", "failed", "The model `x` does not exist", "model_not_found", 0, 1),
        ("reconnected", "completed", None, None, 2, 0),
        ("reconnects_ran_out", "failed", "stream disconnected before", None, 2, 1),
        ("resumed", "completed", None, None, 1, 0),
    ],
)
def test_recorded_ends_of_a_turn(
    name: str, turn: str, error: str | None, code: str | None, warnings: int, errors: int
) -> None:
    seen = read((RECORDED / f"{name}.jsonl").read_bytes())
    assert (seen.turn, seen.warnings, seen.errors) == (turn, warnings, errors)
    assert seen.error_code == code
    assert (seen.error or "").startswith(error or "")
    assert (seen.error is None) == (error is None)


def test_a_recorded_refused_tool_is_named_and_a_call_in_prose_is_flagged() -> None:
    seen = read((RECORDED / "tool_refused.jsonl").read_bytes())
    error = "MCP tool call requires approval, but approval policy is never"
    assert seen.work.refused == [{"server": "mini", "tool": "add", "error": error}]
    assert seen.message_is_call


# --- the end of a turn


def test_no_event_but_the_end_of_a_turn_ends_it() -> None:
    seen = read(
        jsonl(THREAD, STARTED, said("all files updated"), {"type": "error", "message": "x"})
    )
    assert seen.turn == "started"
    assert (seen.message, seen.last_error, seen.error) == ("all files updated", "x", None)
    assert seen.usage is None


def test_a_stream_cut_within_a_line_keeps_what_came_before() -> None:
    whole = jsonl(THREAD, STARTED, said("provisional"), DONE)
    seen = read(whole[:-20])
    assert (seen.turn, seen.message, seen.noise) == ("started", "provisional", 1)


def test_a_last_line_without_newline_counts_at_close() -> None:
    reader = Reader()
    reader.feed(jsonl(STARTED) + jsonl(DONE).rstrip(), 1.0)
    assert reader.turn == "started"
    reader.close()
    assert reader.turn == "completed"


def test_nothing_recognised_is_visible() -> None:
    assert read().recognised == 0
    seen = read(jsonl({"type": "start"}, {"event": "done"}, {"type": 5}))
    assert (seen.lines, seen.recognised, seen.turn) == (3, 0, "none")
    assert seen.unknown == {"start": 1, "(no type)": 2}


def test_only_the_last_message_before_the_end_counts() -> None:
    seen = read(jsonl(STARTED, said("note"), said("result"), DONE, said("afterthought")))
    assert (seen.message, seen.messages, seen.late_messages) == ("result", 3, 1)


def test_the_state_follows_the_last_turn() -> None:
    seen = read(jsonl(STARTED, said("one"), DONE, STARTED, item("reasoning", text="hm")))
    assert (seen.turn, seen.message) == ("started", None)
    seen = read(jsonl(STARTED, failed("boom"), STARTED, said("two"), DONE))
    assert (seen.turn, seen.error, seen.message) == ("completed", None, "two")


def test_a_failed_turn_without_a_reason_takes_the_last_one_given() -> None:
    notice = {"type": "error", "message": "Reconnecting... 5/5 (connection refused)"}
    seen = read(jsonl(STARTED, notice, {"type": "turn.failed"}))
    assert (seen.turn, seen.error) == ("failed", "Reconnecting... 5/5 (connection refused)")
    seen = read(jsonl(STARTED, notice, {"type": "error", "message": "boom"}, failed("")))
    assert seen.error == "boom"
    assert read(jsonl(STARTED, {"type": "turn.failed", "error": 3})).error


def test_an_error_item_is_a_warning_and_no_end() -> None:
    seen = read(jsonl(STARTED, item("error", message="Model metadata for `x` not found."), DONE))
    assert (seen.turn, seen.warnings, seen.errors) == ("completed", 1, 0)
    assert seen.last_warning == "Model metadata for `x` not found."


# --- numbers


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (USAGE, USAGE),
        ({**USAGE, "total_tokens": 1060}, USAGE),
        (None, None),
        ({}, None),
        ([1], None),
        ({"input_tokens": 7}, {**dict.fromkeys(USAGE), "input_tokens": 7}),
        ({"input_tokens": "7", "output_tokens": 1.0, "cached_input_tokens": True}, None),
        ({**USAGE, "output_tokens": -1}, {**USAGE, "output_tokens": None}),
        ({**USAGE, "output_tokens": 10**40}, {**USAGE, "output_tokens": None}),
    ],
)
def test_unknown_usage_stays_unknown(given: object, expected: object) -> None:
    assert read(jsonl(STARTED, {"type": "turn.completed", "usage": given})).usage == expected


def test_usage_is_that_of_the_last_completed_turn() -> None:
    more = {**USAGE, "input_tokens": 1800}
    assert read(jsonl(DONE, {"type": "turn.completed", "usage": more})).usage == more
    assert read(jsonl(DONE, {"type": "turn.completed"})).usage is None


# --- progress


def test_only_items_turns_and_threads_are_progress() -> None:
    quiet = jsonl(
        {"type": "error", "message": "Reconnecting... 1/5"},
        {"type": "rate_limits.updated"},
        {"type": "heartbeat"},
        {"msg": {"type": "token_count", "info": {"total_token_usage": USAGE}}},
        item("error", message="careful"),
    )
    seen = read(b"noise\n", jsonl(THREAD), jsonl(said("x")), quiet, b"\n\n")
    assert (seen.first_event_at, seen.last_progress_at) == (1.0, 2.0)
    seen = read(quiet)
    assert (seen.first_event_at, seen.last_progress_at) == (0.0, None)


def test_items_are_in_progress_until_completed_or_the_turn_ends() -> None:
    start = item("command_execution", "started", id="item_1", command="sleep 9")
    seen = read(jsonl(STARTED, start, start, item("reasoning", id="item_2")))
    assert {key: one.command for key, one in seen.work.in_progress.items()} == {"item_1": "sleep 9"}
    assert seen.work.items == {"reasoning": 1}
    for end in (DONE, failed("x"), ran(0, id="item_1")):
        assert read(jsonl(STARTED, start, start, end)).work.in_progress == {}


# --- commands, files, tools


@pytest.mark.parametrize(
    "output",
    [
        "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted\n",
        "thread 'main' (7) panicked at linux-sandbox/src/linux_run_main.rs:30:9:\n"
        "error running landlock: Sandbox(LandlockRestrict)\n",
        "Failed to create ruleset\n",
        "sandbox-exec: sandbox_apply: Operation not permitted\n",
        "warning: no bubblewrap on PATH\n\nError calling `seccomp`: EINVAL\n",
    ],
)
def test_a_sandbox_that_cannot_start_is_told_from_a_command_that_fails(output: str) -> None:
    seen = read(jsonl(STARTED, ran(1, output), ran(2, "ls: no such file"), DONE)).work
    assert (seen.commands_failed, seen.sandbox_failed) == (2, 1)
    assert seen.sandbox_errors[0]["error"] in output
    assert read(jsonl(ran(0, output))).work.sandbox_failed == 0


def test_the_last_thousand_commands_are_kept_and_all_are_counted() -> None:
    seen = read(jsonl(*(ran(n % 2, command="x" * 9000) for n in range(MOST_COMMANDS + 5)))).work
    assert (seen.commands_count, seen.commands_failed) == (
        MOST_COMMANDS + 5,
        MOST_COMMANDS // 2 + 2,
    )
    assert len(seen.commands) == MOST_COMMANDS
    assert {len(str(one["command"])) for one in seen.commands} == {4000}


@pytest.mark.parametrize("code", [None, "0", 1.5, True, 10**30, [1]])
def test_an_exit_code_that_is_no_number_is_unknown(code: object) -> None:
    command = {"aggregated_output": "", "exit_code": code, "status": "completed"}
    seen = read(jsonl(item("command_execution", command=["a"], **command))).work
    assert list(seen.commands) == [{"command": None, "exit_code": None, "status": "completed"}]
    assert seen.commands_failed == 0


def test_failed_changes_change_no_file() -> None:
    changes = [{"path": "/p/a", "kind": "add"}, {"path": "/p/a", "kind": "update"}, {"path": 3}, 4]
    good = item("file_change", changes=changes, status="completed")
    bad = item("file_change", changes=[{"path": "/p/b", "kind": "add"}], status="failed")
    seen = read(jsonl(good, bad, item("file_change", changes="x"))).work
    assert (seen.file_changes, seen.file_changes_count) == ({"/p/a": "update"}, 2)


def test_only_an_approval_makes_a_failed_tool_a_refused_one() -> None:
    def tool(error: object) -> dict[str, object]:
        return item("mcp_tool_call", server="s", tool="t", error=error, status="failed")

    stream = jsonl(
        tool({"message": "user cancelled MCP tool call"}),
        tool({"message": "timed out awaiting tools/call after 3s"}),
        tool(None),
        item("mcp_tool_call", server="s", tool="t", status="completed", error=None),
    )
    seen = read(stream).work
    assert seen.refused_count == 1
    assert seen.refused == [{"server": "s", "tool": "t", "error": "user cancelled MCP tool call"}]
    assert seen.items == {"mcp_tool_call": 4}


@pytest.mark.parametrize(
    ("text", "is_call"),
    [
        ('{"name": "exec_command", "arguments": {"cmd": "ls"}}', True),
        ('```json\n{"name": "shell", "arguments": "{}"}\n```', True),
        ('I will look.\n<tool_call>{"cmd": ["ls"]}</tool_call>', True),
        ('[\n  {"type": "function", "function": {"name": "a", "arguments": "{}"}}\n]', True),
        ('{"blockers": [], "summary": "fine", "needsFix": false}', False),
        ('{"name": "Ada"}', False),
        ('use {"cmd": "ls"} for it', False),
        ("{" * 100_000, False),
        ("all done", False),
    ],
)
def test_a_tool_call_written_as_prose_is_flagged(text: str, is_call: bool) -> None:
    seen = read(jsonl(STARTED, said(text), DONE))
    assert (seen.message, seen.message_is_call, seen.tool_prose) == (text, is_call, int(is_call))


# --- older shapes and unknown ones


def older(kind: str, **more: object) -> dict[str, object]:
    return {"id": "0", "msg": {"type": kind, **more}}


OLDER = [
    {"model": "gpt-5", "workdir": "/p"},
    older("session_configured", session_id="s-1", model="gpt-5"),
    older("task_started"),
    older("agent_reasoning", text="hm"),
    older("exec_command_begin", call_id="c1", command=["bash", "-lc", "make test"]),
    older("exec_command_end", call_id="c1", stdout="", stderr="no\n", exit_code=2),
    older("patch_apply_begin", call_id="p1", changes={"/p/a": {"add": {"content": "x"}}}),
    older("patch_apply_end", call_id="p1", success=True),
    older("stream_error", message="stream error: retrying 1/5"),
    older("token_count", info={"total_token_usage": USAGE}),
    older("agent_message", message="done"),
    older("plan_update"),
]


def test_the_oldest_shape_is_read() -> None:
    seen = read(jsonl(*OLDER, older("task_complete", last_agent_message="done")))
    assert (seen.thread_id, seen.turn, seen.message) == ("s-1", "completed", "done")
    command = {"command": "bash -lc 'make test'", "exit_code": 2, "status": "failed"}
    assert list(seen.work.commands) == [command]
    assert seen.work.file_changes == {"/p/a": None}
    assert (seen.usage, seen.warnings) == (USAGE, 1)
    assert seen.unknown == {"(no type)": 1, "plan_update": 1}
    assert seen.work.in_progress == {}


@pytest.mark.parametrize(
    ("end", "turn", "error"),
    [
        ([], "started", None),
        ([older("error", message="boom")], "started", None),
        ([older("error", message="boom"), older("task_complete")], "failed", "boom"),
        ([older("turn_aborted", reason="interrupted")], "failed", "turn aborted: interrupted"),
        ([older("task_complete", error={"message": "boom"})], "failed", "boom"),
        ([older("task_complete", last_agent_message=None)], "completed", None),
    ],
)
def test_the_oldest_shape_ends_a_turn(end: list[object], turn: str, error: str | None) -> None:
    seen = read(jsonl(*OLDER, *end))
    assert (seen.turn, seen.error) == (turn, error)


def test_the_shape_in_between_is_read() -> None:
    message = {"type": "item.completed", "item": {"item_type": "assistant_message", "text": "hi"}}
    seen = read(jsonl({"type": "session.created", "session_id": "s-2"}, STARTED, message, DONE))
    assert (seen.thread_id, seen.message, seen.work.items) == ("s-2", "hi", {"agent_message": 1})


def test_unknown_names_are_counted_and_bounded() -> None:
    many = ({"type": f"new.{number}"} for number in range(MOST_NAMES + 30))
    seen = read(jsonl(item("hologram"), said("x"), *many))
    assert seen.unknown["item:hologram"] == 1
    assert len(seen.unknown) == MOST_NAMES + 1
    assert seen.unknown["(others)"] == 31
    assert seen.recognised == 2


def test_a_second_thread_does_not_replace_the_first() -> None:
    other = {"type": "thread.started", "thread_id": "t-2"}
    seen = read(jsonl(THREAD, other, THREAD))
    assert (seen.thread_id, seen.thread_ids) == ("t-1", ["t-1", "t-2"])


# --- noise and size


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"   ",
        b"\r",
        b"2026-05-05 ERROR something",
        b"\x00\x00\x00",
        b"\x1b[2J\x1b[0m",
        b"\xff\xfe\xfd",
        b'{"type":"turn.completed","x":"\xe9"}',
        '{"type":"turn.completed"}'.encode("utf-16"),
        b"[1, 2]",
        b'"turn.completed"',
        b"null",
        b'{"type":"turn.completed"',
        b'{"type":"turn.completed"} {"type":"turn.completed"}',
        b'{"a":' * 50_000,
        b"[" * 50_000,
        b'{"type":"turn.completed","n":' + b"9" * 10_000 + b"}",
    ],
)
def test_what_is_no_event_is_noise(line: bytes) -> None:
    seen = read(jsonl(STARTED) + line + b"\n" + jsonl(said("x")))
    assert (seen.turn, seen.message, seen.recognised) == ("started", "x", 2)
    # UTF-16 holds no LF of its own here, so each case is one line.
    assert (seen.lines, seen.noise) == (3, 1)


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"\xef\xbb\xbf", b""), (b"\x1b[0m\x1b[32m", b"\x1b[0m"), (b"\0\0", b"\0"), (b"", b" \r")],
)
def test_an_event_with_dirt_around_it_is_still_read(before: bytes, after: bytes) -> None:
    seen = read(before + jsonl(THREAD).rstrip() + after + b"\n")
    assert seen.thread_id == "t-1"
    assert seen.noise == (after != b" \r")


def test_what_is_kept_can_be_written_again() -> None:
    lone = b'{"type":"item.completed","item":{"type":"agent_message","text":"a\\ud800b"}}\n'
    seen = read(lone, lone.replace(b"agent_message", b"\\udfff"), b'{"type":"\\ud800"}\n')
    assert seen.message == "a?b"
    assert json.dumps(seen.summary(), ensure_ascii=False).encode()


@pytest.mark.parametrize("size", [70_000, 3 * MIB])
def test_a_long_line_is_read_whole(size: int) -> None:
    assert read(jsonl(STARTED, said("é" * size), DONE)).message == "é" * size


def test_a_line_over_the_limit_counts_by_its_type() -> None:
    long = "y" * (8 * MIB)
    start = item("command_execution", "started", id="i1", command="cat log")
    command = item("command_execution", id="i1", command="cat log", aggregated_output=long)
    seen = read(jsonl(STARTED, start), jsonl(command), jsonl(said(long)))
    assert (seen.oversize, seen.recognised, seen.noise) == (2, 4, 0)
    assert (seen.message, seen.message_oversize) == (None, True)
    unknown = {"command": "cat log", "exit_code": None, "status": None}
    assert list(seen.work.commands) == [unknown]
    assert (seen.work.in_progress, seen.last_progress_at) == ({}, 2.0)
    assert read(jsonl(STARTED, {"type": "turn.completed", "pad": long})).turn == "completed"
    seen = read(jsonl({"type": "telemetry", "pad": long}) + long.encode() * 2)
    assert (seen.unknown, seen.oversize, seen.noise) == ({"telemetry": 1}, 2, 1)


def test_a_type_quoted_or_nested_in_a_line_over_the_limit_is_not_its_own() -> None:
    long = "y" * (8 * MIB)
    nested = {"a": {"type": "turn.completed"}, "b": [{"type": "turn.completed"}]}
    quoted = '}} {"type":"turn.completed"} ' + long
    stream = jsonl(STARTED, item("mcp_tool_call", arguments=nested, result=quoted), said(quoted))
    seen = read(stream)
    assert (seen.turn, seen.oversize, seen.message_oversize) == ("started", 2, True)
    assert seen.work.items == {"mcp_tool_call": 1, "agent_message": 1}


def test_memory_stays_flat_while_a_line_grows() -> None:
    reader = Reader()
    chunk = b"y" * MIB
    tracemalloc.start()
    try:
        reader.feed(b'{"type":"item.completed","item":{"type":"agent_message","text":"', 0.0)
        for _ in range(64):
            reader.feed(chunk, 1.0)
        reader.feed(b'"}}\n', 2.0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 12 * MIB
    assert (reader.oversize, reader.message_oversize, reader.last_progress_at) == (1, True, 2.0)


# --- any bytes, any chunks


def corpus() -> bytes:
    parts = [path.read_bytes() for path in sorted(RECORDED.glob("*.jsonl"))]
    oldest = jsonl(*OLDER, older("task_complete"))
    return b"\n\r\n\xef\xbb\xbf" + b"\x1b[0m\n".join([*parts, oldest]) + b'{"type":"turn.st'


def test_the_result_does_not_depend_on_the_chunks() -> None:
    data, dice = corpus(), random.Random(7)
    whole = Reader()
    whole.feed(data, 1.0)
    whole.close()
    assert whole.recognised > 50
    for most in (1, 7, 100, 5000):
        reader, start = Reader(), 0
        while start < len(data):
            step = dice.randint(1, most)
            reader.feed(data[start : start + step], 1.0)
            start += step
        reader.close()
        assert reader.summary() == whole.summary()


def test_no_damage_makes_it_raise() -> None:
    lines, dice = corpus().split(b"\n"), random.Random(11)
    words = [
        b'{"',
        b'":',
        b"null",
        b"[[",
        b"}}",
        b"\n",
        b"\0",
        b"\xff",
        b'"type"',
        b"-1e999",
        b'"\\ud9',
    ]
    for _ in range(500):
        data = bytearray(b"\n".join(dice.sample(lines, 8)))
        for _ in range(dice.randint(1, 12)):
            spot = dice.randrange(len(data) + 1)
            data[spot : spot + dice.randint(0, 9)] = dice.choice(words)
        reader = read(bytes(data))
        assert reader.recognised + reader.noise + sum(reader.unknown.values()) >= reader.lines
        assert json.dumps(reader.summary(), ensure_ascii=False).encode()


@pytest.mark.parametrize("odd", [None, 0, -1.5, True, "x", [], [[]], {}, {"type": []}, "{", '"{}'])
def test_no_value_of_an_odd_kind_makes_it_raise(odd: object) -> None:
    keys = ["id", "command", "changes", "exit_code", "status", "text", "message", "error", "type"]
    kinds = ["command_execution", "file_change", "mcp_tool_call", "agent_message", "error"]
    events: list[object] = [
        {"msg": odd},
        {"type": odd},
        {"type": "thread.started", "thread_id": odd},
    ]
    for kind in kinds:
        for key in keys:
            states = ("started", "updated", "completed")
            events += [
                {"type": f"item.{state}", "item": {"type": kind, key: odd}} for state in states
            ]
    for end in ("turn.completed", "turn.failed", "error", "item.completed"):
        events += [{"type": end, key: odd} for key in ("usage", "error", "message", "item")]
    for kind in [str(one["msg"]["type"]) for one in OLDER if isinstance(one.get("msg"), dict)]:
        more = ("call_id", "command", "changes", "info", "exit_code", "invocation", "result")
        events += [older(kind, **{key: odd}) for key in (*more, "message", "last_agent_message")]
    seen = read(jsonl(*events))
    assert seen.lines == len(events)
    assert seen.recognised > 100
