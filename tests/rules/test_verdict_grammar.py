"""The verdict grammar as a table: what is a clean verdict, and what never passes."""

from __future__ import annotations

import pytest
from waybill.packet import verdict

IDENTITY = """author: worker-1
judge: reviewer-2
judge_program: codex-cli 0.149.0
judge_model_family: gpt-5
context_id: c-2
"""
EVIDENCE = "COMMANDS RUN:\n- ./check\n"


def message(line: str, evidence: str = EVIDENCE, identity: str = IDENTITY) -> str:
    return f"{identity}{line}\n{evidence}REASONS:\nit works\n"


CLEAN = [
    pytest.param("VERDICT: PASS", "PASS", id="a line with one word"),
    pytest.param("verdict = warn", "WARN", id="case and the sign do not matter"),
    pytest.param("**VERDICT: FAIL**", "FAIL", id="emphasis around the line"),
    pytest.param("**VERDICT:** PASS", "PASS", id="emphasis on the word"),
    pytest.param("**Verdict**: `WARN`", "WARN", id="emphasis on both words"),
    pytest.param("- VERDICT: FAIL\r", "FAIL", id="a list, and a carriage return"),
    pytest.param("VERDICT: ERROR", "ERROR", id="an error is a word of the grammar"),
    pytest.param("> VERDICT: PASS", "PASS", id="a quotation mark before it"),
    pytest.param("## VERDICT: PASS", "PASS", id="a heading"),
    pytest.param("```\nVERDICT: PASS\n```", "PASS", id="a fence around it"),
]
NEVER = [
    pytest.param("VERDICT: PASS|FAIL", id="the template echoed"),
    pytest.param("VERDICT: PASS or FAIL", id="a choice"),
    pytest.param("VERDICT: PASSED", id="another word that begins alike"),
    pytest.param("VERDICT: PASS, mostly", id="further words on the line"),
    pytest.param("VERDICT: NOT PASS", id="a negation"),
    pytest.param("VERDICT: MAYBE", id="an unknown word"),
    pytest.param("VERDICT:", id="no word at all"),
    pytest.param("VERDICT: PASS\nVERDICT: FAIL", id="a contradiction"),
    pytest.param("VERDICT: PASS\nVERDICT: PASS", id="a repetition"),
    pytest.param("VERDICT: PASS\n**Verdict**: FAIL", id="a contradiction in other markup"),
    pytest.param("VERDICT: PASS\n> **VERDICT:** FAIL", id="a contradiction in a quotation"),
    pytest.param("VERDICT: PASS\n```\nVERDICT: PASS|WARN|FAIL\n```", id="a template in a fence"),
    pytest.param("VERDICT: PASS\rVERDICT: FAIL", id="a carriage return that hides a second one"),
    pytest.param("VERDICT PASS", id="no sign"),
    pytest.param("VERDICT: <PASS>", id="a placeholder"),
    pytest.param("VERDICT: PASS\n" + "x" * 70_000 + "\nVERDICT: FAIL", id="a long line between"),
    pytest.param("The code is NOT APPROVED because it fails.", id="prose"),
    pytest.param("VERDICT: NOT APPROVED", id="prose on the line"),
    pytest.param("Looks good, ship it", id="praise"),
    pytest.param("My VERDICT: PASS", id="words before it"),
    pytest.param("VERDICT: PASS\u2028VERDICT: FAIL", id="a separator that hides a second one"),
    pytest.param("", id="nothing"),
]


@pytest.mark.parametrize(("line", "status"), CLEAN)
def test_a_clean_verdict_counts(line: str, status: str) -> None:
    assert verdict.judge(message(line), ["./check"]).status == status


@pytest.mark.parametrize("line", NEVER)
def test_anything_else_never_passes(line: str) -> None:
    found = verdict.judge(message(line), ["./check"])
    assert found.status in ("ERROR", "NO_VERDICT")
    assert found.reason


@pytest.mark.parametrize(
    "evidence",
    [
        pytest.param("", id="no section"),
        pytest.param("COMMANDS RUN:\n", id="an empty section"),
        pytest.param("COMMANDS RUN: none\n", id="the word none"),
        pytest.param("COMMANDS RUN:\n- (none)\n", id="the word in brackets"),
        pytest.param("**Commands run:** `None.`\n", id="the word in other markup"),
        pytest.param("COMMANDS RUN:\n```bash\n```\n", id="an empty fence"),
        pytest.param("COMMANDS RUN:\nREASONS: ./check\n", id="the next section"),
        pytest.param("I ran all commands run before.\n", id="words that are no heading"),
        pytest.param("commands_run: N/A.\n", id="not applicable"),
    ],
)
def test_a_verdict_without_command_evidence_is_none(evidence: str) -> None:
    found = verdict.judge(message("VERDICT: PASS", evidence), ["./check"])
    assert (found.status, "COMMANDS RUN" in found.reason) == ("ERROR", True)


def test_commands_that_nobody_saw_are_no_evidence() -> None:
    assert verdict.judge(message("VERDICT: PASS"), []).status == "ERROR"


def test_without_a_stream_to_see_commands_in_the_claim_stands() -> None:
    assert verdict.judge(message("VERDICT: PASS"), None).status == "PASS"


@pytest.mark.parametrize(
    ("change", "gap"),
    [
        (("author: worker-1\n", ""), "missing author"),
        (("judge: reviewer-2\n", ""), "missing judge"),
        (("judge_program: codex-cli 0.149.0\n", ""), "missing program"),
        (("gpt-5", "unknown"), "missing family"),
        (("gpt-5", " N/A "), "missing family"),
        (("judge_model_family: gpt-5\n", ""), "missing family"),
        (("context_id: c-2", "context_id: C-2\nauthor_context_id: c2"), "author_context_id"),
        (("context_id: c-2\n", ""), "missing context_id"),
        (("judge: reviewer-2", "judge: Worker 1"), "author_neq_validator"),
        (("context_id: c-2", "context_id: c-2\nauthor_context_id: c-2"), "author_context_id"),
        (("author:", "allow_self: true\nauthor:"), "waive"),
    ],
)
def test_identity_is_proven_or_the_verdict_is_none(change: tuple[str, str], gap: str) -> None:
    found = verdict.judge(message("VERDICT: PASS", identity=IDENTITY.replace(*change)), ["x"])
    assert (found.status, gap in found.reason) == ("ERROR", True)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("COMMANDS RUN: ./check", id="after the colon"),
        pytest.param("commands_run\n\n1. ./check", id="below, without a colon"),
        pytest.param("## Commands-Run\n```sh\n./check\n```", id="in a fence below a heading"),
    ],
)
def test_command_evidence_is_found_in_its_usual_forms(body: str) -> None:
    found = verdict.judge(message("VERDICT: PASS", body + "\n"), ["./check"])
    assert (found.status, len(found.commands)) == ("PASS", 1)


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("- **Judge_Name**: `x`", "judge"),
        ("* judge-id = 'x'", "judge"),
        ("Validator Program: x", "program"),
        ("model family: x", "family"),
        ("validator_session: x", "context"),
        ("author_name: x", "author"),
    ],
)
def test_identity_is_read_in_its_usual_spellings(line: str, key: str) -> None:
    assert verdict.read(f"{line}\n{line}y\n").identity == {key: "x"}


def test_equal_contexts_are_the_one_gap() -> None:
    told = verdict.read(IDENTITY + "author_context_id: c-2\n").identity
    assert len(verdict.gaps(told)) == 1
