"""The auth guard: names that are forbidden, where they are looked for, and the login."""

from __future__ import annotations

import pytest
from waybill.base import exits
from waybill.packet import auth

KEY = "OPENAI_API_KEY"


@pytest.mark.parametrize(
    ("rejected", "names"),
    [
        pytest.param([], [KEY], id="an empty list still forbids the key"),
        pytest.param(["A", "B"], ["A", "B", KEY], id="the packet's come first, in order"),
        pytest.param(["A", KEY, "B"], ["A", KEY, "B"], id="the key keeps a place that it has"),
        pytest.param(["A", "B", "A"], ["A", "B", KEY], id="none stands twice"),
        pytest.param([" ", "", "\t"], [KEY], id="blank entries are dropped"),
        pytest.param([" A ", "A"], ["A", KEY], id="blanks around a name are dropped"),
    ],
)
def test_the_forbidden_names_are_the_packets_and_the_key(
    rejected: list[str], names: list[str]
) -> None:
    assert auth.forbidden(rejected) == names


@pytest.mark.parametrize(
    ("rejected", "ambient", "packet", "passed", "said"),
    [
        pytest.param([], {}, {}, [], None, id="nothing is set"),
        pytest.param([], {KEY: "x"}, {}, [], f"{KEY} in environment", id="the key is set"),
        pytest.param([], {KEY: ""}, {}, [], None, id="the key is set and empty"),
        pytest.param(["A"], {"A": "x"}, {}, [], "A in environment", id="a name of the packet's"),
        pytest.param(["A"], {"A": ""}, {}, [], None, id="such a name, empty"),
        pytest.param(["a"], {"A": "x"}, {}, [], None, id="a name in other letters"),
        pytest.param(["B"], {"A": "x"}, {}, [], None, id="another name"),
        pytest.param(
            [], {}, {KEY: "x"}, [], f"{KEY} in packet execution.environment", id="in the packet"
        ),
        pytest.param(
            [], {}, {KEY: ""}, [], f"{KEY} in packet execution.environment", id="there, and empty"
        ),
        pytest.param(
            ["A"], {}, {"A": "x"}, [], "A in packet execution.environment", id="the packet's own"
        ),
        pytest.param(
            ["A", "B"], {"B": "x"}, {"A": ""}, [], "A in packet", id="in the order of the names"
        ),
        pytest.param(
            ["A"], {"A": "x"}, {"A": "x"}, [], "A in environment", id="ours before the packet's"
        ),
        pytest.param([], {}, {"CODEX_API_KEY": ""}, [], "CODEX_API_KEY in packet", id="preferred"),
        pytest.param([], {"CODEX_API_KEY": "x"}, {}, [], None, id="preferred, and not passed on"),
        pytest.param(
            [],
            {"CODEX_ACCESS_TOKEN": "x"},
            {},
            ["CODEX_ACCESS_TOKEN"],
            "CODEX_ACCESS_TOKEN in --pass-env",
            id="preferred, and passed on",
        ),
        pytest.param([], {}, {}, [KEY], f"{KEY} in --pass-env", id="the key, to be passed on"),
        pytest.param(["A"], {}, {}, ["A"], "A in --pass-env", id="a name of the packet's, too"),
        pytest.param([], {"B": "x"}, {"C": "y"}, ["B"], None, id="other variables"),
    ],
)
def test_a_forbidden_variable_is_refused_by_its_name_and_its_place(
    rejected: list[str],
    ambient: dict[str, str],
    packet: dict[str, str],
    passed: list[str],
    said: str | None,
) -> None:
    found = auth.refusal(rejected, ambient, packet, passed)
    if said is None:
        assert found is None
    else:
        assert found is not None
        assert found.startswith(said)


@pytest.mark.parametrize(
    ("exit_code", "text", "mode", "status"),
    [
        (0, "Logged in using ChatGPT\n", "chatgpt-subscription", "Logged in using ChatGPT"),
        (0, "Logged in using an API key - sk-x", "api-key", "Logged in using an API key - sk-x"),
        (1, "Not logged in", "unknown", "Not logged in"),
        (1, "", "unknown", "login status exited 1 and said nothing"),
        (-1, "no answer within 30 s", "unknown", "no answer within 30 s"),
    ],
)
def test_only_the_subscription_is_let_through(
    exit_code: int, text: str, mode: str, status: str
) -> None:
    found, fault = auth.judge(exit_code, text, {"A_KEY": "1", "CODEX_HOME": "/h", "PATH": "/"})
    assert (found.mode, found.status) == (mode, status)
    assert found.record()["environment_names"] == ["A_KEY", "CODEX_HOME"]
    if mode == "chatgpt-subscription":
        assert fault is None
        return
    assert fault is not None
    assert (fault.status, fault.outcome) == (exits.REFUSED, "auth")
    assert "ChatGPT subscription auth is required" in fault.message
    assert status in fault.message
