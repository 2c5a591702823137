"""Every outcome has a test that shows it, with the real Codex wherever that can show it."""

from __future__ import annotations

import ast
from pathlib import Path

from waybill.base.exits import OUTCOMES

TESTS = Path(__file__).resolve().parents[1]

# What the real Codex does not do by itself; a stand-in does it instead.
ONLY_STANDIN = {
    "incomplete_stream": "Codex ends every stream that it begins with an end of the turn",
}


def shown() -> set[tuple[str, str]]:
    """The outcomes that tests are marked with, and by what they show them."""
    found = set()
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef):
                continue
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.outcome":
                    (word,) = mark.args
                    (by,) = mark.keywords
                    found.add((ast.literal_eval(word), ast.literal_eval(by.value)))
    return found


def test_every_outcome_is_shown_by_the_real_codex_or_for_a_reason_by_a_stand_in() -> None:
    found = shown()
    assert {word for word, _ in found} <= set(OUTCOMES)
    real = {word for word, by in found if by == "real"}
    standin = {word for word, by in found if by == "standin"}
    assert set(OUTCOMES) - real == set(ONLY_STANDIN)
    assert set(ONLY_STANDIN) <= standin
