"""The scripted model looked at, and the ways in which an endpoint can be wrong."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from waybill.doctor import model
from waybill.doctor.model import Answer

STREAM = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"


@pytest.fixture
def endpoint() -> Iterator[Callable[[str], str]]:
    """Serve one connection on loopback with these words; the URL."""
    listeners, threads = [], []

    def make(words: str) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def answer() -> None:
            client, _ = listener.accept()
            with client:
                client.sendall(words.encode())
                client.shutdown(socket.SHUT_WR)
                # Closed with a request unread, a connection drops what was sent, too.
                while client.recv(65536):
                    pass

        threads.append(threading.Thread(target=answer, daemon=True))
        threads[-1].start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}/v1/responses"

    yield make
    for thread in threads:
        thread.join(20)
    for listener in listeners:
        listener.close()


def test_a_rehearsal_starts_answers_and_is_named(patient: Any) -> None:
    (finding,) = model.rehearsal(patient())
    assert (finding.status, finding.found.endswith("/v1/responses answers")) == ("ok", True)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (f"{STREAM}\r\ndata: {{}}\n\nevent: response.completed\n\n", None),
        (f"{STREAM}\r\ndata: {{}}\n\n", "the stream was cut before its end"),
        (f"{STREAM}content-length: 999\r\n\r\ndata: ", "the stream was cut before its end"),
        (
            "HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\n\r\n<html>",
            "status 200, text/html: a page for people; the path is wrong",
        ),
        (
            'HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\n\r\n{"error": "no"}',
            'status 404, application/json: {"error": "no"}',
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{}",
            "status 200, application/json: not an event stream",
        ),
        ("\x15\x03\x01\x02\x02P", "answers, and not in HTTP (does it want TLS?)"),
        ("", "no answer"),
    ],
)
def test_what_is_wrong_with_an_endpoint_is_told_apart(
    endpoint: Any, words: str, why: str | None
) -> None:
    found = model.why_not(model.ask(endpoint(words)))
    assert found is None if why is None else found is not None and why in found


def test_an_endpoint_that_nobody_serves_is_named_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    found = model.ask(f"http://127.0.0.1:{port}/v1/responses")
    assert found == "no answer: Connection refused"
    assert model.why_not(Answer(500, "text/plain", "")) == "status 500, text/plain: "
