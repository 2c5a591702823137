"""The server: a rehearsal on a loopback port, as Codex's model provider.

It imports http.server, so import it only where one is to be served. Every connection has
a daemon thread; a pause ends as soon as its client leaves or the server is closed.
"""

from __future__ import annotations

import gzip
import os
import select
import socket
import sys
import threading
import zlib
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any

from waybill.base import canonical, document
from waybill.base.exits import UNAVAILABLE, Fault
from waybill.rehearsal import wire
from waybill.rehearsal.script import Rehearsal, Step

BASE = "/v1"
MAX_BODY = 64 * 1024 * 1024  # bytes, packed or not

_SECRET = ("authorization", "proxy-authorization", "cookie", "x-api-key")
# Linux also tells when the client closed only its sending half.
_LEFT = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR


class Server:
    """A rehearsal that is being served, until `close`."""

    def __init__(self, listener: _Listener) -> None:
        self._listener = listener
        self.base_url = f"http://127.0.0.1:{listener.server_port}{BASE}"
        # shutdown() waits for at most one poll.
        self._thread = threading.Thread(target=listener.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening and cut every connection. A second call does nothing."""
        self._listener.shutdown()
        self._listener.server_close()
        self._listener.cut()
        self._thread.join()


def serve(rehearsal: Rehearsal, port: int = 0, log: Path | None = None) -> Server:
    """Serve on 127.0.0.1; port 0 takes a free one.

    Each request is kept in the folder `log` as NNNN.json, numbered on from what is there:
    {n, method, path, headers, body, step}, with credentials in the headers masked. `body`
    is null when it could not be read, and `step` when no step was picked. Fault UNAVAILABLE
    when the port cannot be had or the folder not made.
    """
    try:
        return Server(_Listener(rehearsal, port, log))
    except (OSError, OverflowError) as wrong:
        raise Fault(UNAVAILABLE, f"127.0.0.1:{port}", str(wrong)) from None


class _Log:
    """The folder of the requests."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        numbers = (int(path.stem) for path in folder.glob("*.json") if path.stem.isdecimal())
        self._folder = folder
        self._next = count(max(numbers, default=0) + 1)
        self._lock = threading.Lock()

    def keep(self, record: Mapping[str, Any]) -> None:
        with self._lock:
            n = next(self._next)
        path = self._folder / f"{n:04d}.json"
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(canonical.pretty({"n": n, **record}))


class _Listener(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, rehearsal: Rehearsal, port: int, log: Path | None) -> None:
        self.rehearsal = rehearsal
        self.log = None if log is None else _Log(log)
        self._failures: Counter[str] = Counter()
        self._clients: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", port), _Handler)

    def settle(self, step: Step) -> Step:
        """The step itself, or what one that counts its requests comes to this time."""
        while step.key is not None:
            with self._lock:
                failures = self._failures[step.key]
                self._failures[step.key] += 1
            step = step.after(failures)
        return step

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._clients.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._clients.discard(request)
        super().shutdown_request(request)

    def cut(self) -> None:
        with self._lock:
            for client in self._clients:
                _shut(client)

    def handle_error(self, request: Any, client_address: Any) -> None:
        wrong = sys.exc_info()[1]
        if not isinstance(wrong, OSError):  # a client that left is no error
            print(f"rehearsal: {type(wrong).__name__}: {wrong}", file=sys.stderr)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # events are small and each is waited for
    server: _Listener

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the log is a folder, and stderr is for faults."""

    def do_GET(self) -> None:
        self._keep(None, None)
        if self._path() == f"{BASE}/models":
            self._answer(200, {"models": []})
        else:
            self._refuse(404, f"no such path: {self._path()}")

    def do_POST(self) -> None:
        body = self._body()
        if isinstance(body, tuple):
            self._keep(None, None)
            self._refuse(*body)
        elif self._path() != f"{BASE}/responses":
            self._keep(body, None)
            self._refuse(404, f"no such path: {self._path()}")
        else:
            step = self.server.settle(self.server.rehearsal.pick(body))
            self._keep(body, step)
            self._play(step, body)

    def _path(self) -> str:
        return self.path.partition("?")[0]

    def _body(self) -> dict[str, Any] | tuple[int, str]:
        """The object that the request holds, or a status and the reason why there is none."""
        length = self.headers.get("content-length", "")
        encoding = self.headers.get("content-encoding", "identity").lower()
        if not length.isdecimal():
            return 411, "the length of the body is not given"
        if int(length) > MAX_BODY:
            return 413, f"the body is longer than {MAX_BODY} bytes"
        data = self.rfile.read(int(length))
        if encoding not in ("identity", "gzip"):
            return 415, f"content-encoding {encoding} is not read here; send identity or gzip"
        try:
            if encoding == "gzip":
                with gzip.GzipFile(fileobj=BytesIO(data)) as packed:
                    data = packed.read(MAX_BODY + 1)
            if len(data) > MAX_BODY:
                return 413, f"the unpacked body is longer than {MAX_BODY} bytes"
            body = document.parse(data, "the body")
        except Fault as wrong:
            return 400, str(wrong)
        except (OSError, EOFError, zlib.error) as wrong:
            return 400, f"the body is not gzip: {wrong}"
        return body if isinstance(body, dict) else (400, "the body is no JSON object")

    def _keep(self, body: object, step: Step | None) -> None:
        if self.server.log is None:
            return
        headers = {
            name.lower(): "***" if name.lower() in _SECRET else value
            for name, value in self.headers.items()
        }
        played = step and {"script": step.script, "number": step.number, "play": step.play}
        record = {"method": self.command, "path": self.path, "headers": headers}
        self.server.log.keep({**record, "body": body, "step": played})

    def _answer(self, status: int, body: object) -> None:
        self.wfile.write(wire.whole(status, body))

    def _refuse(self, status: int, message: str) -> None:
        # What is left of a body that was not read would be taken for the next request.
        self.close_connection = True
        self._answer(status, {"error": {"message": message}})

    def _play(self, step: Step, body: Mapping[str, Any]) -> None:
        for action in wire.answer(step.play, body):
            if isinstance(action, bytes):
                self.wfile.write(action)
            elif isinstance(action, wire.Drop) or self._left_within(action.seconds):
                self.close_connection = True
                _shut(self.connection)
                return

    def _left_within(self, seconds: float) -> bool:
        """Whether the client left, or was cut off, before so many seconds were over."""
        watch = select.poll()
        watch.register(self.connection, _LEFT)
        return bool(watch.poll(seconds * 1000))


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):  # already closed
        connection.shutdown(socket.SHUT_RDWR)
