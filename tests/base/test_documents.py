"""Documents from outside: what is read, and everything that is refused."""

from __future__ import annotations

import os
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from waybill.base import document, exits
from waybill.base.exits import Fault


def refusal(data: bytes, *, yaml: bool = False) -> str:
    """The message with which a document is refused as data."""
    with pytest.raises(Fault) as caught:
        document.parse(data, "a file", yaml=yaml)
    assert (caught.value.status, caught.value.subject) == (exits.DATA, "a file")
    return caught.value.message


@pytest.mark.parametrize(
    ("data", "found"),
    [
        pytest.param(
            b'{"a": [1, 2.5, null, true, "\\u00e9"]}',
            {"a": [1, 2.5, None, True, "é"]},
            id="all kinds",
        ),
        pytest.param(b'\xef\xbb\xbf{"a": 1}', {"a": 1}, id="a byte order mark says UTF-8"),
        pytest.param(b' \n"text"\n', "text", id="blanks around"),
        pytest.param(b'"\\u0000"', "\0", id="an escaped NUL is text; rules refuse it by place"),
        pytest.param(b'"\\ud83d\\ude00"', "😀", id="a pair of surrogates is one character"),
        pytest.param(
            b'{"a": {"b": 1}, "c": {"b": 2}}',
            {"a": {"b": 1}, "c": {"b": 2}},
            id="a key again, elsewhere",
        ),
        pytest.param(b"[" * 90 + b"]" * 90, reduce(lambda x, _: [x], range(89), []), id="deep"),
    ],
)
def test_a_sound_json_document_is_read(data: bytes, found: Any) -> None:
    assert document.parse(data, "a file") == found


@pytest.mark.parametrize(
    ("data", "said"),
    [
        pytest.param(b'{"a": 1, "a": 1}', 'key "a" stands twice', id="a repeated key"),
        pytest.param(b'[{"a": {"b": 1, "b": 2}}]', 'key "b" stands twice', id="a nested one"),
        pytest.param(b'{"a": 1, "\\u0061": 1}', 'key "a" stands twice', id="one in disguise"),
        pytest.param(b"[NaN]", "NaN is not a JSON value", id="NaN"),
        pytest.param(b'{"a": Infinity}', "Infinity is not a JSON value", id="Infinity"),
        pytest.param(b"-Infinity", "-Infinity is not a JSON value", id="-Infinity"),
        pytest.param(b"[1e999]", "a number is out of range", id="a number that becomes inf"),
        pytest.param(b"[-1e999]", "a number is out of range", id="one that becomes -inf"),
        pytest.param(b"1" * 5000, "not JSON", id="more digits than Python converts"),
        pytest.param('{"a": 1}'.encode("utf-16"), "not UTF-8 (byte 0)", id="UTF-16 with a mark"),
        pytest.param('{"a": 1}'.encode("utf-16-le"), "not JSON", id="UTF-16 without one"),
        pytest.param('{"a": "é"}'.encode("latin-1"), "not UTF-8 (byte 7)", id="Latin-1"),
        pytest.param(b'"\xed\xa0\x80"', "not UTF-8", id="a surrogate in bytes"),
        pytest.param(b"\xef\xbb\xbf" * 2 + b"{}", "not JSON", id="two byte order marks"),
        pytest.param(b'{"a": "\\ud800"}', "a lone surrogate", id="a lone surrogate"),
        pytest.param(b'{"\\udfff": 1}', "a lone surrogate", id="one in a key"),
        pytest.param(b'"a\0b"', "not JSON", id="a raw NUL in a string"),
        pytest.param(b"{}\0", "not JSON", id="a NUL after the document"),
        pytest.param(b"{} {}", "not JSON: Extra data (line 1, column 4)", id="two documents"),
        pytest.param(b'{"a": 1,}', "not JSON", id="a comma too many"),
        pytest.param(b'{"a":\n  oops}', "(line 2, column 3)", id="the place is named"),
        pytest.param(b"[" * 102 + b"]" * 102, "nested deeper than 100", id="too deep for us"),
        pytest.param(b"[" * 200_000, "nested too deeply", id="too deep for Python"),
        pytest.param(b'{"a":' * 200_000, "nested too deeply", id="objects too deep for Python"),
    ],
)
def test_an_ambiguous_or_broken_json_document_is_refused(data: bytes, said: str) -> None:
    assert said in refusal(data)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param(
            "a: 1\nb: [x, 2.5, null, true]", {"a": 1, "b": ["x", 2.5, None, True]}, id="all kinds"
        ),
        pytest.param("a: 2026-01-31", {"a": "2026-01-31"}, id="a date stays text"),
        pytest.param("a: 2026-01-31T10:00:00Z", {"a": "2026-01-31T10:00:00Z"}, id="so does a time"),
        pytest.param("a: 'no'\nb: \"012\"", {"a": "no", "b": "012"}, id="quoted, it is text"),
        pytest.param("a: |\n  no\n  012\n", {"a": "no\n012\n"}, id="a block is text"),
        pytest.param("a: not on 012 1:30", {"a": "not on 012 1:30"}, id="several words are text"),
        pytest.param("a: 0", {"a": 0}, id="zero is a number"),
        pytest.param('{"a": "no", "b": 1e3}', {"a": "no", "b": 1000.0}, id="JSON stays JSON"),
        pytest.param("\ufeffa: 1", {"a": 1}, id="a byte order mark"),
    ],
)
def test_a_sound_yaml_document_is_read(text: str, found: Any) -> None:
    assert document.parse(text.encode(), "a file", yaml=True) == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("a: no", "'no'", id="no: text or false"),
        pytest.param("a: On", "'On'", id="On: text or true"),
        pytest.param("off: 1", "'off'", id="off as a key"),
        pytest.param("- 012", "'012'", id="012: ten or twelve"),
        pytest.param("a: -07", "'-07'", id="-07"),
        pytest.param("a: 09", "'09'", id="09: text or nine"),
        pytest.param("a: 0o17", "'0o17'", id="0o17: text or fifteen"),
        pytest.param("a: 0b11", "'0b11'", id="0b11: three or text"),
        pytest.param("a: 1:30", "'1:30'", id="1:30: ninety or text"),
        pytest.param("a: 1_000", "'1_000'", id="1_000: a thousand or text"),
        pytest.param("a: 1e3", "'1e3'", id="1e3: text or a thousand"),
        pytest.param("a: .inf", "out of range", id="an infinity"),
        pytest.param("a: .nan", "out of range", id="not a number"),
        pytest.param("a: &x [1]\nb: *x", "aliases are not read", id="an alias"),
        pytest.param("a: 1\na: 2", 'key "a" stands twice', id="a repeated key"),
        pytest.param("a: {b: 1, 'b': 2}", 'key "b" stands twice', id="one in a flow mapping"),
        pytest.param("1: a", "key 1 is not text", id="a key that is a number"),
        pytest.param("? [a]\n: b", "is not text", id="a key that is a list"),
        pytest.param("~: a", "key None is not text", id="a key that is null"),
        pytest.param("<<: {a: 1}", "not YAML", id="a merge key"),
        pytest.param("a: !!python/object/apply:os.system [x]", "tag", id="a tag that would run"),
        pytest.param("a: !!timestamp 2026-01-31", "tag", id="a tag that makes a date"),
        pytest.param("a: !!binary aGk=", "tag", id="a tag that makes bytes"),
        pytest.param("a: !!set {b}", "tag", id="a tag that makes a set"),
        pytest.param("a: !own b", "tag", id="a tag of one's own"),
        pytest.param("a: 1\n--- \nb: 2", "not YAML", id="two documents"),
        pytest.param("a: [1", "not YAML", id="a list without end"),
        pytest.param("a: 'x\0y'", "not YAML", id="a raw NUL"),
        pytest.param('a: "\\ud800"', "a lone surrogate", id="a lone surrogate"),
        pytest.param("[" * 2000 + "]" * 2000, "nested too deeply", id="too deep"),
        pytest.param("- " * 2000 + "a", "nested too deeply", id="too deep in blocks"),
        pytest.param('{"a": 1, "a": 2}', 'key "a" stands twice', id="JSON stays JSON"),
        pytest.param("a: 1\n\tb: 2", "(line 2, column 1)", id="the place is named"),
    ],
)
def test_a_yaml_document_that_two_readers_would_read_differently_is_refused(
    text: str, said: str
) -> None:
    assert said in refusal(text.encode(), yaml=True)


def test_yaml_is_read_only_where_it_is_asked_for() -> None:
    assert "not JSON" in refusal(b"a: 1")


@pytest.mark.parametrize(
    ("made", "said"),
    [
        pytest.param(lambda path: None, "No such file", id="nothing there"),
        pytest.param(lambda path: path.mkdir(), "not a regular file", id="a directory"),
        pytest.param(lambda path: os.mkfifo(path), "not a regular file", id="a FIFO"),
        pytest.param(lambda path: path.touch(), "is empty", id="an empty file"),
        pytest.param(lambda path: path.write_bytes(b" \n\t\n"), "is empty", id="a blank file"),
        pytest.param(lambda path: path.symlink_to(path), "cannot be read", id="a link to itself"),
    ],
)
def test_what_cannot_be_read_is_no_input(tmp_path: Path, made: Any, said: str) -> None:
    path = tmp_path / "packet.json"
    made(path)
    with pytest.raises(Fault, match=said) as caught:
        document.read_bytes(str(path))
    assert (caught.value.status, caught.value.subject) == (exits.NOINPUT, str(path))


def test_a_name_with_a_nul_is_no_input() -> None:
    with pytest.raises(Fault) as caught:
        document.read_bytes("a\0b")
    assert (caught.value.status, caught.value.subject) == (exits.NOINPUT, "a\\x00b")


@pytest.mark.parametrize(("size", "fits"), [(10, True), (11, False)])
def test_a_document_is_bounded(tmp_path: Path, size: int, fits: bool) -> None:
    path = tmp_path / "big"
    path.write_bytes(b"x" * size)
    if fits:
        assert document.read_bytes(str(path), limit=10) == (b"x" * 10, str(path))
        return
    with pytest.raises(Fault, match="larger than 10 bytes") as caught:
        document.read_bytes(str(path), limit=10)
    assert caught.value.status == exits.DATA


def test_a_read_document_comes_with_its_name_and_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'{"a": 1}\n')
    assert document.read(str(path)) == ({"a": 1}, str(path), b'{"a": 1}\n')


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        pytest.param("plain é 名", "plain é 名", id="letters of any script stay"),
        pytest.param("a\nb\x1b[31m", "a\\nb\\x1b[31m", id="controls are escaped"),
        pytest.param("a\u202eb", "a\\u202eb", id="so is what turns the line round"),
        pytest.param("a\udcffb", "a\\udcffb", id="and a byte that is no UTF-8"),
    ],
)
def test_a_name_is_shown_on_one_line(name: str, shown: str) -> None:
    assert document.printable(name) == shown
