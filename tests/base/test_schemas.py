"""The schemas: sound, strict, complete, and read alike by both implementations."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import jsonschema_rs
import pytest
from specimen import REHEARSAL, grow, mutations
from waybill.base import exits, schema
from waybill.base.exits import Fault

NAMES = sorted(
    path.name.removesuffix(".schema.json") for path in schema.FOLDER.glob("*.schema.json")
)
MUTATIONS = 200  # of each good document; some of them are good too

# Where further keys are the point: arguments, bodies and steps of a model that is played.
OPEN = {
    "rehearsal#/$defs/exec_step",
    "rehearsal#/$defs/plain_step/properties/args",
    "rehearsal#/$defs/plain_step/properties/body",
}
CONDITIONS = {"rehearsal#/if"}
# Said beside references that are strict themselves.
BESIDE = {"rehearsal#/$defs/call_step", "rehearsal#/$defs/step"}

SUBSCHEMA = "not if then else items additionalProperties propertyNames".split()
SUBSCHEMAS = "properties $defs dependentSchemas".split()
LISTS = "oneOf anyOf allOf".split()
KEYWORDS = {
    *("$schema", "$id", "$ref", "title", "description", "default", "type", "const", "enum"),
    *("required", "dependentRequired", "pattern", "format", "minLength", "maxLength", "minItems"),
    *("maxItems", "minimum", "maximum", "exclusiveMinimum", *SUBSCHEMA, *SUBSCHEMAS, *LISTS),
}
FORMATS = {"date-time"}


def parts(found: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema in a schema, with where it stands."""
    if isinstance(found, bool):
        return
    yield path, found
    for key, value in found.items():
        if key in SUBSCHEMA:
            yield from parts(value, f"{path}/{key}")
        elif key in SUBSCHEMAS:
            for name, held in value.items():
                yield from parts(held, f"{path}/{key}/{name}")
        elif key in LISTS:
            for index, held in enumerate(value):
                yield from parts(held, f"{path}/{key}/{index}")


def loose(name: str, found: Any) -> list[str]:
    """What in a schema would be ignored, or would let anything through."""
    wrong = []
    for path, part in parts(found, f"{name}#"):
        wrong += [f"{path}: {key} is no keyword" for key in part if key not in KEYWORDS]
        if part.get("format", "date-time") not in FORMATS:
            wrong.append(f"{path}: format {part['format']} is not checked")
        kinds = part.get("type", [])
        strict = part.get("additionalProperties", True) is not True or path in OPEN | BESIDE
        if not strict and ("properties" in part or "object" in kinds):
            wrong.append(f"{path}: further keys are let through")
        if "array" in kinds and "items" not in part and path not in OPEN | CONDITIONS:
            wrong.append(f"{path}: any item is let through")
        if path not in BESIDE:
            named = part.get("properties", {})
            lost = [key for key in part.get("required", []) if named and key not in named]
            wrong += [f"{path}: {key} is required and not described" for key in lost]
    return wrong


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_sound_and_says_what_it_is(name: str) -> None:
    found = schema.load(name)
    jsonschema.Draft202012Validator.check_schema(found)
    jsonschema_rs.meta.validate(found)
    assert found["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert found["$id"].endswith(f"/{name}.schema.json")
    assert all(found[key].strip() for key in ("title", "description"))


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_strict(name: str) -> None:
    assert loose(name, schema.load(name)) == []


def test_no_two_schemas_have_one_name() -> None:
    for key in ("$id", "title", "description"):
        assert len({schema.load(name)[key] for name in NAMES}) == len(NAMES)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param({"requird": []}, "task#: requird is no keyword", id="a misspelt keyword"),
        pytest.param({"additionalProperties": True}, "task#: further keys", id="further keys"),
        pytest.param(
            {"properties": {"a": {"type": "string", "minLenght": 1}}},
            "task#/properties/a: minLenght is no keyword",
            id="a misspelt keyword below",
        ),
        pytest.param(
            {"properties": {"a": {"format": "date"}}}, "format date is not", id="an unknown format"
        ),
        pytest.param({"properties": {"a": {"type": "array"}}}, "any item", id="an open list"),
        pytest.param({"required": ["objectiv"]}, "objectiv is required", id="a misspelt key"),
    ],
)
def test_a_schema_that_is_not_strict_would_be_noticed(change: dict[str, Any], said: str) -> None:
    (wrong,) = loose("task", {**schema.load("task"), **change})
    assert said in wrong


def good(name: str) -> list[Any]:
    """Good documents of a record: all that it can hold, and the least."""
    if name == "rehearsal":
        return [REHEARSAL, REHEARSAL["scripts"][0]["steps"]]  # type: ignore[index]
    return [grow(schema.load(name), full=full) for full in (True, False)]


@pytest.mark.parametrize("name", NAMES)
def test_both_implementations_agree_on_every_schema(name: str) -> None:
    slow = jsonschema.Draft202012Validator(
        schema.load(name), format_checker=jsonschema.FormatChecker(formats=())
    )
    slow.format_checker.checks("date-time")(schema._is_date_time)
    answers = []
    for seed, document in enumerate(good(name)):
        assert schema.errors(name, document) == []
        assert slow.is_valid(document)
        for mutated in mutations(document, seed, MUTATIONS):
            answers.append(schema.is_valid(name, mutated))
            assert answers[-1] == slow.is_valid(mutated), json.dumps(mutated)
    # Mutations that were all refused, or all let through, would show nothing.
    assert 20 < answers.count(False) < len(answers)


def test_where_the_two_differ_the_strict_answer_stands() -> None:
    line = grow(schema.load("ledger-line"), full=True)
    # To Python's $, unlike to JSON Schema's, a line end after the last character is nothing.
    line["digest"] += "\n"
    assert not schema.is_valid("ledger-line", line)
    assert schema.errors("ledger-line", line) == [("$", "does not match the ledger-line schema")]


@pytest.mark.parametrize(
    ("text", "is_time"),
    [
        ("2026-01-02T03:04:05Z", True),
        ("2026-01-02T03:04:05.678901+02:00", True),
        ("2026-01-02T03:04:05", False),
        ("2026-01-02", False),
        ("2026-02-30T03:04:05Z", False),
        ("2026-01-02T25:04:05Z", False),
        ("yesterday", False),
        ("", False),
    ],
)
def test_a_time_is_checked_and_not_only_named(text: str, is_time: bool) -> None:
    packet = grow(schema.load("task-packet"), full=True)
    packet["created_at"] = text
    assert schema.is_valid("task-packet", packet) == is_time
    found = schema.errors("task-packet", packet)
    assert [path for path, _ in found] == ([] if is_time else ["$.created_at"])


def test_every_error_is_reported_sorted_with_its_path() -> None:
    packet = grow(schema.load("task-packet"), full=True)
    del packet["role"]
    packet["execution"]["timeout_seconds"] = 0
    packet["evidence"]["artifacts"] = [1]
    packet["extra"] = "x" * 1000
    with pytest.raises(Fault) as caught:
        schema.require("task-packet", packet, "stdin")
    assert (caught.value.status, caught.value.subject) == (exits.DATA, "stdin")
    lines = [caught.value.message, *caught.value.lines]
    assert [line.split(": ")[0] for line in lines] == [
        *("$", "$", "$.evidence.artifacts[0]", "$.execution.timeout_seconds")
    ]
    assert all("violates schema task-packet" in line and len(line) < 400 for line in lines)
    assert lines[0].endswith("(and 3 more)")


def test_errors_are_not_reported_without_end() -> None:
    packet = grow(schema.load("task-packet"), full=True)
    packet["notes"] = list(range(1000))
    with pytest.raises(Fault, match=r"\(and 999 more\)") as caught:
        schema.require("task-packet", packet, "stdin")
    assert len(caught.value.lines) == schema.MOST_ERRORS - 1


def test_a_valid_document_is_handed_on() -> None:
    packet = grow(schema.load("task-packet"), full=True)
    assert schema.require("task-packet", packet, "stdin") is packet


# The published contract, version 1: what each object holds, and with * what it must hold.
CONTRACT = {
    "task-packet": {
        "$": "schema_version* packet_id* created_at* objective* role* cwd* allowed_paths"
        " forbidden_actions sandbox* auth* dispatch* execution* output* evidence* resume"
        " stop_condition* notes",
        "$.auth": "required_mode* reject_env* login_status_must_contain* forbid_api_key*",
        "$.dispatch": "mode* mutates_repo* command* notes",
        "$.execution": "argv* stdin* timeout_seconds* prompt_path output_schema_path environment",
        "$.execution.stdin": "mode* close_after_prompt*",
        "$.output": "capture_mode* final_message_path* jsonl_path schema_path receipt_path*",
        "$.evidence": "receipt_path* required_commands* artifacts",
        "$.resume": "policy* session_id allow_resume*",
    },
    "run-receipt": {
        "$": "schema_version* receipt_id* packet_id* codex_session_id started_at* ended_at* cwd*"
        " sandbox* auth_mode* auth_status* command* stdin* timeout_seconds* timed_out* exit_code*"
        " outputs* changed_files* commands_run* verdict* evidence resume_from_session"
        " failure_reason",
        "$.command": "argv*",
        "$.stdin": "mode* closed_at* bytes_written*",
        "$.outputs": "final_message_path* jsonl_path schema_path receipt_path*",
        "$.commands_run[]": "command* exit_code* output_excerpt",
        "$.verdict": "status* judge_source* summary* author_id judge_name judge_program"
        " judge_model_family",
        "$.evidence[]": "path* kind*",
    },
}
VALUES = {
    "task-packet": {
        "$.schema_version": [1],
        "$.role": ["worker", "validator", "reviewer", "explorer"],
        "$.sandbox": ["read-only", "workspace-write", "danger-full-access"],
        "$.auth.required_mode": ["chatgpt-subscription"],
        "$.auth.login_status_must_contain": ["Logged in using ChatGPT"],
        "$.auth.forbid_api_key": [True],
        "$.dispatch.mode": ["non-mutating"],
        "$.dispatch.mutates_repo": [False],
        "$.execution.stdin.mode": ["closed", "pipe-prompt", "inherit-interactive"],
        "$.output.capture_mode": ["output-last-message", "jsonl", "output-schema"],
        "$.resume.policy": ["none", "session-id", "last-session-in-cwd"],
    },
    "run-receipt": {
        "$.schema_version": [1],
        "$.sandbox": ["read-only", "workspace-write", "danger-full-access"],
        "$.auth_mode": ["chatgpt-subscription", "api-key", "unknown"],
        "$.stdin.mode": ["closed", "pipe-prompt", "inherit-interactive"],
        "$.verdict.status": ["PASS", "WARN", "FAIL", "ERROR", "NO_VERDICT"],
        "$.evidence[].kind": [
            *("schema", "contract", "fixture", "test-log", "final-message", "jsonl")
        ],
    },
}


def described(found: dict[str, Any], path: str = "$") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every value that a schema describes, by its JSON path."""
    yield path, found
    for name, held in found.get("properties", {}).items():
        yield from described(held, f"{path}.{name}")
    if "items" in found:
        yield from described(found["items"], f"{path}[]")


@pytest.mark.parametrize("name", CONTRACT)
def test_the_published_records_hold_what_the_contract_says_and_nothing_else(name: str) -> None:
    objects, values = {}, {}
    for path, part in described(schema.load(name)):
        if "properties" in part:
            must = part["required"]
            objects[path] = {key + "*" * (key in must) for key in part["properties"]}
        if "enum" in part or "const" in part:
            values[path] = part.get("enum", [part.get("const")])
    assert objects == {path: set(text.split()) for path, text in CONTRACT[name].items()}
    assert values == VALUES[name]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param("auth.forbid_api_key", False, id="a packet that allows an API key"),
        pytest.param("auth.required_mode", "api-key", id="another login"),
        pytest.param("auth.reject_env", [], id="no forbidden variable"),
        pytest.param("auth.login_status_must_contain", "Logged in", id="a weaker phrase"),
        pytest.param("auth.extra", 1, id="an unknown key below"),
        pytest.param("author_identity", "x", id="an unknown key"),
        pytest.param("created_at", None, id="no creation time"),
        pytest.param("output.capture_mode", "stdout", id="another capture mode"),
        pytest.param("sandbox", "none", id="another sandbox"),
        pytest.param("execution.stdin.mode", "inherit", id="another stdin"),
        pytest.param("execution.argv", [], id="no command"),
        pytest.param("execution.timeout_seconds", 0, id="no time"),
        pytest.param("execution.timeout_seconds", 1.5, id="half a second"),
        pytest.param("execution.environment.A", 1, id="a variable that is no text"),
        pytest.param("resume.policy", "last", id="another way to resume"),
        pytest.param("schema_version", 2, id="another version"),
        pytest.param("dispatch.mutates_repo", True, id="a dispatch that changes the repository"),
        pytest.param("packet_id", "", id="an empty name"),
    ],
)
def test_a_packet_that_weakens_the_contract_is_refused(path: str, value: Any) -> None:
    packet = copy.deepcopy(grow(schema.load("task-packet"), full=True))
    *parents, last = path.split(".")
    place = packet
    for name in parents:
        place = place[name]
    if value is None:
        del place[last]
    else:
        place[last] = value
    assert schema.errors("task-packet", packet)
