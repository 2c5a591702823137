"""The runner of every entry point: parse, run, and turn what happens into one status.

No entry point does input or output, catches exceptions or calls sys.exit; this module does.
"""

from __future__ import annotations

import os
import signal
import sys

# Imports that the manual and the version do not need are in the functions: those two have to
# be quick, since people and completions ask for them all the time.
from waybill.base import exits
from waybill.base.exits import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Arguments = dict[str, Any]
else:
    Arguments = dict


class Interrupted(BaseException):
    """INT or TERM arrived; `number` is the signal's. No `except Exception` may swallow it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number

    @property
    def status(self) -> int:
        """130 for INT, 143 for TERM."""
        return 128 + self.number


def run(main: Callable[[Arguments], int], manual: str) -> None:
    """Parse the command line by the manual, call main, and exit with its status."""
    name = manual.split(None, 1)[0]
    # A closed standard stream would let the next file opened take its number.
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    signal.signal(signal.SIGINT, _interrupt)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        status = _answer(main, name, manual)
    except Interrupted as interrupted:
        status = interrupted.status
        complain(name, f"interrupted by {interrupted}")
    # Python would flush again, and complain of a reader that left.
    os._exit(status)


def _answer(main: Callable[[Arguments], int], name: str, manual: str) -> int:
    """The status of main, and of what it raises."""
    try:
        arguments = _parse(name, manual)
        _stand()
        return main(arguments)
    except Fault as fault:
        complain(name, f"{fault.subject}: {fault.message}")
        return fault.status
    except BrokenPipeError:
        return exits.PIPE
    except Exception:
        complain(name, f"a fault of ours; the traceback is in {_log(name)}")
        return exits.SOFTWARE


def _stand() -> None:
    """Operands are taken relative to the current folder, so there must be one."""
    try:
        os.getcwd()
    except OSError as error:
        raise Fault(exits.NOINPUT, "current folder", error.strerror or str(error)) from None


def emit(document: Any) -> None:
    """One document as one pretty JSON text on standard output."""
    from waybill.base import canonical

    _write(canonical.pretty(document))


def emit_line(document: Any) -> None:
    """One document as one JSON line on standard output."""
    from waybill.base import canonical

    _write(canonical.line(document))


def emit_text(text: str) -> None:
    """A table or a manual on standard output."""
    _write(text.encode("utf-8"))


def _write(data: bytes) -> None:
    if sys.stdout is None:
        raise Fault(exits.STORE, "stdout", "it is closed")
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Fault(exits.STORE, "stdout", f"cannot be written: {error.strerror}") from None


def complain(name: str, message: str) -> None:
    """One line for people on standard error; a reader that left is no reason to fail."""
    from waybill.base.document import printable

    folded = printable(" ".join(message.split()))
    try:
        os.write(2, f"{name}: {folded}\n".encode())
    except OSError:
        return


def number(arguments: Arguments, option: str, *, least: float = 0) -> float:
    """The value of an option as a number. Raises Fault 64 with the option's name."""
    try:
        value = float(arguments[option])
    except ValueError:
        value = float("nan")
    if not least <= value <= 1e9:
        raise Fault(
            exits.USAGE, option, f"{arguments[option]!r} is not a number from {least:g} to 1e9"
        )
    return value


def whole(arguments: Arguments, option: str, *, least: int = 0) -> int:
    """The value of an option as a whole number. Raises Fault 64 with the option's name."""
    value = arguments[option]
    if not (str(value).isascii() and str(value).isdigit() and least <= int(value) <= 10**9):
        raise Fault(exits.USAGE, option, f"{value!r} is not a whole number from {least}")
    return int(value)


def _parse(name: str, manual: str) -> Arguments:
    from waybill import __version__

    if any("\0" in word for word in sys.argv):
        raise Fault(exits.USAGE, "command line", "holds a NUL character")
    words = sys.argv[1:]
    until = words.index("--") if "--" in words else len(words)
    if {"-h", "--help"} & set(words[:until]):
        emit_text(manual.strip() + "\n")
        os._exit(exits.OK)
    if "--version" in words[:until]:
        emit_text(f"{name} {__version__}\n")
        os._exit(exits.OK)
    # Not needed for the manual, which has to be quick.
    import docopt

    unknown = _unknown(words[:until], manual)
    try:
        found = dict(docopt.docopt(manual, argv=words, default_help=False))
        # docopt takes the beginning of an option for the option.
        reason = unknown
    except docopt.DocoptExit as wrong:
        said = str(wrong).split(docopt.DocoptExit.usage)[0].strip().splitlines()
        told = said[0] if said and said[0].startswith("-") else None
        reason = unknown or told or "does not match the usage"
    if reason is not None:
        raise Fault(exits.USAGE, "command line", f"{reason}; see '{name} --help'")
    return found


def _unknown(words: list[str], manual: str) -> str | None:
    """The first option that the manual does not name; a word that is a value is none."""
    import re

    value = False
    for word in words:
        option = word.split("=")[0]
        if value or not option.startswith("-") or option == "-":
            value = False
            continue
        named = rf"(?<![\w-]){re.escape(option)}(?![\w-])"
        if not re.search(named, manual):
            return f"{option} is not an option"
        value = "=" not in word and bool(re.search(rf"{named} [A-Z]+\b", manual))
    return None


def _interrupt(number: int, _frame: Any) -> None:
    # The second signal must not interrupt the ending that the first one asked for.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Interrupted(number)


def _log(name: str) -> str:
    """Keep the traceback where the state is; the name of the file, or why there is none."""
    import traceback

    from waybill.base import clock, state

    text = traceback.format_exc()
    try:
        folder = state.folder("log")
        path = folder / f"{name}-{clock.compact(clock.now())}-{os.getpid()}.log"
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except (OSError, RuntimeError) as error:  # no room, no permission, or no home
        reason = getattr(error, "strerror", None) or str(error)
        return f"no file ({reason}): {text.splitlines()[-1]}"
    return str(path)
