"""What a worker and a check are given of our environment."""

from __future__ import annotations

import pytest
from waybill.packet import environment

AMBIENT = {
    **{"PATH": "/bin", "HOME": "/h", "LANG": "C", "LC_ALL": "C.UTF-8", "CODEX_HOME": "/c"},
    **{"https_proxy": "http://p", "SSL_CERT_FILE": "/s", "TZ": "UTC"},
    **{"OPENAI_API_KEY": "k", "GIT_DIR": "/g", "LD_PRELOAD": "/l", "PYTHONPATH": "/p", "MINE": "m"},
}
LISTED = "PATH HOME LANG LC_ALL CODEX_HOME https_proxy SSL_CERT_FILE TZ".split()


@pytest.mark.parametrize(
    ("packet", "passed", "more"),
    [
        pytest.param({}, [], {}, id="the list alone"),
        pytest.param({"A": "1", "PATH": "/x"}, [], {"A": "1", "PATH": "/x"}, id="the packet's win"),
        pytest.param({}, ["MINE"], {"MINE": "m"}, id="one passed on by name"),
        pytest.param({"MINE": "p"}, ["MINE"], {"MINE": "m"}, id="one passed on wins"),
        pytest.param({}, ["NOT_SET"], {}, id="one that is not set"),
        pytest.param({"GIT_DIR": ""}, [], {"GIT_DIR": ""}, id="an empty one of the packet's"),
    ],
)
def test_a_worker_gets_what_is_listed_and_what_is_asked_for(
    packet: dict[str, str], passed: list[str], more: dict[str, str]
) -> None:
    expected = {name: AMBIENT[name] for name in LISTED} | more
    found = environment.worker(AMBIENT, packet, passed)
    assert found == expected
    checked = environment.evidence(found)
    assert checked == {name: value for name, value in expected.items() if name != "CODEX_HOME"}


def test_nothing_of_ours_is_changed() -> None:
    ambient = dict(AMBIENT)
    environment.worker(ambient, {"PATH": "/x"}, ["MINE"]).clear()
    assert ambient == AMBIENT
