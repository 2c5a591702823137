"""The pages say what the code says: every part that can be compared is."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from waybill.base import command, exits
from waybill.packet import answer, boundary, judgement

TOP = Path(__file__).resolve().parents[2]
DOCS = TOP / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
COMMANDS = sorted(path.name for path in (TOP / "bin").iterdir() if path.is_file())
RECORDS = sorted(path.name.split(".")[0] for path in (TOP / "schemas").glob("*.schema.json"))
SECTIONS = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "READS AND WRITES", "EXIT STATUS",
            "EXAMPLES", "SEE ALSO"]  # fmt: skip
# Statuses that the shared runner gives whatever the command does.
EVERYWHERE = {exits.OK, exits.USAGE, exits.SOFTWARE, exits.STORE, exits.INT, exits.TERM, exits.PIPE}


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generate = _generator()


def section(text: str, title: str) -> str:
    """What stands below one heading of the second level."""
    return text.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def cells(text: str) -> list[list[str]]:
    """The rows of every table of a text, without heads."""
    rows = re.findall(r"^\| (.*) \|$", text, re.MULTILINE)
    found: list[list[str]] = []
    for row in rows:
        if set(row) <= set("- |"):
            found = found[:-1]
        else:
            found.append([cell.strip() for cell in re.split(r"(?<!\\)\|", row)])
    return found


def page(name: str) -> str:
    """The text of a page."""
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def record_page(name: str) -> str:
    """The text of a record's page."""
    return page(generate.PAGES.get(name, name))


def named(text: str) -> set[str]:
    """The words in code style of the first column of a text's tables."""
    return {word for row in cells(text) for word in re.findall(r"`([^`]+)`", row[0])}


def test_every_generated_part_is_what_the_generator_makes() -> None:
    stale = [str(path.relative_to(TOP)) for path in generate.stale()]
    assert not stale, "run: make docs"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_a_page_with_every_section_in_order(name: str) -> None:
    text = page(name)
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS
    assert "```console\n" in section(text, "EXAMPLES")
    assert "<!-- options -->" in section(text, "OPTIONS")
    summary = generate.manual(name).split("\n", 1)[0]
    assert section(text, "NAME").strip() == summary


@pytest.mark.parametrize("name", COMMANDS)
def test_the_statuses_of_a_command_are_those_of_the_one_table(name: str) -> None:
    rows = cells(section(page(name), "EXIT STATUS"))
    told = [int(row[0]) for row in rows]
    assert [row[1] for row in rows] == [exits.NAMES[status] for status in told]
    assert told == sorted(set(told))
    assert set(told) >= EVERYWHERE
    manual = generate.manual(name).split("exit status", 1)[1]
    assert {int(word) for word in re.findall(r"\b(?:\d{1,3})\b(?=[ ;,])", manual)} <= set(told)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_of_a_command_hold_a_good_one_and_a_failing_one(name: str) -> None:
    blocks = re.findall(r"```console\n(.*?)```", section(page(name), "EXAMPLES"), re.DOTALL)
    # A status may follow on the line below its command, or below `command; echo $?`.
    said = re.findall(r"^\$ .*echo \$\?\n(\d+)$", "\n".join(blocks), re.MULTILINE)
    shown = {int(status) for status in said}
    assert shown - {0}, "no failing example"
    assert 0 in shown or len(blocks) > 1


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_manual_is_accepted(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = generate.manual(name)
    for spelling, _ in generate.option_rows(name):
        if spelling in ("-h, --help", "--version"):
            continue
        option, _, value = spelling.partition(" ")
        given = [option, value] if value else [option]
        # What an option may only stand beside.
        needs = {"--repo": ["--replay"], "--head": ["--ledger"]}.get(option, [])
        tail = ["SCRIPT"] if name == "rehearsal-model" else []
        if name == "verify" and option in ("--arg", "--cwd", "--log"):
            needs = ["--command", "true"]
        monkeypatch.setattr(sys, "argv", [name, *needs, *given, *tail])
        parsed = command._parse(name, text)
        held = parsed[option]
        assert held in (True, 1, value, [value]), f"{option}: {held!r}"
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_usage_is_explained(name: str) -> None:
    used = set(re.findall(r"--[a-z][a-z-]*", generate.usage(name, None)))
    explained = set(
        re.findall(r"--[a-z][a-z-]*", " ".join(s for s, _ in generate.option_rows(name)))
    )
    assert used <= explained


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_has_a_page_with_its_fields(name: str) -> None:
    text = record_page(name)
    assert "<!-- fields -->" in section(text, "Fields")
    assert f"`schemas/{name}.schema.json`" in text
    for row in cells(section(text, "Fields")):
        assert row[-1], f"{row[0]} has no meaning"


@pytest.mark.parametrize("name", RECORDS)
def test_a_schema_is_a_schema_and_says_what_it_is(name: str) -> None:
    import jsonschema

    schema: dict[str, Any] = json.loads((TOP / "schemas" / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["description"]
    assert schema["title"]


def _anchors(path: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head).strip().lower().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("path", [*PAGES, TOP / "README.md"], ids=lambda p: p.name)
def test_every_link_leads_somewhere(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        found = (path.parent / name).resolve() if name else path
        assert found.exists(), target
        if anchor:
            assert anchor in _anchors(found), target


def test_the_index_names_every_page() -> None:
    linked = set(re.findall(r"\]\(([^)#]+\.md)\)", page("README")))
    pages = {str(path.relative_to(DOCS)) for path in PAGES} - {"README.md"}
    assert pages == linked - {"../README.md"}


def _rules() -> set[str]:
    """The names of all rules, as the code gives them to what it raises and yields."""
    found = set()
    for path in ("packet/crosscheck.py", "codex/argv.py"):
        tree = ast.parse((TOP / "lib" / "waybill" / path).read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in (
                "Violation",
                "Unfit",
            ):
                rule = node.args[1]
                if isinstance(rule, ast.Constant):
                    found.add(str(rule.value))
    return found


def test_every_rule_of_a_packet_is_on_its_page() -> None:
    rules = _rules()
    assert len(rules) > 20
    assert named(section(page("task-packet"), "Rules")) == rules


def test_every_rule_of_a_judgement_is_on_its_page() -> None:
    schema = json.loads((TOP / "schemas" / "judgement.schema.json").read_text())
    rules = schema["properties"]["reasons"]["items"]["properties"]["rule"]["enum"]
    assert named(section(page("judgement"), "Rules")) == set(rules)
    assert named(section(page("judgement"), "Allowances")) == set(judgement.KINDS)
    manual = " ".join(generate.manual("receipt-check").split())
    assert ", ".join(judgement.KINDS) in manual


def test_every_outcome_has_its_verdict_on_the_page() -> None:
    rows = cells(section(page("outcomes"), "What the receipt says"))
    verdicts = {
        word: row[1] for row in rows for word in re.findall(r"`([a-z_]+)`", row[0])
        if word in exits.OUTCOMES
    }  # fmt: skip
    assert set(verdicts) == set(exits.OUTCOMES)
    for word in answer.BEFORE_A_JUDGE - {"already_running", "config_error"}:
        assert verdicts[word] == "`ERROR`", word


def test_every_file_of_a_run_folder_is_on_its_page() -> None:
    told = named(section(page("run-folder"), "What lies in it"))
    assert {word.split("/")[0] for word in told} == set(boundary.OWN)
    assert boundary.LEDGER in page("run-folder")


def test_the_states_of_a_run_are_those_of_its_schema() -> None:
    schema = json.loads((TOP / "schemas" / "run-record.schema.json").read_text())
    rows = cells(section(page("run-folder"), "How far a run has come"))
    assert [row[0].strip("`") for row in rows] == schema["properties"]["state"]["enum"]


def test_every_check_of_the_doctor_is_on_its_page() -> None:
    source = "".join(p.read_text() for p in (TOP / "lib" / "waybill" / "doctor").glob("*.py"))
    names = set(re.findall(r'\b(?:ok|warning|failed)\(\s*"([a-z ]+)"', source))
    assert len(names) > 10
    assert named(section(page("doctor"), "DESCRIPTION")) == names
