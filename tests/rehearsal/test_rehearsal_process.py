"""The scripted model as a process: ready, and gone with whoever started it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from waybill.base.exits import DATA, NOINPUT, UNAVAILABLE, Fault
from waybill.rehearsal import spawn

LIMIT = 20  # seconds
SERVE = """
import sys
from waybill.rehearsal import command, script, server
sys.exit(command.run_until_stdin_closes(server.serve(script.load([{"hang": 600}]))))
"""


@contextlib.contextmanager
def serving() -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    words = [sys.executable, "-c", SERVE]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            assert process.stdout
            yield process, json.loads(process.stdout.readline())["base_url"]
        finally:
            process.kill()


def hang(base_url: str) -> socket.socket:
    """A connection whose answer has begun and goes on for long."""
    parts = urlsplit(base_url)
    client = socket.create_connection((str(parts.hostname), parts.port or 0), timeout=LIMIT)
    body = b'{"input": "go"}'
    head = f"POST /v1/responses HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    client.sendall(head.encode() + body)
    assert client.recv(1) == b"H"
    return client


@pytest.mark.parametrize("how", ["term", "stdin"])
def test_it_ends_with_0_though_an_answer_hangs(how: str) -> None:
    with serving() as (process, base_url), hang(base_url):
        assert process.stdin and process.stderr
        process.stdin.write(b"words on stdin are no end\n")
        process.stdin.flush()
        if how == "term":
            process.send_signal(signal.SIGTERM)
        else:
            process.stdin.close()
        assert process.wait(LIMIT) == 0
        assert process.stderr.read() == b""


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def answered(base_url: str) -> bool:
    request = urllib.request.Request(f"{base_url}/responses", b'{"input": "go"}')
    with urllib.request.urlopen(request, timeout=LIMIT) as answer:
        return b'"text": "hi"' in answer.read()


@pytest.mark.parametrize(
    ("name", "text"), [("a.json", '[{"say": "hi"}]'), ("-b.yaml", "- say: hi\n")]
)
def test_a_spawned_model_answers_logs_and_is_gone_when_closed(
    tmp_path: Path, name: str, text: str
) -> None:
    spawned = spawn.spawn(write(tmp_path / name, text), tmp_path / "log")
    try:
        assert spawned.pid == spawned.process.pid
        assert answered(spawned.base_url)
    finally:
        spawned.close()
    spawned.close()
    assert spawned.process.returncode == 0
    assert [path.name for path in (tmp_path / "log").iterdir()] == ["0001.json"]


def test_a_module_in_the_current_folder_does_not_stand_in_for_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("waybill.py", "json.py", "yaml.py"):
        write(tmp_path / name, "raise SystemExit('not ours')")
    monkeypatch.chdir(tmp_path)
    spawned = spawn.spawn(write(Path("a.json"), '[{"say": "hi"}]'))
    spawned.close()
    assert spawned.process.returncode == 0


def test_a_spawned_model_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", '[{"hang": 600}]')
    code = f"""
import pathlib, signal
from waybill.rehearsal import spawn
spawned = spawn.spawn(pathlib.Path({str(path)!r}))
print(spawned.pid, spawned.base_url, flush=True)
signal.pause()
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        try:
            assert parent.stdout
            pid, base_url = parent.stdout.readline().decode().split()
            child = os.pidfd_open(int(pid))
            client = hang(base_url)
        finally:
            parent.kill()
    with client:
        assert select.select([child], [], [], LIMIT)[0] == [child]
    os.close(child)


@pytest.mark.parametrize(
    ("text", "status", "told"),
    [
        (None, NOINPUT, "cannot be read: No such file"),
        ("[{", DATA, "not YAML"),
        ('[{"sya": "x"}]', DATA, "'sya' was unexpected"),
        ('{"scripts": [{"match": "(", "steps": [{"say": "x"}]}]}', DATA, "/scripts/0/match"),
    ],
)
def test_a_start_that_fails_is_a_fault_with_the_childs_line(
    tmp_path: Path, text: str | None, status: int, told: str
) -> None:
    path = tmp_path / "a.json"
    if text is not None:
        write(path, text)
    with pytest.raises(Fault) as caught:
        spawn.spawn(path)
    assert caught.value.status == status
    assert told in caught.value.message


def test_a_start_that_takes_too_long_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spawn, "START_LIMIT", 0.0)
    with pytest.raises(Fault) as caught:
        spawn.spawn(write(tmp_path / "a.json", '[{"say": "hi"}]'))
    assert caught.value.status == UNAVAILABLE
    assert "did not listen within 0 s" in caught.value.message
