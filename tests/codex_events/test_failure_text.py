from __future__ import annotations

import json
import time
from datetime import datetime, timedelta, timezone

import pytest
from waybill.codex.failure import LONGEST, classify, headline, unwrap

EAST = timezone(timedelta(hours=2))
NOW = datetime(2033, 5, 16, 1, 2, 3, tzinfo=EAST)


@pytest.fixture
def in_new_york(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


NOT_WITH_CHATGPT = "The 'm' model is not supported when using Codex with a ChatGPT account."

CASES = [
    ("You've hit your usage limit. Upgrade to Pro (https://x.test) or wait.", "quota"),
    ("Quota exceeded. Check your plan and billing details.", "quota"),
    ("You exceeded your current quota, please check your plan", "quota"),
    ("Your workspace is out of credits. Add credits to continue.", "quota"),
    ("insufficient_quota", "quota"),
    ('{"error":{"type":"usage_limit_reached","plan_type":"plus"}}', "quota"),
    ("exceeded retry limit, last status: 429 Too Many Requests", "quota"),
    ('{"error":{"message":"slow down","code":"rate_limit_exceeded"}}', "quota"),
    ("Rate limit reached for gpt-5 on tokens per min (TPM)", "quota"),
    ("Selected model is at capacity. Please try a different model.", "quota"),
    ('unexpected status 503: {"error":{"code":"server_is_overloaded"}}', "quota"),
    ("The model `x` does not exist or you do not have access to it.", "model_unavailable"),
    ("unexpected status 404 Not Found: The model 'x' does not exist", "model_unavailable"),
    (f'unexpected status 400 Bad Request: {{"detail":"{NOT_WITH_CHATGPT}"}}', "model_unavailable"),
    (NOT_WITH_CHATGPT.replace("'m'", "''"), "model_unavailable"),
    ('{"error":{"message":"no","code":"model_not_found"}}', "model_unavailable"),
    ("The 'm' model requires a newer version of Codex. Please upgrade", "model_unavailable"),
    ("model 'llama3' not found, try pulling it first", "model_unavailable"),
    ("Project p does not have access to model m", "model_unavailable"),
    ("unexpected status 401 Unauthorized: Missing bearer, url: http://h:1/v1", "auth"),
    ("exceeded retry limit, last status: 401 Unauthorized", "auth"),
    ("unexpected status 403 Forbidden: no", "auth"),
    ("Not logged in", "auth"),
    ("Your access token could not be refreshed. Please log out and sign in again.", "auth"),
    ("Failed to refresh token: refresh token was already used", "auth"),
    ('{"error":{"message":"Provided token is bad","code":"token_expired"}}', "auth"),
    ("Please log in again", "auth"),
    ("thread 01a2 already has an active writer", "already_running"),
    ("Error: thread/resume failed: no rollout found for thread id 01a2", "session_lost"),
    ("thread not found: 01a2", "session_lost"),
    ("Not inside a trusted directory and --skip-git-repo-check was not specified.", "config_error"),
    ("error: unexpected argument '--full-auto' found", "config_error"),
    ("Error loading config.toml: unknown variant `zzz`", "config_error"),
    ("error: invalid value 'nosuch' for '--sandbox <SANDBOX_MODE>'", "config_error"),
    ("Connection failed: error sending request", "agent_failed"),
    ("connection refused", "agent_failed"),
    ("stream disconnected before completion: idle timeout waiting for SSE", "agent_failed"),
    ("stream disconnected before completion: Incomplete response returned", "agent_failed"),
    ("error sending request for url (http://127.0.0.1:4290/v1/401)", "agent_failed"),
    ("We're currently experiencing high demand, which may cause errors.", "agent_failed"),
    ("Codex ran out of room in the model's context window.", "agent_failed"),
    ("unexpected status 500 Internal Server Error: invalid token in JSON", "agent_failed"),
    ("boom", "agent_failed"),
    ("", "agent_failed"),
]


@pytest.mark.parametrize(("text", "outcome"), CASES)
def test_failure_text_names_an_outcome(text: str, outcome: str) -> None:
    found = classify(text)
    assert found.outcome == outcome
    assert found.sentence
    assert found.retry_at is None


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("usage_limit_exceeded", "quota"),
        ("insufficient_quota", "quota"),
        ("rate_limit_exceeded", "quota"),
        ("server_overloaded", "quota"),
        ("model_not_found", "model_unavailable"),
        ("token_expired", "auth"),
        ("unauthorized", "auth"),
        ("context_window_exceeded", "agent_failed"),
        (None, "agent_failed"),
    ],
)
def test_a_code_decides_where_the_words_do_not(code: str | None, outcome: str) -> None:
    found = classify("it did not work", code)
    assert found.outcome == outcome
    assert found.sentence.endswith("it did not work")


def test_a_burst_limit_and_missing_capacity_are_said_to_be_so() -> None:
    assert classify("last status: 429").sentence == "burst limit: last status: 429"
    assert classify("Selected model is at capacity.").sentence.startswith("capacity: ")
    assert classify("You've hit your usage limit.").sentence == "You've hit your usage limit."


@pytest.mark.usefixtures("in_new_york")
@pytest.mark.parametrize(
    ("said", "retry_at"),
    [
        ("or try again at May 18th, 2033 3:33 AM.", "2033-05-18T03:33:00-04:00"),
        ("or try again at Dec 1st, 2033 12:05 PM.", "2033-12-01T12:05:00-05:00"),
        ("or try again at Jan 2nd, 2034 12:00 AM.", "2034-01-02T00:00:00-05:00"),
        # The day of `now` where Codex runs: still the 15th in New York.
        ("or try again at 8:19 PM.", "2033-05-15T20:19:00-04:00"),
        ("Try again in 3 days 2 hours 1 minute.", "2033-05-19T03:03:03+02:00"),
        ("Please try again in 11.054s. Visit", "2033-05-16T01:02:14+02:00"),
        ("try again in 1m30s", "2033-05-16T01:03:33+02:00"),
        ("or try again at Foo 18th, 2033 3:33 AM.", None),
        ("or try again at Feb 31st, 2033 3:33 AM.", None),
        ("or try again at May 18th, 2033 13:33 PM.", None),
        ("try again in 99999999999999 days", None),
        ("or wait for limits to reset", None),
    ],
)
def test_the_time_of_a_retry_is_taken_from_the_text(said: str, retry_at: str | None) -> None:
    found = classify(f"You've hit your usage limit. {said}", now=NOW)
    assert (found.outcome, found.retry_at) == ("quota", retry_at)


def test_a_relative_time_needs_a_now() -> None:
    assert classify("You've hit your usage limit. Try again in 3 days.").retry_at is None


def test_only_a_quota_has_a_time() -> None:
    assert classify("boom, try again in 5 seconds", now=NOW).retry_at is None


def test_the_reset_time_of_a_raw_provider_error_is_read() -> None:
    raw = json.dumps({"error": {"type": "usage_limit_reached", "resets_at": 1999999999}})
    assert classify(json.dumps(raw)).retry_at == "2033-05-18T03:33:19+00:00"


@pytest.mark.parametrize(
    ("value", "sentence", "code"),
    [
        ("plain  text\n\twith\0blanks\x1b[0m", "plain text with blanks", None),
        ('{"error":{"message":"no such model","code":"m1","type":"t"}}', "no such model", "m1"),
        ('{"error":{"message":"bad","type":"t"}}', "bad", "t"),
        ('{"type":"error","status":400,"error":{"type":"t","message":"bad"}}', "bad", "t"),
        ('{"detail":"bad"}', "bad", None),
        ('{"error":"bad"}', "bad", None),
        ('status 400: {"detail":"bad"}', "status 400: bad", None),
        ('status 400: {"error":{"message":"bad"}}, url: u', "status 400: bad, url: u", None),
        (json.dumps(json.dumps({"error": {"message": "bad"}})), "bad", None),
        ({"message": json.dumps({"error": {"message": "bad", "code": "c"}})}, "bad", "c"),
        (
            {"message": "bad", "codex_error_info": "usage_limit_exceeded"},
            "bad",
            "usage_limit_exceeded",
        ),
        ('template {x}: {"error":{"message":"bad"}}', "template {x}: bad", None),
        ('{"foo": 1}', '{"foo": 1}', None),
        ('{"error":{"code":"c"}}', "c", "c"),
        ("{" * 100_000, "{" * (LONGEST - 1) + "…", None),
        ({"message": 5}, "", None),
        (None, "", None),
        ([], "", None),
        (7, "", None),
        ("a\ud800b", "a?b", None),
    ],
)
def test_nested_errors_become_one_sentence(value: object, sentence: str, code: str | None) -> None:
    assert unwrap(value) == (sentence, code)


def test_a_sentence_is_bounded() -> None:
    assert len(classify("x" * 10_000).sentence) == LONGEST
    assert len(classify("429 " + "x" * 10_000).sentence) == LONGEST


BACKTRACE = """Error: thread/resume failed: no rollout found for thread id 01a2 (code -32600)

Stack backtrace:
   0: <unknown>
             at /rustc/library/std/src/rt.rs:1:1
   1: main
"""
CLAP = """error: unexpected argument '--nosuch' found

  tip: to pass '--nosuch' as a value, use '-- --nosuch'

Usage: codex exec [OPTIONS] [PROMPT]
       codex exec [OPTIONS] <COMMAND> [ARGS]

For more information, try '--help'.
"""
CAUSED = """Error: could not start

Caused by:
    0: no such file
    1: os error 2
"""


@pytest.mark.parametrize(
    ("stderr", "expected"),
    [
        ("", None),
        ("Reading additional input from stdin...\n", None),
        ("Reading prompt from stdin...\nboom\n", "boom"),
        ("WARNING: proceeding, even though we could not create PATH aliases: x\n", None),
        (
            "2026-05-05T01:02:03Z ERROR m::manager: failed to refresh available models: timeout\n",
            None,
        ),
        ("boom\n2026-05-05T01:02:03Z  WARN codex_core: slow\n\n", "boom"),
        ("\x1b[31mboom\x1b[0m\r\n", "boom"),
        ("first\nsecond\n", "second"),
        (
            BACKTRACE,
            "Error: thread/resume failed: no rollout found for thread id 01a2 (code -32600)",
        ),
        (BACKTRACE + "later\n", BACKTRACE.splitlines()[0] + " later"),
        (CLAP, "error: unexpected argument '--nosuch' found"),
        (CAUSED, "Error: could not start Caused by: 0: no such file 1: os error 2"),
        (
            "Error loading config.toml: bad\nin `model`\n",
            "Error loading config.toml: bad in `model`",
        ),
        ("Not inside a trusted directory\n", "Not inside a trusted directory"),
    ],
)
def test_the_headline_of_stderr_is_no_harmless_notice(stderr: str, expected: str | None) -> None:
    assert headline(stderr) == expected
