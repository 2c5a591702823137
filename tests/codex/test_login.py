"""Who is logged in, by what `codex login status` says."""

from __future__ import annotations

import pytest
from waybill.codex import login


@pytest.mark.parametrize(
    ("exit_code", "text", "mode"),
    [
        pytest.param(0, "Logged in using ChatGPT", login.CHATGPT, id="the subscription"),
        pytest.param(0, "Logged in using ChatGPT\n", login.CHATGPT, id="with a line end"),
        pytest.param(0, "WARNING: x\n  Logged in using ChatGPT", login.CHATGPT, id="after others"),
        pytest.param(1, "Logged in using ChatGPT", login.UNKNOWN, id="and yet a failure"),
        pytest.param(-1, "Logged in using ChatGPT", login.UNKNOWN, id="and yet no end"),
        pytest.param(0, "Logged in using an API key - sk-…abc", login.API_KEY, id="an API key"),
        pytest.param(
            0,
            "Logged in using ChatGPT\nLogged in using an API key",
            login.API_KEY,
            id="both: the key would be used",
        ),
        pytest.param(0, "Not Logged in using ChatGPT", login.UNKNOWN, id="a denial"),
        pytest.param(0, "You are not: Logged in using ChatGPT", login.UNKNOWN, id="a mention"),
        pytest.param(0, "logged in using chatgpt", login.UNKNOWN, id="other letters"),
        pytest.param(0, "Logged in using access token", login.UNKNOWN, id="another login"),
        pytest.param(1, "Not logged in", login.UNKNOWN, id="nobody"),
        pytest.param(0, "", login.UNKNOWN, id="nothing said"),
    ],
)
def test_the_mode_is_what_a_line_begins_with(exit_code: int, text: str, mode: str) -> None:
    assert login.mode(exit_code, text) == mode


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        pytest.param(" Logged in\n  using\tit \n", "Logged in using it", id="one line"),
        pytest.param("WARNING: x\nLogged in", "Logged in", id="without warnings"),
        pytest.param("x" * 600, "x" * login.MOST, id="bounded"),
        pytest.param("\n", "", id="nothing"),
    ],
)
def test_a_record_keeps_one_bounded_line(text: str, summary: str) -> None:
    assert login.summary(text) == summary
