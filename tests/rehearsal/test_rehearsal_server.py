"""The scripted model over HTTP."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from waybill.base.exits import UNAVAILABLE, Fault
from waybill.rehearsal import script
from waybill.rehearsal.server import Server, serve

Serving = Callable[..., Server]
GO = json.dumps({"tools": [{"name": "x"}], "input": "go"}).encode()


def address(server: Server) -> tuple[str, int]:
    parts = urlsplit(server.base_url)
    assert parts.hostname and parts.port and parts.path == "/v1"
    return parts.hostname, parts.port


def ask(
    server: Server,
    body: bytes | None = GO,
    *,
    path: str = "/v1/responses",
    headers: dict[str, str] | None = None,
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(*address(server), timeout=30)
    with contextlib.closing(connection):
        connection.request("GET" if body is None else "POST", path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()


def test_it_listens_on_loopback_alone(serving: Serving) -> None:
    assert address(serving([{"say": "hi"}]))[0] == "127.0.0.1"


def test_a_step_is_answered_by_events(serving: Serving) -> None:
    status, data = ask(serving([{"say": "hi"}]))
    assert status == 200
    assert data.startswith(b"event: response.created\n")
    assert b'"text": "hi"' in data and b"event: response.completed\n" in data


def test_the_list_of_models_is_empty(serving: Serving) -> None:
    status, data = ask(serving([{"say": "hi"}]), None, path="/v1/models?client_version=1")
    assert (status, json.loads(data)) == (200, {"models": []})


def test_a_connection_serves_many_requests(serving: Serving) -> None:
    server = serving([{"say": "hi"}])
    connection = http.client.HTTPConnection(*address(server), timeout=30)
    with contextlib.closing(connection):
        for _ in range(3):
            connection.request("POST", "/v1/responses", GO)
            assert b"response.completed" in connection.getresponse().read()


@pytest.mark.parametrize(
    ("body", "path", "headers", "status", "told"),
    [
        (None, "/v1/other", {}, 404, "no such path: /v1/other"),
        (GO, "/v1/responses/compact", {}, 404, "no such path"),
        (b"{broken", "/v1/responses", {}, 400, "the body: not JSON"),
        (b"[]", "/v1/responses", {}, 400, "no JSON object"),
        (b"[" * 100000, "/v1/responses", {}, 400, "nested too deeply"),
        (b"\xff", "/v1/responses", {}, 400, "not UTF-8"),
        (GO, "/v1/responses", {"content-encoding": "zstd"}, 415, "zstd is not read here"),
        (GO, "/v1/responses", {"content-encoding": "gzip"}, 400, "the body is not gzip"),
        (GO, "/v1/responses", {"content-length": "999999999"}, 413, "longer than"),
        (GO, "/v1/responses", {"content-length": "-5"}, 411, "length"),
    ],
)
def test_a_request_that_is_none_is_refused_with_the_reason(
    serving: Serving,
    body: bytes | None,
    path: str,
    headers: dict[str, str],
    status: int,
    told: str,
) -> None:
    got, data = ask(serving([{"say": "hi"}]), body, path=path, headers=headers)
    assert got == status
    assert told in json.loads(data)["error"]["message"]


def test_a_packed_request_is_read(serving: Serving) -> None:
    status, data = ask(
        serving([{"say": "hi"}]), gzip.compress(GO), headers={"content-encoding": "gzip"}
    )
    assert status == 200 and b'"text": "hi"' in data


def test_a_message_without_a_script_is_a_400(serving: Serving) -> None:
    status, data = ask(serving({"scripts": [{"match": "^x$", "steps": [{"say": "hi"}]}]}))
    assert status == 400 and b"no script of the rehearsal matches" in data


def test_failures_are_counted_by_key(serving: Serving) -> None:
    step = {"fail_times": 2, "http": 503, "then": {"say": "up"}}
    server = serving([step])
    assert [ask(server)[0] for _ in range(4)] == [503, 503, 200, 200]


def test_each_request_is_kept_without_its_credentials(serving: Serving, tmp_path: Path) -> None:
    server = serving([{"say": "hi"}], tmp_path / "a" / "log")
    ask(server, headers={"Authorization": "Bearer sk-made-up", "X-Other": "kept"})
    ask(server, None, path="/v1/models")
    paths = sorted((tmp_path / "a" / "log").iterdir())
    assert [path.name for path in paths] == ["0001.json", "0002.json"]
    assert "sk-made-up" not in paths[0].read_text()
    record = json.loads(paths[0].read_text())
    assert list(record) == ["n", "method", "path", "headers", "body", "step"]
    assert (record["n"], record["method"], record["path"]) == (1, "POST", "/v1/responses")
    assert record["headers"]["authorization"] == "***"
    assert record["headers"]["x-other"] == "kept"
    assert record["body"] == json.loads(GO)
    assert record["step"] == {"script": 0, "number": 0, "play": {"say": "hi"}}
    assert json.loads(paths[1].read_text())["body"] is None
    assert paths[0].stat().st_mode & 0o777 == 0o600


def test_a_log_goes_on_where_another_ended(serving: Serving, tmp_path: Path) -> None:
    for _ in range(2):
        ask(serving([{"say": "hi"}], tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0001.json", "0002.json"]


def begin(server: Server) -> socket.socket:
    """A connection on which a request was sent and nothing was read."""
    client = socket.create_connection(address(server), timeout=30)
    head = f"POST /v1/responses HTTP/1.1\r\nhost: x\r\ncontent-length: {len(GO)}\r\n\r\n"
    client.sendall(head.encode() + GO)
    return client


@pytest.mark.parametrize(
    "step", [{"stream": "word " * 20000, "every": 0}, {"hang": 600}, {"hang_headers": 600}]
)
@pytest.mark.parametrize("reset", [False, True])
def test_a_client_that_leaves_ends_its_answer_without_a_word(
    serving: Serving,
    connections_end: Callable[[], bool],
    capfd: pytest.CaptureFixture[str],
    step: dict[str, Any],
    reset: bool,
) -> None:
    server = serving([step])
    client = begin(server)
    if "hang_headers" not in step:
        client.recv(1)
    if reset:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    assert connections_end()
    assert capfd.readouterr() == ("", "")


def test_closing_cuts_what_still_hangs(
    connections_end: Callable[[], bool], capfd: pytest.CaptureFixture[str]
) -> None:
    server = serve(script.load([{"hang": 600}]))
    with begin(server) as client:
        assert client.recv(1) == b"H"
        server.close()
        server.close()
        assert connections_end()
        with pytest.raises(OSError):
            socket.create_connection(address(server), timeout=5)
    assert capfd.readouterr() == ("", "")


def test_an_early_cut_gives_the_client_nothing(serving: Serving) -> None:
    with begin(serving([{"drop": "early"}])) as client:
        assert client.recv(100) == b""


def test_a_port_in_use_is_a_fault(serving: Serving) -> None:
    port = address(serving([{"say": "hi"}]))[1]
    with pytest.raises(Fault) as caught:
        serve(script.load([{"say": "hi"}]), port)
    assert caught.value.status == UNAVAILABLE
    assert str(port) in caught.value.subject
