"""What Codex said: whose verdict counts, and whether an answer fits the schema asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from waybill.packet import answer
from waybill.packet.outcome import Facts

JUDGED = """author: worker-1
judge: reviewer-2
judge_program: codex-cli 0.149.0
judge_model_family: GPT-5
context_id: c-2
VERDICT: PASS
COMMANDS RUN: ./check
"""
OK = {"outcome": "ok"}
FAILED = {"outcome": "verify_failed"}
UNRUN = {"outcome": "verify_not_run"}


def said(
    role: str, message: str | None, **given: Any
) -> tuple[dict[str, Any], Facts, list[dict[str, str]]]:
    """The verdict of the receipt, the facts, and the claims."""
    stream = given.pop("stream", True)
    facts = Facts(role=role, writable=False, stream=stream, **{"commands": ["./check"], **given})
    record: dict[str, Any] = {"claims": []}
    return answer.verdict(role, message, facts, record, stream=stream), facts, record["claims"]


@pytest.mark.parametrize("role", ["validator", "reviewer"])
def test_a_proven_judge_is_named_in_the_receipt(role: str) -> None:
    found, facts, claims = said(role, JUDGED)
    assert found == {
        "status": "PASS",
        "judge_source": "codex-final-message",
        "summary": "author: worker-1",
        "author_id": "worker-1",
        "judge_name": "reviewer-2",
        "judge_program": "codex-cli 0.149.0",
        "judge_model_family": "gpt-5",
    }
    assert (facts.verdict, claims) == ("PASS", [])


@pytest.mark.parametrize(
    ("message", "given", "status", "reason"),
    [
        pytest.param(None, {}, "NO_VERDICT", "no verdict line", id="no message"),
        pytest.param("fine", {}, "NO_VERDICT", "no verdict line", id="no verdict"),
        pytest.param(JUDGED, {"commands": []}, "ERROR", "none was seen", id="nothing was run"),
        pytest.param(JUDGED, {"evidence": [OK]}, "PASS", "", id="beside good evidence"),
        pytest.param(
            JUDGED, {"evidence": [OK, FAILED]}, "ERROR", "failed evidence", id="beside a no"
        ),
        pytest.param(
            JUDGED, {"evidence": [UNRUN]}, "ERROR", "failed evidence", id="beside no answer"
        ),
        pytest.param(
            JUDGED.replace("PASS", "WARN"),
            {"evidence": [FAILED]},
            "ERROR",
            "failed evidence",
            id="a warning beside a no",
        ),
        pytest.param(
            JUDGED.replace("PASS", "FAIL"), {"evidence": [FAILED]}, "FAIL", "", id="both say no"
        ),
    ],
)
def test_a_verdict_that_is_not_borne_out_is_none(
    message: str | None, given: dict[str, Any], status: str, reason: str
) -> None:
    found, facts, _ = said("validator", message, **given)
    assert (found["status"], facts.verdict) == (status, status)
    assert reason in found["summary"]
    assert ("judge_name" in found) == (status in ("PASS", "WARN", "FAIL"))


def test_without_a_stream_the_commands_cannot_be_compared() -> None:
    assert said("reviewer", JUDGED, commands=[], stream=False)[0]["status"] == "PASS"


@pytest.mark.parametrize(
    ("role", "message", "changed", "claims"),
    [
        pytest.param("worker", JUDGED, 1, ["verdict"], id="a worker's verdict"),
        pytest.param("explorer", JUDGED, 0, ["verdict"], id="an explorer's"),
        pytest.param("worker", "VERDICT: PERFECT", 1, ["verdict"], id="one that is no word"),
        pytest.param("worker", "All done!", 0, ["message"], id="words, and nothing changed"),
        pytest.param("worker", "All done!", 1, [], id="words beside a change"),
        pytest.param("worker", None, 0, [], id="nothing said"),
    ],
)
def test_who_does_not_judge_only_claims(
    role: str, message: str | None, changed: int, claims: list[str]
) -> None:
    found, facts, told = said(role, message, changed=changed)
    assert (found["status"], found["judge_source"]) == ("NO_VERDICT", "none")
    assert [claim["kind"] for claim in told] == claims
    assert facts.verdict == "NO_VERDICT"


def test_a_claim_is_bounded() -> None:
    _, _, (claim,) = said("worker", "VERDICT: PASS\n" + "x" * 10_000)
    assert len(claim["text"]) == answer.MOST_CLAIM


SCHEMA = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("message", "schema", "reason"),
    [
        pytest.param("prose", None, None, id="no schema was asked for"),
        pytest.param('{"a": 1}', SCHEMA, None, id="it fits"),
        pytest.param(' {"a": 1}\n', SCHEMA, None, id="with blanks around"),
        pytest.param(None, SCHEMA, "absent", id="no answer"),
        pytest.param("", SCHEMA, "absent", id="an empty one"),
        pytest.param('{"a": "1"}', SCHEMA, "$.a: '1' is not of type", id="it does not fit"),
        pytest.param('```json\n{"a": 1}\n```', SCHEMA, "not JSON", id="a fence around it"),
        pytest.param('{"a": 1, "a": 2}', SCHEMA, "stands twice", id="an ambiguous one"),
        pytest.param('{"a": 1}', False, "False schema", id="a schema that nothing fits"),
        pytest.param("1", {"type": 1}, "cannot be applied", id="a schema that is none"),
        pytest.param("1", {"$ref": "#/a"}, "cannot be applied", id="a reference to nothing"),
        pytest.param('"x"', {"pattern": "("}, "cannot be applied", id="a pattern that is none"),
    ],
)
def test_an_answer_fits_its_schema_or_says_why_not(
    message: str | None, schema: Any, reason: str | None
) -> None:
    found = answer.unfit(message, schema)
    if reason is None:
        assert found is None
    else:
        assert found is not None
        assert reason in found
        assert len(found) < 300


@pytest.mark.filterwarnings("error")
def test_a_schema_cannot_have_files_or_pages_fetched(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"type": "integer"}))
    for reference in (other.as_uri(), "http://127.0.0.1:9/x"):
        found = answer.unfit("1", {"$ref": reference})
        assert found is not None
        assert "cannot be applied" in found


@pytest.mark.parametrize(
    ("message", "given", "shown"),
    [
        pytest.param(" It is done.\n", {"error": "x"}, "It is done.", id="the message"),
        pytest.param(None, {"error": "e", "last_error": "l"}, "e", id="else the turn's error"),
        pytest.param("", {"last_error": "l", "headline": "h"}, "l", id="else the last error"),
        pytest.param(None, {"headline": "h"}, "h", id="else what stderr said"),
        pytest.param(None, {}, "", id="else nothing"),
        pytest.param("x" * 501, {}, "x" * 500 + " […]", id="bounded"),
    ],
)
def test_a_receipt_shows_what_codex_said_last(
    message: str | None, given: dict[str, Any], shown: str
) -> None:
    assert (
        answer.excerpt(message, Facts(role="worker", writable=True, stream=True, **given)) == shown
    )
