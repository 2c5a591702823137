"""The command: a script read, served, and ended with whoever started it."""

from __future__ import annotations

import os
import select
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from waybill.base import command, document, schema
from waybill.base.exits import OK, USAGE, Fault
from waybill.rehearsal import script

if TYPE_CHECKING:
    from waybill.rehearsal.server import Server


def main(script_path: str, port: int = 0, log: str | None = None) -> int:
    """Serve the script in that file (JSON or YAML) until stdin closes; the exit status.

    Fault USAGE, NOINPUT, DATA or UNAVAILABLE when the script is no file, cannot be read or
    is no rehearsal, or the port cannot be had.
    """
    if script_path == "-":
        raise Fault(USAGE, "SCRIPT", "is a file; the end of stdin is what ends this command")
    parsed, subject, _ = document.read(script_path, yaml=True)
    rehearsal = script.load(schema.require("rehearsal", parsed, subject), subject)

    from waybill.rehearsal import server

    return run_until_stdin_closes(server.serve(rehearsal, port, None if log is None else Path(log)))


def run_until_stdin_closes(server: Server) -> int:
    """Print {"base_url": URL} and wait for the end of stdin or for TERM; then close.

    Call it in the main thread: it takes over TERM. An interrupt closes too, and passes on.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.signal(signal.SIGTERM, lambda *_: os.write(writer, b"t"))
    try:
        command.emit_line({"base_url": server.base_url})
        stdin = sys.stdin.fileno()
        while reader not in (ready := select.select([stdin, reader], [], [])[0]):
            if ready and not os.read(stdin, 65536):
                break
    finally:
        server.close()
    return OK
