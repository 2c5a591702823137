"""Which documents are rehearsals, asked of both validators."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import jsonschema_rs
import pytest

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "schemas" / "rehearsal.schema.json").read_text("utf-8")
)

STEPS: list[dict[str, Any]] = [
    {"say": "x", "usage": {"input": 1}, "sleep": 0.5, "pre": "p", "headers": {"a-b": 1}},
    {"exec": "ls", "workdir": "/x", "tty": True, "sleep": 1},
    {"shell": "ls", "login": True, "timeout_ms": 5},
    {"call": "f", "args": {"free": {"deep": [1]}}, "ns": "n"},
    {"call": "f", "args": "{broken"},
    {"calls": [{"exec": "a", "tty": True}, {"call": "f"}, {"patch": "p"}]},
    {"custom": "f", "input": "x", "ns": "n"},
    {"patch": "p"},
    {"search": "q"},
    {"code": "text(1)"},
    {"think": "t"},
    {"think": "t", "say": "s"},
    {"stream": "a b", "every": 0, "drop_at": 1},
    {"hang": 5},
    {"hang_headers": 0.5},
    {"http": 429, "body": {"any": [1]}, "headers": {"Retry-After": "5"}},
    {"http": 500, "body": "text"},
    {"drop": "early"},
    {"failed": {"code": "c", "message": "m"}},
    {"incomplete": "max_output_tokens"},
    {"fail_times": 2, "http": 503, "key": "k", "then": {"exec": "ls", "tty": False}},
    {"fail_times": 1, "then": {"say": "up"}},
    {"usage_limit": 2000000000},
]

WRONG_STEPS: list[Any] = [
    {"sya": "x"},
    {},
    "say",
    {"say": 1},
    {"say": "x", "exec": "ls"},
    {"say": "x", "patch": "p"},
    {"say": "x", "every": 1},
    {"say": "x", "usage": {"inputs": 1}},
    {"say": "x", "usage": {"input": -1}},
    {"say": "x", "sleep": -1},
    {"say": "x", "headers": {"a b": "c"}},
    {"say": "x", "headers": {"a": "c\r\nd: e"}},
    {"exec": ["ls"]},
    {"exec": "ls", "then": {"say": "x"}},
    {"shell": "ls", "tty": True},
    {"args": {}},
    {"call": "f", "args": [1]},
    {"custom": "f"},
    {"patch": "p", "ns": "n"},
    {"calls": []},
    {"calls": [{"say": "x"}]},
    {"calls": [{"exec": "x", "usage": {}}]},
    {"think": "t", "says": "s"},
    {"http": 99},
    {"http": 500, "then": {"say": "x"}},
    {"drop": "late"},
    {"failed": {"message": "m"}},
    {"fail_times": 1},
    {"fail_times": 1, "then": {"fail_times": 1, "then": {"say": "x"}}},
    {"usage_limit": "soon"},
    {"hang": 1e9},
]

RIGHT: list[Any] = [
    *([step] for step in STEPS),
    {"scripts": [{"match": "x", "steps": STEPS}, {"steps": STEPS}], "family": "f", "model": "m"},
]

WRONG: list[Any] = [
    *([step] for step in WRONG_STEPS),
    [],
    "go",
    None,
    {},
    {"scripts": []},
    {"scripts": [{"match": "x"}]},
    {"scripts": [{"steps": []}]},
    {"scripts": [{"steps": STEPS, "matches": "x"}]},
    {"scripts": [{"steps": STEPS}], "familly": "x"},
    {"scripts": [{"steps": STEPS}], "model": ""},
]


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$id"] == "https://waybill.dev/schemas/rehearsal.schema.json"


def test_every_object_is_closed_but_for_free_arguments() -> None:
    open_ones = []

    def walk(part: Any, path: str) -> None:
        if isinstance(part, dict):
            if "properties" in part and part.get("additionalProperties") is not False:
                open_ones.append(path)
            for key, value in part.items():
                walk(value, f"{path}/{key}")
        elif isinstance(part, list):
            for place, value in enumerate(part):
                walk(value, f"{path}/{place}")

    walk(SCHEMA, "")
    # The second only narrows what the closed steps allow.
    assert open_ones == ["/$defs/exec_step", "/$defs/call_step"]


@pytest.mark.parametrize("document", RIGHT, ids=json.dumps)
def test_a_rehearsal_is_accepted(document: Any) -> None:
    assert jsonschema.Draft202012Validator(SCHEMA).is_valid(document)
    assert jsonschema_rs.validator_for(SCHEMA).is_valid(document)


@pytest.mark.parametrize("document", WRONG, ids=json.dumps)
def test_anything_else_is_refused(document: Any) -> None:
    assert not jsonschema.Draft202012Validator(SCHEMA).is_valid(document)
    assert not jsonschema_rs.validator_for(SCHEMA).is_valid(document)


def test_a_misspelt_key_is_named() -> None:
    errors = jsonschema.Draft202012Validator(SCHEMA).iter_errors([{"say": "x"}, {"sya": "x"}])
    found = [(list(error.absolute_path), error.message) for error in errors]
    unexpected = "Additional properties are not allowed ('sya' was unexpected)"
    assert ([1], unexpected) in found
