"""Times as records write and read them, and where state is kept."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from waybill.base import clock, state


@pytest.mark.parametrize(
    ("at", "stamp", "compact"),
    [
        (0, "1970-01-01T00:00:00.000Z", "19700101T000000Z"),
        (1767323045.9996, "2026-01-02T03:04:05.999Z", "20260102T030405Z"),
    ],
)
def test_a_time_is_written_in_utc(at: float, stamp: str, compact: str) -> None:
    assert (clock.stamp(at), clock.compact(at)) == (stamp, compact)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        pytest.param("2026-01-02T03:04:05.500Z", 1767323045.5, id="as we write it"),
        pytest.param("2026-01-02T05:04:05+02:00", 1767323045, id="in another zone"),
        pytest.param("2026-01-02t03:04:05z", 1767323045, id="in small letters"),
        pytest.param("2026-01-02T03:04:05", None, id="without a zone"),
        pytest.param("2016-12-31T23:59:60Z", None, id="a leap second"),
        pytest.param("soon", None, id="no time"),
    ],
)
def test_a_time_of_any_writer_is_read(text: str, at: float | None) -> None:
    assert clock.moment(text) == at


@pytest.mark.parametrize(
    ("root", "there"),
    [
        pytest.param("{tmp}/state", "state", id="where the variable says"),
        pytest.param("", "home/.local/state", id="at home without it"),
        pytest.param("relative", "home/.local/state", id="at home when it is relative"),
    ],
)
def test_state_lies_in_a_private_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str, there: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", root.format(tmp=tmp_path))
    monkeypatch.chdir(tmp_path)
    found = state.folder("a", "b")
    assert found == tmp_path / there / "waybill" / "a" / "b"
    assert stat.S_IMODE(found.stat().st_mode) == 0o700
    assert state.folder("a", "b") == found
