"""What is masked, what is left alone, and how often."""

from __future__ import annotations

import base64
import hashlib
import time

import pytest
from waybill.base import masking

SHA = hashlib.sha256(b"").hexdigest()
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("OPENAI_API_KEY", True),
        ("GITHUB_TOKEN", True),
        ("client_secret", True),
        ("DB_PASSWORD", True),
        ("AWS_CREDENTIALS", True),
        ("PATH", False),
        ("HOME", False),
        ("CODEX_HOME", False),
        ("HTTPS_PROXY", False),
    ],
)
def test_a_name_says_whether_its_value_is_secret(name: str, secret: bool) -> None:
    assert masking.is_secret_name(name) == secret


@pytest.mark.parametrize(
    ("text", "masked", "count"),
    [
        pytest.param("x s3cr3t-value y", "x *** y", 1, id="a secret value"),
        pytest.param("s3cr3t-values3cr3t-value", "******", 2, id="twice over"),
        pytest.param("s3cr3t-value-longer", "***", 1, id="one that holds another, whole"),
        pytest.param(
            "short1 and plain-value", "short1 and plain-value", 0, id="short, or no secret"
        ),
        pytest.param("eight888", "***", 1, id="a value of eight characters"),
    ],
)
def test_the_values_of_secret_variables_are_masked(text: str, masked: str, count: int) -> None:
    packet = {"B_TOKEN": "s3cr3t-value-longer", "C_KEY": "short1", "D": "plain-value"}
    mask = masking.Mask({"A_KEY": "s3cr3t-value", "E_SECRET": "eight888"}, packet)
    assert (mask.text(text), mask.count) == (masked, count)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        pytest.param("https://user:pass@host/p", "https://***@host/p", id="a password in a URL"),
        pytest.param("https://token@host", "https://***@host", id="a user alone"),
        pytest.param("https://:pass@host", "https://***@host", id="a password alone"),
        pytest.param(
            "https://u:p@ss@host/x", "https://***@host/x", id="a password with an at sign"
        ),
        pytest.param("https://u:p:q@host", "https://***@host", id="one with a colon"),
        pytest.param("git+ssh://git:pw@h:22/r", "git+ssh://***@h:22/r", id="any scheme"),
        pytest.param(
            "postgres://a:b@h redis://:c@i", "postgres://***@h redis://***@i", id="two URLs"
        ),
        pytest.param("key sk-abcdEFGH1234_-x.", "key ***.", id="a key of a model's provider"),
        pytest.param("sk-proj-abcdefgh12345678", "***", id="a key of a project"),
        pytest.param("ghp_" + "a1B2" * 9, "***", id="a token of GitHub"),
        pytest.param("gho_" + "a1B2" * 9, "***", id="another kind of it"),
        pytest.param("github_pat_11AAAA_" + "a1B2" * 9, "***", id="a fine-grained one"),
        pytest.param("xoxb-1234-5678-abcdEFGH", "***", id="a token of Slack"),
        pytest.param(
            "Authorization: Bearer abc.DEF-123_x=", "Authorization: Bearer ***", id="bearer"
        ),
        pytest.param("bearer  abcdefgh", "bearer  ***", id="a bearer value in small letters"),
        pytest.param(f"id={JWT};", "id=***;", id="a JWT"),
        pytest.param(JWT.rsplit(".", 1)[0] + ".", "***", id="a JWT without a signature"),
    ],
)
def test_tokens_are_known_by_their_shape(text: str, masked: str) -> None:
    mask = masking.Mask()
    assert mask.text(text) == masked
    assert mask.count == masked.count(masking.MASK)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(SHA, id="a digest"),
        pytest.param("sha256:" + SHA, id="a digest with its kind"),
        pytest.param(hashlib.sha1(b"").hexdigest(), id="a commit"),
        pytest.param(base64.b64encode(bytes(range(256))).decode(), id="base64"),
        pytest.param(base64.urlsafe_b64encode(bytes(range(256))).decode(), id="base64 of URLs"),
        pytest.param("0199f3c2-7b1e-7c52-a4f3-1d2e3f405162", id="a thread"),
        pytest.param("https://host:8080/a@b?c=d@e#f@g", id="an at sign after the host"),
        pytest.param("https://host?mail=a@b", id="an at sign in a query"),
        pytest.param("mail a@b.example about it", id="a mail address"),
        pytest.param("desk-reference task-1234567890 risk-assessment", id="words that hold sk-"),
        pytest.param("the bearer of it", id="the word bearer"),
        pytest.param("eyJust.a.word", id="what only begins like a JWT"),
        pytest.param("ghp_short", id="too short for a token"),
    ],
)
def test_evidence_is_left_alone(text: str) -> None:
    mask = masking.Mask({"PATH": "/usr/bin:/bin"})
    assert (mask.text(text), mask.count) == (text, 0)


def test_a_record_is_masked_throughout_but_for_what_is_spared() -> None:
    mask = masking.Mask({"A_KEY": "s3cr3t-value"})
    record = {
        "a": ["s3cr3t-value", {"b": "x s3cr3t-value"}],
        "sha256": "s3cr3t-value",
        "n": [1, None, True],
    }
    assert mask.record(record, spare=["sha256"]) == {
        "a": ["***", {"b": "x ***"}],
        "sha256": "s3cr3t-value",
        "n": [1, None, True],
    }
    assert mask.count == 2
    assert record["a"] == ["s3cr3t-value", {"b": "x s3cr3t-value"}]


@pytest.mark.parametrize("text", ["a.", "a+-", "eyJ-", "https://a", "sk-", "bearer "])
def test_masking_takes_time_in_proportion(text: str) -> None:
    began = time.process_time()
    masking.Mask().text(text * (20_000 // len(text)))
    assert time.process_time() - began < 1
