"""The bytes, pauses and cuts of each step."""

from __future__ import annotations

import json
from typing import Any

import pytest
from waybill.rehearsal import wire
from waybill.rehearsal.wire import Drop, Pause

PLAIN: dict[str, Any] = {"tools": [{"name": "exec_command"}], "input": []}
CODE_MODE: dict[str, Any] = {"input": [{"type": "additional_tools", "tools": []}]}


def events(step: dict[str, Any], body: dict[str, Any] = PLAIN) -> list[Any]:
    """The events of a streamed answer, with its pauses and cuts between them."""
    head, *actions = wire.answer(step, body)
    assert isinstance(head, bytes)
    assert head.startswith(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n")
    assert b"transfer-encoding: chunked" in head
    found: list[Any] = []
    for action in actions:
        if not isinstance(action, bytes):
            found.append(action)
            continue
        size, rest = action.split(b"\r\n", 1)
        assert len(rest) == int(size, 16) + 2 and rest.endswith(b"\r\n")
        if rest != b"\r\n":
            kind, data = rest.decode().rstrip().split("\n")
            found.append(json.loads(data.removeprefix("data: ")))
            assert kind == f"event: {found[-1]['type']}"
    whole = actions[-1] == b"0\r\n\r\n"
    assert whole != isinstance(actions[-1], Drop)
    return found


def items(step: dict[str, Any], body: dict[str, Any] = PLAIN) -> list[dict[str, Any]]:
    got = events(step, body)
    assert got[0]["type"] == "response.created" and got[-1]["type"] == "response.completed"
    return [e["item"] for e in got if e["type"] == "response.output_item.done"]


def whole(step: dict[str, Any]) -> tuple[list[str], Any]:
    """The head's lines and the body of an answer in one piece."""
    (data,) = wire.answer(step, PLAIN)
    assert isinstance(data, bytes)
    head, body = data.split(b"\r\n\r\n", 1)
    lines = head.decode().split("\r\n")
    assert f"content-length: {len(body)}" in lines
    return lines, json.loads(body)


def test_a_message_is_added_told_and_done() -> None:
    kinds = [e["type"].removeprefix("response.") for e in events({"say": "hello"})]
    item = ["output_item.added", "output_text.delta", "output_item.done"]
    assert kinds == ["created", *item, "completed"]
    (message,) = items({"say": "hello"})
    assert message["content"][0]["text"] == "hello"


@pytest.mark.parametrize(
    ("step", "name", "arguments"),
    [
        ({"exec": "ls"}, "exec_command", {"cmd": "ls", "login": False}),
        (
            {"exec": "ls", "login": True, "workdir": "/x", "usage": {}, "sleep": 0, "pre": "p"},
            "exec_command",
            {"cmd": "ls", "login": True, "workdir": "/x"},
        ),
        ({"shell": "ls"}, "shell_command", {"command": "ls", "login": False}),
        ({"call": "wait", "args": {"a": [1]}}, "wait", {"a": [1]}),
        ({"call": "wait"}, "wait", {}),
    ],
)
def test_a_call_carries_its_arguments(
    step: dict[str, Any], name: str, arguments: dict[str, Any]
) -> None:
    call = items(step)[-1]
    assert (call["type"], call["name"]) == ("function_call", name)
    assert json.loads(call["arguments"]) == arguments


def test_arguments_given_as_text_are_sent_as_they_are() -> None:
    (call,) = items({"call": "wait", "args": "{broken", "ns": "mcp__x"})
    assert (call["arguments"], call["namespace"]) == ("{broken", "mcp__x")


@pytest.mark.parametrize(
    ("step", "name", "text"),
    [
        ({"patch": "*** Begin"}, "apply_patch", "*** Begin"),
        ({"custom": "other", "input": "raw"}, "other", "raw"),
    ],
)
def test_a_tool_of_free_text_gets_it(step: dict[str, Any], name: str, text: str) -> None:
    (call,) = items(step)
    assert call["type"] == "custom_tool_call"
    assert (call["name"], call["input"]) == (name, text)


def test_several_calls_have_ids_of_their_own() -> None:
    calls = items({"calls": [{"exec": "a"}, {"search": "b"}]})
    assert [call["type"] for call in calls] == ["function_call", "tool_search_call"]
    assert calls[1]["arguments"]["query"] == "b"
    assert len({call["call_id"] for call in calls} | {call["id"] for call in calls}) == 4


@pytest.mark.parametrize(
    ("step", "code"),
    [
        ({"patch": 'a "b"'}, r'text(await tools.apply_patch("a \"b\""));'),
        (
            {"exec": "ls", "workdir": "/x"},
            'const done = await tools.exec_command({"cmd": "ls", "login": false, "workdir": "/x"});'
            "\ntext(done.output);",
        ),
        (
            {"shell": "ls", "timeout_ms": 5},
            'const done = await tools.exec_command({"login": false, "cmd": "ls"});'
            "\ntext(done.output);",
        ),
        ({"code": "text(1)"}, "text(1)"),
    ],
)
def test_in_code_mode_commands_and_patches_are_programs(step: dict[str, Any], code: str) -> None:
    (call,) = items(step, CODE_MODE)
    assert (call["type"], call["name"], call["input"]) == ("custom_tool_call", "exec", code)


def test_in_code_mode_a_program_waits_as_long_as_its_command() -> None:
    (call,) = items({"exec": "sleep 40", "yield_time_ms": 60000}, CODE_MODE)
    assert call["input"].splitlines()[0] == '// @exec: {"yield_time_ms": 65000}'


def test_a_program_outside_code_mode_is_refused() -> None:
    lines, body = whole({"code": "text(1)"})
    assert lines[0] == "HTTP/1.1 400 Bad Request"
    assert "code mode" in body["error"]["message"]


@pytest.mark.parametrize(
    ("step", "usage"),
    [
        ({"say": "x"}, (100, 40, 20, 5, 120)),
        ({"say": "x", "usage": {"input": 7, "output": 2}}, (7, 0, 2, 0, 9)),
        ({"exec": "x", "usage": {"cached": 3, "reasoning": 4}}, (0, 3, 0, 4, 0)),
    ],
)
def test_usage_is_the_steps_or_the_default(step: dict[str, Any], usage: tuple[int, ...]) -> None:
    told = events(step)[-1]["response"]["usage"]
    assert usage == (
        told["input_tokens"],
        told["input_tokens_details"]["cached_tokens"],
        told["output_tokens"],
        told["output_tokens_details"]["reasoning_tokens"],
        told["total_tokens"],
    )


def test_ids_follow_from_the_request_alone() -> None:
    again = {"input": [], "tools": [{"name": "exec_command"}]}
    assert list(wire.answer({"exec": "x"}, PLAIN)) == list(wire.answer({"exec": "x"}, again))
    (other,) = items({"exec": "x"}, {**PLAIN, "prompt_cache_key": "other"})
    assert other["call_id"] != items({"exec": "x"})[0]["call_id"]


def test_reasoning_comes_before_its_message() -> None:
    thought, message = items({"think": "hm", "say": "done"})
    assert (thought["type"], thought["summary"][0]["text"]) == ("reasoning", "hm")
    assert message["content"][0]["text"] == "done"


def test_a_commentary_comes_first() -> None:
    comment, call = items({"pre": "first", "exec": "ls"})
    assert (comment["phase"], comment["content"][0]["text"]) == ("commentary", "first")
    assert call["type"] == "function_call"


def test_a_streamed_message_is_told_word_by_word() -> None:
    got = events({"stream": "a  b\nc", "every": 0.5})
    told = [e if isinstance(e, Pause) else e.get("delta") for e in got[2:-2]]
    assert told == ["a  ", Pause(0.5), "b\n", Pause(0.5), "c"]


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ({"stream": "a b c", "every": 0, "drop_at": 2}, ["a ", "b "]),
        ({"stream": "a b", "every": 0, "drop_at": 9}, ["a ", "b"]),
        ({"drop": "mid"}, ["half "]),
    ],
)
def test_a_cut_comes_after_the_words_told(step: dict[str, Any], told: list[str]) -> None:
    got = events(step)
    assert got[-1] == Drop()
    assert [e["delta"] for e in got[2:-1]] == told


def test_an_early_cut_sends_nothing() -> None:
    assert list(wire.answer({"drop": "early"}, PLAIN)) == [Drop()]


def test_silence_comes_before_the_head_or_after_the_beginning() -> None:
    before, head, *_ = wire.answer({"hang_headers": 3}, PLAIN)
    assert before == Pause(3) and isinstance(head, bytes)
    for step in ({"hang": 3}, {"sleep": 3, "say": "x"}):
        begun, silence, *rest = events(step)
        assert (begun["type"], silence) == ("response.created", Pause(3))
        assert rest[-1]["type"] == "response.completed"


def test_an_answer_can_fail_or_be_incomplete() -> None:
    failed = events({"failed": {"code": "c", "message": "m"}})[-1]
    assert failed["type"] == "response.failed"
    assert failed["response"]["error"] == {"code": "c", "message": "m"}
    cut = events({"incomplete": "max_output_tokens"})[-1]
    assert cut["type"] == "response.incomplete"
    assert cut["response"]["incomplete_details"] == {"reason": "max_output_tokens"}


def test_an_http_answer_has_its_body_and_headers() -> None:
    lines, body = whole({"http": 429, "body": {"a": 1}, "headers": {"Retry-After": 5}})
    assert lines[0] == "HTTP/1.1 429 Too Many Requests"
    assert "retry-after: 5" in lines and body == {"a": 1}
    assert whole({"http": 500})[1] == {"error": {"message": "rehearsed 500"}}


def test_headers_are_sent_with_a_stream_too() -> None:
    head, *_ = wire.answer({"say": "x", "headers": {"X-Codex-Primary-Used-Percent": 99}}, PLAIN)
    assert isinstance(head, bytes) and b"\r\nx-codex-primary-used-percent: 99\r\n" in head


def test_a_usage_limit_is_a_429_with_its_end() -> None:
    lines, body = whole({"usage_limit": 2000000000})
    assert lines[0] == "HTTP/1.1 429 Too Many Requests"
    error = {"type": "usage_limit_reached", "plan_type": "plus", "resets_at": 2000000000}
    assert body == {"error": error}
