"""What a run came to, when several things are true of it: the published order decides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from waybill.base import exits
from waybill.packet import outcome
from waybill.packet.outcome import Facts

FAILED = {"outcome": "verify_failed", "command": "./check", "reason": None, "exit_code": 3}
UNRUN = {"outcome": "verify_not_run", "command": "./check", "reason": "gone", "exit_code": -1}
GOOD = Facts(role="worker", writable=True, stream=True, changed=1, message="done")

# In the published order: each holds against all that stand below it.
ORDER: list[tuple[str, dict[str, Any]]] = [
    ("refused", {"refusals": ["packet.json was changed"]}),
    ("timeout_wall", {"limit": "wall", "limit_seconds": 2}),
    ("interrupted", {"interrupted": "TERM"}),
    ("session_lost", {"thread_lost": True, "resumed": "a", "thread": "b"}),
    ("quota", {"turn": "failed", "error": "You've hit your usage limit."}),
    ("verify_failed", {"evidence": [FAILED]}),
    ("no_work", {"changed": 0}),
]
SINGLE: list[tuple[str, dict[str, Any]]] = [
    ("ok", {}),
    ("timeout_idle", {"limit": "idle", "limit_seconds": 2}),
    ("launch_failed", {"limit": "start", "limit_seconds": 2, "recognised": 0, "turn": "none"}),
    ("model_unavailable", {"turn": "failed", "error": "model_not_found"}),
    ("auth", {"turn": "failed", "error": "unexpected status 401 Unauthorized"}),
    ("incomplete_stream", {"turn": "none", "recognised": 0}),
    ("incomplete_stream", {"turn": "started"}),
    ("agent_failed", {"turn": "failed", "error": "boom", "exit_code": 1}),
    ("agent_failed", {"exit_code": 1}),
    ("agent_failed", {"exit_code": None, "signal": 9}),
    ("config_error", {"turn": "none", "exit_code": 2, "headline": "unexpected argument '--x'"}),
    ("verify_not_run", {"evidence": [UNRUN]}),
    ("verify_failed", {"evidence": [UNRUN, FAILED]}),
    ("verify_not_run", {"deferred": True}),
    ("no_work", {"artifacts_missing": ["a"]}),
    ("no_work", {"sandbox_failed": True}),
    ("ok", {"changed": 0, "allow_no_change": True}),
    ("ok", {"changed": 0, "artifacts_made": 1}),
    ("no_work", {"role": "explorer", "message": None}),
    ("ok", {"role": "explorer", "writable": False, "changed": 0}),
    ("ok", {"role": "validator", "writable": False, "verdict": "PASS"}),
    ("ok", {"role": "reviewer", "writable": False, "verdict": "WARN"}),
    ("review_rejected", {"role": "reviewer", "writable": False, "verdict": "FAIL"}),
    ("review_unusable", {"role": "reviewer", "writable": False, "verdict": "ERROR"}),
    ("review_unusable", {"role": "validator", "writable": False, "verdict": "NO_VERDICT"}),
    ("review_unusable", {"role": "validator", "message_unfit": "prose"}),
    ("no_work", {"message_unfit": "prose"}),
    ("agent_failed", {"stream": False, "exit_code": 1, "turn": "none"}),
    ("ok", {"stream": False, "turn": "none", "recognised": 0}),
]


@pytest.mark.parametrize(("word", "facts"), [*ORDER, *SINGLE])
def test_one_fact_gives_its_outcome(word: str, facts: dict[str, Any]) -> None:
    found, reason, _ = outcome.decide(replace(GOOD, **facts))
    assert found == word
    assert (reason is None) == (word == "ok")
    assert found in exits.OUTCOMES


@pytest.mark.parametrize("above", range(len(ORDER)))
def test_the_outcome_higher_in_the_order_wins(above: int) -> None:
    for below in range(above + 1, len(ORDER)):
        both = {**ORDER[below][1], **ORDER[above][1]}
        assert outcome.decide(replace(GOOD, **both))[0] == ORDER[above][0], ORDER[below][0]


def test_a_time_to_try_again_is_given_only_where_the_source_named_one() -> None:
    text = "You've hit your usage limit. Try again at May 18th, 2033 3:33 AM."
    named = outcome.decide(replace(GOOD, turn="failed", error=text))
    assert (named[0], named[2] is not None) == ("quota", True)
    unnamed = outcome.decide(replace(GOOD, turn="failed", error="You've hit your usage limit."))
    assert unnamed[2] is None
