"""Which step of a script answers a request."""

from __future__ import annotations

from typing import Any

import pytest
from waybill.base.exits import DATA, Fault
from waybill.rehearsal import script


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def output(text: object = "", kind: str = "function_call_output") -> dict[str, Any]:
    return {"type": kind, "call_id": "c", "output": text}


ASSISTANT = {"type": "message", "role": "assistant", "content": [{"text": "task"}]}
THREE = [{"exec": "one"}, {"exec": "two"}, {"say": "three"}]


def picked(document: object, *items: dict[str, Any]) -> script.Step:
    return script.load(document).pick({"input": list(items)})


@pytest.mark.parametrize(
    ("items", "number"),
    [
        ([user("go")], 0),
        ([user("go"), output()], 1),
        ([user("go"), output(), output(kind="custom_tool_call_output")], 2),
        ([user("go"), output(kind="tool_search_output")], 1),
        ([user("go"), output(), user("again")], 0),
        ([user("go"), output(), user("again"), output()], 1),
        ([user("go"), {"type": "function_call", "name": "x"}, ASSISTANT], 0),
        ([], 0),
    ],
)
def test_the_step_is_the_number_of_outputs_after_the_last_user_message(
    items: list[dict[str, Any]], number: int
) -> None:
    assert picked(THREE, *items) == script.Step(THREE[number], 0, number)


def test_past_its_end_a_script_says_that_it_is_over() -> None:
    step = picked(THREE, user("go"), output(), output(), output())
    assert (step.play, step.script, step.number) == ({"say": "(script over)"}, 0, None)


def test_several_calls_of_one_step_count_as_one_step() -> None:
    steps = [{"calls": [{"exec": "a"}, {"exec": "b"}]}, {"say": "both"}]
    assert picked(steps, user("go"), output()).number == 0
    assert picked(steps, user("go"), output(), output()).play == {"say": "both"}


SCRIPTS = {
    "family": "other",
    "model": "other-1",
    "scripts": [
        {"match": "^second line.*end", "steps": [{"say": "first"}]},
        {"match": "task", "steps": [{"say": "second"}]},
    ],
}


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([user("a task")], "second"),
        ([user("one\nsecond line\nto the end, a task")], "first"),
        ([user("<environment_context/>"), user("a task"), ASSISTANT], "second"),
        ([user("x"), {"type": "agent_message", "content": [{"text": "a task"}]}], "second"),
        ([{"type": "agent_message", "content": [{"encrypted_content": "a task"}]}], "second"),
        ([{"role": "user", "content": "a task"}], "second"),
    ],
)
def test_the_first_script_that_matches_the_last_user_message_is_played(
    items: list[dict[str, Any]], said: str
) -> None:
    assert picked(SCRIPTS, *items).play == {"say": said}


def test_a_plain_string_as_input_is_a_user_message() -> None:
    assert script.load(SCRIPTS).pick({"input": "a task"}).play == {"say": "second"}


def test_a_message_that_no_script_matches_is_an_http_error_that_says_so() -> None:
    step = picked(SCRIPTS, user("a task"), output(), user("something else"))
    assert step.play["http"] == 400
    assert "no script of the rehearsal matches" in step.play["body"]["error"]["message"]
    assert "something else" in step.play["body"]["error"]["message"]
    assert (step.script, step.number) == (None, None)


def test_the_compaction_prompt_gets_a_summary_whatever_the_scripts() -> None:
    prompt = user("You are performing a CONTEXT CHECKPOINT COMPACTION. Create a summary.")
    assert picked(SCRIPTS, user("a task"), prompt).play == {"say": script.SUMMARY}


def test_family_and_model_are_kept() -> None:
    rehearsal = script.load(SCRIPTS)
    assert (rehearsal.family, rehearsal.model) == ("other", "other-1")
    assert (script.load(THREE).family, script.load(THREE).model) == (None, None)


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ('{"agent_id": "a-1"}', "a-1"),
        ('Wall time: 1\nOutput:\n{"other":2,"agent_id":"q\\"\\u00e9"}\n', 'q"é'),
        ([{"type": "input_text", "text": '{"agent_id":"parts"}'}], "parts"),
        ('{"agent_id": 7}', "${agent_id}"),
        ("nothing", "${agent_id}"),
    ],
)
def test_a_field_of_an_earlier_output_is_filled_in(text: object, filled: str) -> None:
    steps = [{"exec": "x"}, {"call": "wait", "args": {"targets": ["<${agent_id}>"]}}]
    play = picked(steps, user("go"), output(text)).play
    assert play["args"] == {"targets": [f"<{filled}>"]}


def test_the_newest_output_with_the_field_wins_also_from_an_earlier_turn() -> None:
    old, new = output('{"f": "old"}'), output('{"f": "new"}')
    assert picked([{"say": "${f}"}], user("a"), old, new, user("b")).play == {"say": "new"}


def test_a_step_that_fails_some_times_goes_on_to_another() -> None:
    step = picked([{"fail_times": 2, "http": 503, "then": {"say": "up"}}], user("go"))
    assert [step.after(n).play for n in range(4)] == [{"http": 503}] * 2 + [{"say": "up"}] * 2
    assert step.after(0).key is None


def test_requests_are_counted_by_key_or_else_by_place() -> None:
    then = {"then": {"say": "up"}}
    named = picked([{"fail_times": 1, "key": "k", **then}], user("go"))
    placed = picked([{"exec": "x"}, {"fail_times": 1, **then}], user("go"), output())
    assert (named.key, placed.key) == ("k", "script 0, step 1")
    assert placed.after(0).play == {"http": 500}


def test_a_match_that_is_no_regular_expression_is_a_fault_with_its_place() -> None:
    with pytest.raises(Fault) as caught:
        script.load({"scripts": [{"match": "(", "steps": THREE}]}, "it.yaml")
    assert caught.value.status == DATA
    assert str(caught.value).startswith("it.yaml: /scripts/0/match: ")
