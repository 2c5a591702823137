"""The real Codex, driven by scripts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from waybill.rehearsal import home

PATCH = "*** Begin Patch\n*** Add File: added.txt\n+${word}\n*** End Patch"


def test_a_message_ends_a_turn_and_usage_is_told(stage: Any) -> None:
    usage = {"input": 70, "cached": 30, "output": 9, "reasoning": 4}
    turn = stage([{"say": "hello", "usage": usage}]).run()
    assert (turn.status, turn.message) == (0, "hello")
    assert turn.events[-1] == {
        "type": "turn.completed",
        "usage": {
            "input_tokens": 70,
            "cached_input_tokens": 30,
            "cache_write_input_tokens": 0,
            "output_tokens": 9,
            "reasoning_output_tokens": 4,
        },
    }


@pytest.mark.parametrize("model", ["gpt-5.4", "gpt-5.6-terra"])
def test_one_script_suits_models_with_and_without_code_mode(stage: Any, model: str) -> None:
    command = """echo made > made.txt; echo '{"word": "filled"}'"""
    steps = [
        {"pre": "looking", "exec": command},
        {"patch": PATCH},
        {"calls": [{"exec": "true"}, {"shell": "true"}]},
        {"say": "${word}"},
    ]
    on = stage(steps, model)
    turn = on.run()
    assert (turn.status, turn.message) == (0, "filled")
    assert (on.repo / "made.txt").read_text() == "made\n"
    assert (on.repo / "added.txt").read_text() == "filled\n"
    first, *_ = turn.items("command_execution")
    assert first["aggregated_output"] == '{"word": "filled"}\n'
    (change,) = turn.items("file_change")
    assert change["changes"] == [{"path": str(on.repo / "added.txt"), "kind": "add"}]
    assert [item["text"] for item in turn.items("agent_message")] == ["looking", "filled"]
    assert ("tools" in on.requests()[0]["body"]) == (model == "gpt-5.4")
    assert [record["step"]["number"] for record in on.requests()] == [0, 1, 2, 3]


def test_a_program_of_code_mode_runs(stage: Any) -> None:
    code = "const r = await tools.exec_command({cmd: 'echo 1', login: false}); text(r.output);"
    turn = stage([{"code": code}, {"say": "done"}], "gpt-5.6-sol").run()
    (command,) = turn.items("command_execution")
    assert (turn.status, command["aggregated_output"], turn.message) == (0, "1\n", "done")


def test_reasoning_and_a_word_by_word_message_are_seen(stage: Any) -> None:
    turn = stage([{"think": "let me see", "say": "seen"}]).run()
    (thought,) = turn.items("reasoning")
    assert (turn.status, thought["text"], turn.message) == (0, "let me see", "seen")


def test_a_streamed_message_arrives_whole(stage: Any) -> None:
    assert stage([{"stream": "one two  three", "every": 0.01}]).run().message == "one two  three"


def test_a_hanging_answer_ends_with_the_killed_codex(
    stage: Any, connections_end: Callable[[], bool]
) -> None:
    on = stage([{"hang": 600}])
    with on.start() as codex:
        started = [json.loads(codex.stdout.readline())["type"] for _ in range(2)]
        codex.kill()
    assert started == ["thread.started", "turn.started"]
    assert codex.returncode == -9
    assert connections_end()


def test_silence_ends_at_the_homes_patience(stage: Any) -> None:
    on = stage([{"hang": 600}])
    home.write_home(on.home, on.server.base_url, idle_ms=200)
    turn = on.run()
    assert turn.status == 1 and "idle timeout" in turn.error


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ({"drop": "early"}, "error sending request"),
        ({"drop": "mid"}, "stream disconnected before completion"),
        ({"stream": "a b c", "every": 0, "drop_at": 2}, "stream disconnected before completion"),
        ({"http": 500}, "high demand"),
        ({"http": 429}, "429 Too Many Requests"),
        ({"usage_limit": 2000000000}, "You've hit your usage limit"),
        ({"failed": {"code": "insufficient_quota"}}, "Quota exceeded"),
        ({"incomplete": "max_output_tokens"}, "reason: max_output_tokens"),
    ],
)
def test_a_fault_of_the_model_fails_the_turn(stage: Any, step: dict[str, Any], told: str) -> None:
    on = stage([step])
    turn = on.run()
    assert turn.status == 1 and told in turn.error
    assert len(on.requests()) == 1


def test_a_prompt_without_a_script_fails_the_turn(stage: Any) -> None:
    on = stage({"scripts": [{"match": "^go$", "steps": [{"say": "hi"}]}]})
    turn = on.run(prompt="something else")
    assert turn.status == 1
    assert "no script of the rehearsal matches" in turn.error and "something else" in turn.error


def test_a_resumed_thread_starts_the_script_of_its_new_prompt(stage: Any, tmp_path: Path) -> None:
    scripts = [
        {"match": "^first$", "steps": [{"exec": "true"}, {"say": "one"}]},
        {"match": "^second$", "steps": [{"exec": "true"}, {"say": "two"}]},
    ]
    on = stage({"scripts": scripts})
    first = on.run(prompt="first")
    # Another home finds the thread by the sessions folder alone.
    home.write_home(tmp_path / "other", on.server.base_url)
    (tmp_path / "other" / "sessions").symlink_to(on.home / "sessions")
    thread = first.events[0]["thread_id"]
    second = on.run("resume", thread, prompt="second", home=tmp_path / "other")
    assert (first.message, second.message) == ("one", "two")
    assert second.events[0]["thread_id"] == thread


def test_a_sub_agent_plays_a_script_and_its_report_another(stage: Any) -> None:
    ns = {"ns": "multi_agent_v1"}
    wait = {"targets": ["${agent_id}"], "timeout_ms": 10000}
    parent = [
        {"call": "spawn_agent", "args": {"message": "a task"}, **ns},
        {"call": "wait_agent", "args": wait, **ns},
    ]
    scripts = [
        {"match": "^go$", "steps": parent},
        {"match": "^a task$", "steps": [{"say": "done by a child"}]},
        {"match": "subagent_notification.*done by a child", "steps": [{"say": "reported"}]},
    ]
    turn = stage({"scripts": scripts}).run()
    assert (turn.status, turn.message) == (0, "reported")


def test_a_compacted_turn_goes_on_in_the_script_of_its_summary(stage: Any) -> None:
    scripts = [
        {"match": "^go$", "steps": [{"exec": "true", "usage": {"input": 9000}}]},
        {"match": "Rehearsal summary", "steps": [{"say": "went on"}]},
    ]
    turn = stage({"scripts": scripts}).run("-c", "model_auto_compact_token_limit=3000")
    assert (turn.status, turn.message) == (0, "went on")


def test_options_alone_point_codex_at_the_model(stage: Any, tmp_path: Path) -> None:
    on = stage([{"say": "hello"}])
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.toml").write_text('model_provider = "none such"\n')
    options = ["--ignore-user-config", *home.overrides(on.server.base_url), "--model", "gpt-5.4"]
    turn = on.run(*options, home=other)
    assert (turn.status, turn.message) == (0, "hello")
    assert on.requests()[0]["body"]["model"] == "gpt-5.4"


def test_a_model_that_is_gone_fails_the_turn_at_once(stage: Any) -> None:
    on = stage([{"say": "hello"}])
    on.server.close()
    turn = on.run()
    assert turn.status == 1 and "Connection failed" in turn.error
