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

# Every status with its name and what it means; docs/outcomes.md is made from this.
_STATUSES: dict[int, tuple[str, str]] = {
    OK: ("OK", "did it, or the answer is yes"),
    NO: ("NO", "ran correctly, and the answer is no; the reasons are on stdout"),
    USAGE: ("USAGE", "the command line is wrong"),
    DATA: ("DATA", "an input document does not match its schema or contradicts itself"),
    NOINPUT: ("NOINPUT", "an input cannot be read, or is empty"),
    UNAVAILABLE: ("UNAVAILABLE", "a needed program, service or model is absent"),
    SOFTWARE: ("SOFTWARE", "a fault of ours; the message names the log with the traceback"),
    STORE: ("STORE", "a record cannot be written or read"),
    BUSY: ("BUSY", "quota, lock or capacity: try again later"),
    PROTOCOL: ("PROTOCOL", "the other side's answer is unusable or incomplete"),
    REFUSED: ("REFUSED", "a login, a path or a policy says no"),
    CONFIG: ("CONFIG", "a setting, flag or version does not fit"),
    TIMEOUT: ("TIMEOUT", "a limit passed"),
    INT: ("interrupted by INT", "somebody pressed Ctrl-C"),
    PIPE: ("the reader of our stdout left", "the command behind the pipe ended first"),
    TERM: ("interrupted by TERM", "told to stop, or found dead and recovered"),
}

NAMES: dict[int, str] = {status: name for status, (name, _) in _STATUSES.items()}
MEANINGS: dict[int, str] = {status: words for status, (_, words) in _STATUSES.items()}

# Every outcome of a run that these commands can give: the status that they exit with, and when.
_OUTCOMES: dict[str, tuple[int, str]] = {
    "ok": (OK, "the turn completed, the evidence passed, and what the packet expects is there"),
    "agent_failed": (NO, "the turn failed, or Codex ended non-zero"),
    "no_work": (NO, "the turn completed, but nothing that the packet expects was done"),
    "verify_failed": (NO, "a required command ran and said no"),
    "review_rejected": (NO, "a judge said FAIL"),
    "not_converged": (NO, "the fix passes are used up and blockers remain"),
    "launch_failed": (
        UNAVAILABLE,
        "Codex could not be started, or gave no event within the start limit",
    ),
    "model_unavailable": (UNAVAILABLE, "the model cannot be used by this account or route"),
    "review_unavailable": (UNAVAILABLE, "no judge could be run, or none of the family demanded"),
    "store_error": (STORE, "a record of ours could not be written or read"),
    "quota": (BUSY, "a usage limit; `retry_at` says until when, if the source said so"),
    "already_running": (BUSY, "another process holds this packet's run folder"),
    "incomplete_stream": (PROTOCOL, "the event stream has no terminal event, or no event at all"),
    "review_unusable": (PROTOCOL, "the verdict is absent, cut, contradictory or unproven"),
    "review_stale": (PROTOCOL, "the tree at hand is not the one that the verdict is about"),
    "session_lost": (PROTOCOL, "the thread that answered is not the one asked for, or it is gone"),
    "verify_not_run": (PROTOCOL, "a required command could not be run, or was put off"),
    "auth": (REFUSED, "the login is not the one required, or a forbidden variable is set"),
    "refused": (REFUSED, "a path, a policy or a changed record says no"),
    "config_error": (CONFIG, "a flag, a version, a sandbox or the project's trust does not fit"),
    "timeout_wall": (TIMEOUT, "the wall clock of the run passed"),
    "timeout_idle": (TIMEOUT, "no progress within the idle limit"),
    "interrupted": (TERM, "told to stop by INT (130) or TERM (143), or died and was recovered"),
}

OUTCOMES: dict[str, int] = {word: status for word, (status, _) in _OUTCOMES.items()}
WHEN: dict[str, str] = {word: sentence for word, (_, sentence) in _OUTCOMES.items()}


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
