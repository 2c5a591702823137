"""Exit statuses, outcomes, and the fault that carries them.

One table for every command, published in docs/outcomes.md. 0 and 1 are answers; 64 and
above are faults, numbered as in sysexits(3). 2 is left to Make.
"""

from __future__ import annotations

OK = 0
NO = 1
USAGE = 64
DATA = 65
NOINPUT = 66
UNAVAILABLE = 69
SOFTWARE = 70
STORE = 73
BUSY = 75
PROTOCOL = 76
REFUSED = 77
CONFIG = 78
TIMEOUT = 124
INT = 130
TERM = 143
PIPE = 141

NAMES: dict[int, str] = {
    OK: "OK",
    NO: "NO",
    USAGE: "USAGE",
    DATA: "DATA",
    NOINPUT: "NOINPUT",
    UNAVAILABLE: "UNAVAILABLE",
    SOFTWARE: "SOFTWARE",
    STORE: "STORE",
    BUSY: "BUSY",
    PROTOCOL: "PROTOCOL",
    REFUSED: "REFUSED",
    CONFIG: "CONFIG",
    TIMEOUT: "TIMEOUT",
    INT: "interrupted by INT",
    PIPE: "the reader of our stdout left",
    TERM: "interrupted by TERM",
}

# Every outcome of a run that these commands can give, with the status that they exit with.
OUTCOMES: dict[str, int] = {
    "ok": OK,
    "agent_failed": NO,
    "no_work": NO,
    "verify_failed": NO,
    "review_rejected": NO,
    "not_converged": NO,
    "launch_failed": UNAVAILABLE,
    "model_unavailable": UNAVAILABLE,
    "review_unavailable": UNAVAILABLE,
    "store_error": STORE,
    "quota": BUSY,
    "already_running": BUSY,
    "incomplete_stream": PROTOCOL,
    "review_unusable": PROTOCOL,
    "review_stale": PROTOCOL,
    "session_lost": PROTOCOL,
    "verify_not_run": PROTOCOL,
    "auth": REFUSED,
    "refused": REFUSED,
    "config_error": CONFIG,
    "timeout_wall": TIMEOUT,
    "timeout_idle": TIMEOUT,
    "interrupted": TERM,
}


class Fault(Exception):
    """What a command cannot go on with: a status, the object at fault, and one sentence.

    `outcome` is a word of OUTCOMES where the fault is an outcome of a run; the status then
    follows from it. `lines` holds further faults of the same kind, one line each.
    """

    def __init__(
        self,
        status: int,
        subject: str,
        message: str,
        *,
        outcome: str | None = None,
        lines: list[str] | None = None,
    ) -> None:
        super().__init__(f"{subject}: {message}")
        self.status = status
        self.subject = subject
        self.message = message
        self.outcome = outcome
        self.lines = lines or []


def fault(outcome: str, subject: str, message: str) -> Fault:
    """A fault whose status is that of its outcome."""
    return Fault(OUTCOMES[outcome], subject, message, outcome=outcome)
