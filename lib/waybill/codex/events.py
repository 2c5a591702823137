"""What a `codex exec --json` stream has said so far, read while it is being written."""

from __future__ import annotations

import json
import re
from collections import deque

from waybill.codex import failure, shapes, signs, usage
from waybill.codex.lines import Line, Lines
from waybill.codex.shapes import Event
from waybill.codex.work import MOST_NOTED, Work, count, item_name

_EDGE = re.compile(r"(?:[\ufeff\0\s]+|\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\))+")
_TRANSIENT = re.compile(r"Reconnecting\.\.\.|Falling back from WebSockets")


class Reader:
    """The state of a stream after what was fed; no input makes it raise.

    Attributes, all plain and current after each `feed`:

    - `thread_id` (the first), `thread_ids` (distinct, in order)
    - `turn`: none, started, completed or failed, of the last turn; `error` and `error_code`
      say why it failed. Only the end of a turn ends it, an error event does not.
    - `usage`: running total of the thread at the last completed turn, or None if not known
    - `message`: last agent message of the last turn, provisional until the turn has ended;
      `message_oversize`: there was one, but its line was too long to be read;
      `message_is_call`: it is a tool call written as prose. `messages`, `tool_prose` and
      `late_messages` (after the end of the turn, ignored) are counts.
    - `work`: commands, files and tools, as items showed them
    - `lines`, `bytes`, `recognised`, `noise` (lines that were not, or not only, an event),
      `oversize`, `unknown` (by type name; an unknown item as `item:<type>`)
    - `warnings` and `errors` are counts, `last_warning` and `last_error` sentences. Reconnect
      notices and items of type error are warnings.
    - `first_event_at`, `last_progress_at`: the `at` of the feed. Errors, warnings and what is
      not known are no progress.
    """

    def __init__(self) -> None:
        self.thread_id: str | None = None
        self.thread_ids: list[str] = []
        self.turn = "none"
        self.error: str | None = None
        self.error_code: str | None = None
        self.usage: usage.Usage | None = None
        self.message: str | None = None
        self.message_oversize = False
        self.message_is_call = False
        self.messages = 0
        self.late_messages = 0
        self.tool_prose = 0
        self.work = Work()
        self.lines = 0
        self.bytes = 0
        self.recognised = 0
        self.noise = 0
        self.oversize = 0
        self.unknown: dict[str, int] = {}
        self.warnings = 0
        self.last_warning: str | None = None
        self.errors = 0
        self.last_error: str | None = None
        self.first_event_at: float | None = None
        self.last_progress_at: float | None = None
        self._framing = Lines()
        self._at = 0.0
        self._tokens: usage.Usage | None = None
        self._turn_error: tuple[str, str | None] | None = None

    def feed(self, data: bytes, at: float) -> None:
        """Take what was appended to the stream; `at` is when, on any clock of the caller's."""
        self.bytes += len(data)
        self._at = at
        for line in self._framing.feed(data):
            self._line(line)

    def close(self) -> None:
        """The stream is over: a last line without a newline counts too."""
        for line in self._framing.close():
            self._line(line)

    def summary(self) -> dict[str, object]:
        """A copy of all attributes, those of `work` beside the others, that JSON can hold."""
        both = {**vars(self), **vars(self.work)}
        public = {name: both[name] for name in both if name[0] != "_" and name != "work"}
        public["in_progress"] = {key: one.type for key, one in self.work.in_progress.items()}
        for name, value in public.items():
            if isinstance(value, list | deque):
                public[name] = list(value)
            elif isinstance(value, dict):
                public[name] = dict(value)
        return public

    def _line(self, line: Line) -> None:
        self.lines += 1
        if line.whole:
            found = self._parsed(line.data)
        else:
            self.oversize += 1
            found = shapes.skeleton(line.data) or None
        if found is None:
            self.noise += 1
            return
        event = shapes.today(found)
        if event is None:
            count(self.unknown, shapes.name(found))
            return
        self.recognised += 1
        if self.first_event_at is None:
            self.first_event_at = self._at
        self._event(event, line.whole)

    def _parsed(self, data: bytes) -> Event | None:
        if not data or data.isspace():
            return None
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            return None
        found = _object(text)
        if found is None and (clean := _clean(text)) != text:
            found = _object(clean)
            self.noise += found is not None
        return found

    def _event(self, event: Event, whole: bool) -> None:
        kind = str(event["type"])
        if kind == "thread.started":
            self._thread(event)
        elif kind == "turn.started":
            self._turn_started()
        elif kind == "turn.completed":
            self._turn_completed(event)
        elif kind == "turn.failed":
            self._turn_failed(*failure.unwrap(event.get("error", event.get("message"))))
        elif kind == "token_count":
            self._tokens = usage.read(event.get("usage")) or self._tokens
            return
        elif kind == "error":
            self._error(event)
            return
        else:
            item = event["item"]
            assert isinstance(item, dict)
            name = item_name(item)
            self.work.take(kind, item)
            if name == "error":
                if kind == "item.completed":
                    self._warning(failure.unwrap(item.get("message"))[0])
                return
            if name not in shapes.ITEMS:
                count(self.unknown, f"item:{name}")
            if name == "agent_message" and kind == "item.completed":
                self._message(shapes.text(item.get("text")) if whole else None, whole)
        self.last_progress_at = self._at

    def _thread(self, event: Event) -> None:
        ident = shapes.text(event.get("thread_id"), 200)
        if ident is None or ident in self.thread_ids:
            return
        self.thread_id = self.thread_id or ident
        if len(self.thread_ids) < MOST_NOTED:
            self.thread_ids.append(ident)

    @property
    def _over(self) -> bool:
        return self.turn in ("completed", "failed")

    def _turn_started(self) -> None:
        if self._over:
            self.message, self.message_oversize, self.message_is_call = None, False, False
            self.work.in_progress.clear()
        self.turn = "started"
        self.error = self.error_code = self._turn_error = None

    def _turn_completed(self, event: Event) -> None:
        if "older" in event:
            said = shapes.text(event["older"])
            # The older shape ends a turn that an error broke in the same words as a good one.
            if said is None and self._turn_error:
                self._turn_failed("", None)
                return
            if said is not None and self.message is None and not self._over:
                self._message(said, whole=True)
        self.turn = "completed"
        self.error = self.error_code = None
        self.usage = self._tokens if "older" in event else usage.read(event.get("usage"))
        self.work.in_progress.clear()

    def _turn_failed(self, sentence: str, code: str | None) -> None:
        self.turn = "failed"
        earlier, earlier_code = self._turn_error or (self.last_warning, None)
        self.error = sentence or earlier or "the turn failed and no reason was given"
        self.error_code = code or earlier_code
        self.work.in_progress.clear()

    def _error(self, event: Event) -> None:
        sentence, code = failure.unwrap(
            {key: event[key] for key in ("message", "error", "codex_error_info") if key in event}
        )
        if _TRANSIENT.match(sentence):
            self._warning(sentence)
            return
        self.errors += 1
        self.last_error = sentence or "an error without a message"
        self._turn_error = (self.last_error, code)

    def _warning(self, sentence: str) -> None:
        self.warnings += 1
        self.last_warning = sentence or None

    def _message(self, text: str | None, whole: bool) -> None:
        self.messages += 1
        called = text is not None and signs.tool_call(text)
        self.tool_prose += called
        if self._over:
            self.late_messages += 1
            return
        self.message, self.message_oversize, self.message_is_call = text, not whole, called


def _object(text: str) -> Event | None:
    # A deep nest or an endless number makes the parser itself give up.
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _clean(text: str) -> str:
    """Without what terminals, editors and sparse files leave around a line."""
    start = _EDGE.match(text)
    text = text[start.end() :] if start else text
    tail = max(len(text) - 200, 0)
    for edge in _EDGE.finditer(text, tail):
        if edge.end() == len(text):
            return text[: edge.start()]
    return text
