"""The ledger: every line chained to the one before, and what breaks the chain is found."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from waybill.base import canonical, exits, schema
from waybill.base.exits import Fault
from waybill.base.files import Folder
from waybill.packet import ledger
from waybill.packet.boundary import LEDGER

Rows = list[bytes]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    """An open folder for a ledger."""
    with Folder.open(tmp_path) as opened:
        yield opened


def add(folder: Folder, number: int, run_id: str | None = None) -> None:
    """Append the line of a generation."""
    receipt, run = b"receipt %d" % number, b"run %d" % number
    ident = run_id or f"run-{number}"
    ledger.append(folder, run_id=ident, attempt=1, by="dispatch", receipt=receipt, run=run)


def bytes_of(folder: Folder) -> bytes:
    return (folder.path / LEDGER).read_bytes()


def check(data: bytes) -> ledger.Ledger:
    return ledger.read(Path("ledger.jsonl"), data)


@pytest.fixture
def rows(folder: Folder) -> Rows:
    """The rows of a sound ledger of five lines."""
    for number in range(5):
        add(folder, number)
    return bytes_of(folder).splitlines(keepends=True)


def test_lines_are_numbered_and_chained(folder: Folder, rows: Rows) -> None:
    found = check(b"".join(rows))
    assert found.faults == []
    assert [line["seq"] for line in found.lines] == [1, 2, 3, 4, 5]
    before = [None, *(line["digest"] for line in found.lines)]
    assert [line["prev"] for line in found.lines] == before[:-1]
    assert found.head == before[-1]
    assert found.lines[2]["receipt_sha256"] == canonical.digest(b"receipt 2")
    assert all(schema.is_valid("ledger-line", json.loads(row)) for row in rows)


def test_an_empty_ledger_has_no_head() -> None:
    found = check(b"")
    assert (found.lines, found.faults, found.head) == ([], [], None)


def edited(rows: Rows, index: int, reseal: bool = False, **change: Any) -> Rows:
    line = {**json.loads(rows[index]), **change}
    if reseal:
        line = ledger.seal({key: value for key, value in line.items() if key != "digest"})
    return [*rows[:index], canonical.line(line), *rows[index + 1 :]]


def inserted(rows: Rows) -> Rows:
    """A line between two, sealed as it should be."""
    before = json.loads(rows[1])
    line = {**before, "seq": 3, "prev": before["digest"], "run_id": "x"}
    del line["digest"]
    return [*rows[:2], canonical.line(ledger.seal(line)), *rows[2:]]


FOLLOWS = "does not follow the line before"


@pytest.mark.parametrize(
    ("change", "faults"),
    [
        pytest.param(
            lambda rows: edited(rows, 2, run_id="other"),
            ["line 3: its digest is not that of its content"],
            id="an edit",
        ),
        pytest.param(
            lambda rows: edited(rows, 2, reseal=True, run_id="other"),
            [f"line 4: {FOLLOWS}"],
            id="an edit, sealed again",
        ),
        pytest.param(
            lambda rows: edited(rows, 4, digest="0" * 64),
            ["line 5: its digest is not that of its content"],
            id="another digest at the end",
        ),
        pytest.param(
            lambda rows: [rows[0], rows[2], rows[1], *rows[3:]],
            [f"line 2: {FOLLOWS}", f"line 3: {FOLLOWS}", f"line 4: {FOLLOWS}"],
            id="a swap",
        ),
        pytest.param(
            inserted,
            [f"line 4: {FOLLOWS}", f"line 5: {FOLLOWS}", f"line 6: {FOLLOWS}"],
            id="an insertion",
        ),
        pytest.param(
            lambda rows: [*rows[:3], rows[2], *rows[3:]],
            [f"line 4: {FOLLOWS}", f"line 5: {FOLLOWS}", f"line 6: {FOLLOWS}"],
            id="a line twice",
        ),
        pytest.param(
            lambda rows: [*rows[:2], *rows[3:]],
            [f"line 3: {FOLLOWS}", f"line 4: {FOLLOWS}"],
            id="a line removed from the middle",
        ),
        pytest.param(
            lambda rows: rows[1:],
            [f"line {number}: {FOLLOWS}" for number in (1, 2, 3, 4)],
            id="the first line removed",
        ),
        pytest.param(
            lambda rows: [*rows[:2], b"\n", *rows[2:]], ["line 3: not a ledger line"], id="a blank"
        ),
        pytest.param(
            lambda rows: [*rows, b'{"seq": 1}\n'],
            ["line 6: not a ledger line"],
            id="another record",
        ),
        pytest.param(
            lambda rows: [*rows, b"[" * 100_000 + b"\n"],
            ["line 6: not a ledger line"],
            id="nesting without end",
        ),
        pytest.param(
            lambda rows: [*rows, b'{"\\ud800": 1}\n', b"\xff\n"],
            ["line 6: not a ledger line", "line 7: not a ledger line"],
            id="what is no text",
        ),
        pytest.param(
            lambda rows: [*rows[:4], rows[4].replace(b"{", b'{"seq": 7, ', 1)],
            ["line 5: not a ledger line"],
            id="a key twice, for another reader",
        ),
        pytest.param(
            lambda rows: [*rows[:4], rows[4][:40]], ["line 5: not a ledger line"], id="a torn end"
        ),
    ],
)
def test_a_break_is_found(rows: Rows, change: Callable[[Rows], Rows], faults: list[str]) -> None:
    assert check(b"".join(change(rows))).faults == faults


def test_a_cut_end_shows_in_the_head_alone(rows: Rows) -> None:
    whole, cut = check(b"".join(rows)), check(b"".join(rows[:3]))
    assert cut.faults == []
    assert cut.head != whole.head


def test_a_torn_last_line_survives_and_the_chain_goes_on_after_it(
    folder: Folder, rows: Rows
) -> None:
    torn = b"".join(rows) + rows[0][:50]
    (folder.path / LEDGER).write_bytes(torn)
    add(folder, 6)
    add(folder, 7)
    data = bytes_of(folder)
    assert data.startswith(torn + b"\n")
    found = check(data)
    assert found.faults == ["line 6: not a ledger line"]
    assert [line["run_id"] for line in found.lines[5:]] == ["run-6", "run-7"]


def test_the_latest_line_of_a_run_is_not_repeated(folder: Folder) -> None:
    add(folder, 1, "a")
    add(folder, 1, "a")
    assert len(check(bytes_of(folder)).lines) == 1
    add(folder, 1, "b")
    add(folder, 1, "a")
    assert len(check(bytes_of(folder)).lines) == 2
    add(folder, 2, "a")
    add(folder, 1, "a")
    assert [line["run_id"] for line in check(bytes_of(folder)).lines] == ["a", "b", "a", "a"]


def test_writers_at_the_same_time_leave_one_chain(folder: Folder) -> None:
    def write(first: int) -> None:
        for number in range(5):
            add(folder, first + number)

    threads = [threading.Thread(target=write, args=(first,)) for first in (0, 100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = check(bytes_of(folder))
    assert (len(found.lines), found.faults) == (15, [])


def test_a_ledger_that_is_a_link_is_not_followed(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    (tmp_path / LEDGER).symlink_to("other")
    with pytest.raises(Fault) as caught:
        add(folder, 1)
    assert (caught.value.status, caught.value.outcome) == (exits.STORE, "store_error")
    assert (tmp_path / "other").read_bytes() == b""
