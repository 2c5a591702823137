"""Canonical bytes: one document, one text, one digest."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from waybill.base import canonical

# Letters, what JSON escapes, what other readers take for the end of a line, and more bytes each.
TEXTS = st.text('ab"\\\0\n\x7f\u2028é名😀', max_size=4)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
DOCUMENTS = st.recursive(
    st.sampled_from([None, True, False]) | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
PROPERTY = settings(max_examples=60, deadline=None, derandomize=True, database=None)


def reordered(document: Any) -> Any:
    """The same document with the keys of every object the other way round."""
    if isinstance(document, dict):
        return {key: reordered(document[key]) for key in reversed(document)}
    if isinstance(document, list):
        return [reordered(held) for held in document]
    return document


@PROPERTY
@given(DOCUMENTS)
def test_the_canonical_text_depends_on_the_document_alone(document: Any) -> None:
    data = canonical.dumps(document)
    assert canonical.dumps(reordered(document)) == data
    assert canonical.dumps(json.loads(data)) == data
    assert json.loads(data) == document


@PROPERTY
@given(DOCUMENTS)
def test_every_form_holds_the_document_and_ends_as_it_should(document: Any) -> None:
    assert json.loads(canonical.pretty(document)) == document
    line = canonical.line(document)
    assert json.loads(line) == document
    assert line.index(b"\n") == len(line) - 1
    assert canonical.pretty(document).endswith(b"\n")


@PROPERTY
@given(DOCUMENTS, DOCUMENTS)
def test_two_documents_share_a_digest_only_when_they_are_one(one: Any, other: Any) -> None:
    same = canonical.dumps(one) == canonical.dumps(other)
    digests = canonical.record_digest("tag", one), canonical.record_digest("tag", other)
    assert (digests[0] == digests[1]) == same


def test_the_canonical_text_has_sorted_keys_no_spaces_and_no_escapes() -> None:
    assert canonical.dumps({"b": [1, "é\n"], "a": None}) == '{"a":null,"b":[1,"é\\n"]}'.encode()


def test_files_keep_the_order_of_their_records() -> None:
    assert canonical.pretty({"b": 1, "a": "é"}) == '{\n  "b": 1,\n  "a": "é"\n}\n'.encode()
    assert canonical.line({"b": 1, "a": "é"}) == '{"b": 1, "a": "é"}\n'.encode()


@pytest.mark.parametrize("form", [canonical.dumps, canonical.pretty, canonical.line])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), "\ud800"])
def test_what_json_cannot_hold_has_no_form(form: Any, value: Any) -> None:
    with pytest.raises(ValueError):
        form({"a": value})


def test_the_digest_of_a_record_covers_its_kind() -> None:
    assert canonical.record_digest("a", {}) != canonical.record_digest("b", {})


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1])
def test_a_file_has_the_digest_of_its_bytes_from_its_start(tmp_path: Path, size: int) -> None:
    data = os.urandom(16) * (size // 16 + 1)
    path = tmp_path / "file"
    path.write_bytes(data[:size])
    with path.open("rb") as stream:
        stream.seek(size // 2)
        found = canonical.descriptor_digest(stream.fileno())
        assert stream.tell() == size // 2
    assert found == (hashlib.sha256(data[:size]).hexdigest(), size)
    assert canonical.digest(data[:size]) == found[0]
