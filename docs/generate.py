#!/usr/bin/env python3
"""Write the generated parts of the pages in docs/ anew.

usage: generate.py [--check]

A part stands between `<!-- name -->` and `<!-- /name -->`. It is made from the one place
where its facts are kept: the docstring of a command, a schema, or a table of the library.
With --check nothing is written; the pages that would change are named, and the status is 1.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from waybill.base import exits
from waybill.codex import argv
from waybill.packet import environment as passed
from waybill.packet import judgement

TOP = Path(__file__).resolve().parent.parent
DOCS, BIN, SCHEMAS = TOP / "docs", TOP / "bin", TOP / "schemas"

# Records whose page has another name than their schema, which is the name of a command or
# of a file.
PAGES = {"review": "review-record", "ledger-line": "ledger"}

_PART = re.compile(r"^<!-- (?P<name>[a-z]+)(?: (?P<what>\S+))? -->\n.*?^<!-- /(?P=name) -->$",
                   re.MULTILINE | re.DOTALL)  # fmt: skip


def manual(name: str) -> str:
    """The docstring of a command."""
    text = (BIN / name).read_text(encoding="utf-8")
    return text.split('"""')[1]


def usage(page: str, _: str | None) -> str:
    """The usage block of a command."""
    block = manual(page).split("usage: ", 1)[1].split("\n\n", 1)[0]
    lines = block.split("\n")
    return "\n".join(["```text", lines[0], *(line.removeprefix(" " * 7) for line in lines[1:]),
                      "```"])  # fmt: skip


def options(page: str, _: str | None) -> str:
    """The options of a command, as a table."""
    rows = [[f"`{one}`", said.replace("<", "&lt;")] for one, said in option_rows(page)]
    return table(["option", "meaning"], rows)


def option_rows(name: str) -> Iterator[tuple[str, str]]:
    """Each option of a command's manual as (spelling, meaning)."""
    block = manual(name).split("\noptions:\n", 1)[1].split("\n\n", 1)[0]
    entry: list[str] = []
    for line in [*block.split("\n"), "  -"]:
        if line.startswith("  -") and entry:
            # One space may be all that separates a long spelling from its meaning.
            found = re.match(r"((?:-\w, +)?--?[a-z-]+(?: (?:[A-Z][A-Z_=]*\b|other))?) +(.+)",
                             " ".join(entry))  # fmt: skip
            assert found, entry
            yield found[1], found[2]
            entry = []
        entry.append(line.strip())


def fields(page: str, _: str | None) -> str:
    """The fields of a record, as a table or as one for each definition."""
    name = {there: here for here, there in PAGES.items()}.get(page, page)
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
    heads = ["field", "type", "required", "meaning"]
    if "$defs" not in schema:
        return table(heads, [list(row) for row in walk(schema, "$", {})])
    parts = []
    for title, held in schema["$defs"].items():
        rows = [list(row) for row in walk(held, title, schema["$defs"])]
        if rows:
            said = f"\n\n{held['description']}" if "description" in held else ""
            parts.append(f"### {title}{said}\n\n{table(heads, rows)}")
    return "\n\n".join(parts)


def walk(
    schema: dict[str, Any], path: str, defs: dict[str, Any]
) -> Iterator[tuple[str, str, str, str]]:
    """Every property below a schema: its path, its type, whether it is required, its meaning."""
    required = schema.get("required", [])
    if isinstance(schema.get("items"), dict):
        yield from walk(schema["items"], f"{path}[]", defs)
    for name, held in schema.get("properties", {}).items():
        if held is False:
            continue
        below = f"{path}.{name}"
        needed = "yes" if name in required else "no"
        meaning = held.get("description") or defs.get(named(held) or "", {}).get("description", "")
        yield f"`{below}`", kind(held), needed, meaning
        yield from walk(held, below, defs)


def named(schema: dict[str, Any]) -> str | None:
    """The definition that a schema refers to, if it does."""
    return schema["$ref"].rsplit("/", 1)[1] if "$ref" in schema else None


def kind(schema: dict[str, Any]) -> str:
    """The type of a property in a few words."""
    if "$ref" in schema:
        return f"`{named(schema)}`"
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        permitted = [word for word in schema["enum"] if word is not None]
        null = ["null"] if None in schema["enum"] else []
        if permitted == list(exits.OUTCOMES):
            return ", ".join(["an [outcome](outcomes.md)", *null])
        return ", ".join([f"`{word}`" for word in permitted] + null)
    types = schema.get("type", "anything")
    types = types if isinstance(types, list) else [types]
    said = [_typed(schema, one) for one in types]
    return " or ".join(said)


def _typed(schema: dict[str, Any], one: str) -> str:
    pattern = schema.get("pattern")
    if one == "string" and pattern == "^[0-9a-f]{64}$":
        return "SHA-256"
    if one == "string" and pattern == "^([0-9a-f]{40}|[0-9a-f]{64})$":
        return "git object id"
    if one == "string" and schema.get("format") == "date-time":
        return "time"
    if one == "array" and isinstance(schema.get("items"), dict):
        return f"list of {kind(schema['items'])}"
    further = schema.get("additionalProperties")
    if one == "object" and isinstance(further, dict):
        return f"object of {kind(further)}"
    if one == "integer" and "minimum" in schema:
        return f"integer from {schema['minimum']}"
    return one


def statuses(_: str, __: str | None) -> str:
    """The exit statuses of all commands."""
    rows = [[f"{status}", name, exits.MEANINGS[status]] for status, name in exits.NAMES.items()]
    return table(["status", "name", "meaning"], rows)


def outcomes(_: str, __: str | None) -> str:
    """The outcomes of a run."""
    rows = [[f"`{word}`", f"{status}", exits.WHEN[word]] for word, status in exits.OUTCOMES.items()]
    return table(["outcome", "status", "when"], rows)


def flags(_: str, __: str | None) -> str:
    """What a packet's command may say."""
    rows = [[f"`{name}`", "one" if takes else "none"] for name, takes in argv.LISTED.items()]
    keys = ", ".join(f"`{key}`" for key in argv.LISTED_CONFIG)
    return table(["flag", "value"], rows) + f"\n\nKeys that `-c` may set: {keys}."


def allowances(_: str, __: str | None) -> str:
    """What --allow may name."""
    rows = [[f"`{kind}`", said] for kind, said in judgement.KINDS.items()]
    return table(["kind", "lets this pass"], rows)


def environment(_: str, __: str | None) -> str:
    """The variables that a worker gets of the caller's."""
    return ", ".join(f"`{name}`" for name in sorted(passed.PASSED))


def file(_: str, what: str | None) -> str:
    """A file of the repository, whole."""
    assert what is not None
    text = (TOP / what).read_text(encoding="utf-8")
    return f"```{what.rsplit('.', 1)[1]}\n{text}```"


PARTS: dict[str, Callable[[str, str | None], str]] = {
    "usage": usage,
    "options": options,
    "fields": fields,
    "statuses": statuses,
    "outcomes": outcomes,
    "flags": flags,
    "allowances": allowances,
    "environment": environment,
    "file": file,
}


def table(heads: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; bars within cells are escaped."""
    lines = [heads, ["---"] * len(heads), *([cell.replace("|", "\\|") for cell in r] for r in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def made(path: Path) -> str:
    """The text of a page with its generated parts as they should be."""

    def part(match: re.Match[str]) -> str:
        name, what = match["name"], match["what"]
        text = PARTS[name](path.stem, what)
        return f"<!-- {name}{f' {what}' if what else ''} -->\n{text}\n<!-- /{name} -->"

    return _PART.sub(part, path.read_text(encoding="utf-8"))


def stale() -> list[Path]:
    """The pages whose generated parts are not what they should be."""
    pages = sorted(DOCS.rglob("*.md"))
    return [path for path in pages if made(path) != path.read_text(encoding="utf-8")]


def main(words: list[str]) -> int:
    """Write, or with --check only name, what is stale; the exit status."""
    if words not in ([], ["--check"]):
        print(f"generate.py: {' '.join(words)}: only --check is known", file=sys.stderr)
        return exits.USAGE
    found = stale()
    for path in found:
        print(path.relative_to(TOP))
        if not words:
            path.write_text(made(path), encoding="utf-8")
    return exits.NO if found and words else exits.OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
