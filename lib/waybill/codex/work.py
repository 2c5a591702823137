"""What the items of an event stream show of the work: commands, files, tools."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from waybill.codex import failure, shapes, signs
from waybill.codex.shapes import Event

MOST_COMMANDS = 1000
MOST_PATHS = 1000
MOST_OPEN = 1000
MOST_NOTED = 100
MOST_NAMES = 50
LONGEST = 4000

_OTHERS = "(others)"


class Item(NamedTuple):
    """What is kept of an item that was started and has not been completed."""

    type: str
    command: str | None
    changes: tuple[tuple[str, str | None], ...]


class Work:
    """Counts are of everything; lists are bounded, and texts in them cut to LONGEST characters.

    - `items`: completed items by type; `in_progress`: those started and not completed, by id
    - `commands`: the last MOST_COMMANDS as {command, exit_code, status}, each None if not
      told; `commands_count`, `commands_failed`
    - `sandbox_errors`: the first {command, error} of failed commands whose output says that
      the sandbox could not start; `sandbox_failed` counts them
    - `refused`: the first {server, tool, error} of tool calls that nobody was there to
      approve; `refused_count`
    - `file_changes`: kind of the last change by path; `file_changes_count`
    """

    def __init__(self) -> None:
        self.items: dict[str, int] = {}
        self.in_progress: dict[str, Item] = {}
        self.commands: deque[dict[str, object]] = deque(maxlen=MOST_COMMANDS)
        self.commands_count = 0
        self.commands_failed = 0
        self.sandbox_errors: list[dict[str, str | None]] = []
        self.sandbox_failed = 0
        self.refused: list[dict[str, str | None]] = []
        self.refused_count = 0
        self.file_changes: dict[str, str | None] = {}
        self.file_changes_count = 0

    def take(self, kind: str, item: Event) -> None:
        """Note an item of an `item.started`, `item.updated` or `item.completed` event."""
        name = item_name(item)
        ident = shapes.text(item.get("id"), 200)
        seen = Item(name, shapes.text(item.get("command"), LONGEST), _changes(item))
        if kind == "item.started":
            if ident is not None:
                self._open(ident, seen)
            return
        if kind == "item.updated":
            return
        count(self.items, name)
        begun = self.in_progress.pop(ident, None) if ident is not None else None
        if begun is not None and begun.type == name:
            seen = Item(name, seen.command or begun.command, seen.changes or begun.changes)
        if name == "command_execution":
            self._command(seen.command, item)
        elif name == "file_change" and item.get("status") != "failed":
            self._changed(seen.changes)
        elif name == "mcp_tool_call" and item.get("status") != "completed":
            self._refusal(item)

    def _open(self, ident: str, item: Item) -> None:
        self.in_progress[ident] = item
        if len(self.in_progress) > MOST_OPEN:
            del self.in_progress[next(iter(self.in_progress))]

    def _command(self, command: str | None, item: Event) -> None:
        code, status = _exit_code(item.get("exit_code")), shapes.text(item.get("status"), 40)
        self.commands_count += 1
        self.commands.append({"command": command, "exit_code": code, "status": status})
        if not code and status not in ("failed", "declined"):
            return
        self.commands_failed += 1
        error = signs.sandbox_error(shapes.text(item.get("aggregated_output"), 8192) or "")
        if error:
            self.sandbox_failed += 1
            if len(self.sandbox_errors) < MOST_NOTED:
                self.sandbox_errors.append({"command": command, "error": error})

    def _changed(self, changes: tuple[tuple[str, str | None], ...]) -> None:
        for path, kind in changes:
            self.file_changes_count += 1
            if path in self.file_changes or len(self.file_changes) < MOST_PATHS:
                self.file_changes[path] = kind

    def _refusal(self, item: Event) -> None:
        error = failure.unwrap(item.get("error"))[0]
        if signs.refusal(error):
            self.refused_count += 1
            if len(self.refused) < MOST_NOTED:
                names = {key: shapes.text(item.get(key), 200) for key in ("server", "tool")}
                self.refused.append({**names, "error": error})


def item_name(item: Event) -> str:
    """The type of an item, as it is counted."""
    return shapes.text(item.get("type"), 80) or "(no type)"


def count(counts: dict[str, int], name: str) -> None:
    """Add one; past MOST_NAMES different names the rest is counted together."""
    if name not in counts and len(counts) >= MOST_NAMES:
        name = _OTHERS
    counts[name] = counts.get(name, 0) + 1


def _changes(item: Event) -> tuple[tuple[str, str | None], ...]:
    changes = item.get("changes")
    found = []
    for change in changes if isinstance(changes, list) else []:
        path = shapes.text(change.get("path"), LONGEST) if isinstance(change, dict) else None
        if path:
            found.append((path, shapes.text(change.get("kind"), 40)))
    return tuple(found)


def _exit_code(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**32:
        return value
    return None
