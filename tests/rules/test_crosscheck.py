"""The rules between the parts of a packet: a good one, one change, and the rule it breaks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from good import ARGV, RUN, make
from waybill.base import exits
from waybill.base.exits import Fault
from waybill.codex import argv as codex_argv
from waybill.packet import crosscheck
from waybill.packet.crosscheck import Options

READ_ONLY = ["codex", "exec", "--json", "--sandbox", "read-only", "-"]
BYPASS = "--dangerously-bypass-approvals-and-sandbox"
RESUME = {"policy": "session-id", "allow_resume": True, "session_id": "ID"}
RESUMING = [*ARGV[:-1], "--cd", ".", "resume", "ID", "-"]
STRICT = Options()
REHEARSED = Options(rehearsal_model="gpt-5.4")


def before(*words: str) -> list[str]:
    """The good command with more words before its last."""
    return [*ARGV[:-1], *words, ARGV[-1]]


def broken(
    base: Path, changes: dict[str, Any], options: Options = STRICT
) -> tuple[str, str] | None:
    """The path and the rule of the first violation; None when every rule holds."""
    first = next(crosscheck.violations(make(changes), base, options), None)
    return (first.path, first.rule) if first else None


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        pytest.param({}, STRICT, id="a worker that writes"),
        pytest.param({"sandbox": "read-only", "argv": READ_ONLY}, STRICT, id="one that reads"),
        pytest.param({"argv": before("--cd", "."), "cwd": "sub"}, STRICT, id="--cd, relative"),
        pytest.param(
            {"argv": before("--output-last-message", f"./x/../{RUN}/final.md")},
            STRICT,
            id="the final message in another spelling",
        ),
        pytest.param({"evidence.receipt_path": f"{RUN}/./receipt.json"}, STRICT, id="receipt"),
        pytest.param({"evidence.receipt_path": " "}, STRICT, id="no second receipt path"),
        pytest.param(
            {"argv": [*ARGV[:-1], "do it"], "execution.stdin.mode": "closed"},
            STRICT,
            id="a prompt in the command and a closed stdin",
        ),
        pytest.param(
            {
                "output.capture_mode": "output-schema",
                "output.schema_path": "s.json",
                "argv": before("--output-schema", "s.json"),
            },
            STRICT,
            id="an answer with a schema",
        ),
        pytest.param({"resume": {"policy": "none", "allow_resume": False}}, STRICT, id="none"),
        pytest.param({"resume": RESUME, "argv": RESUMING}, STRICT, id="a resumed session"),
        pytest.param(
            {"argv": before("-c", codex_argv.distrust(["/a"]))},
            STRICT,
            id="a distrusted project",
        ),
        pytest.param(
            {"argv": before("-c", 'projects={"/a"={trust_level="trusted"}}')},
            Options(trust_project=True),
            id="a trusted one, on request",
        ),
        pytest.param({"argv": before(BYPASS)}, Options(allow_flags=(BYPASS,)), id="by its name"),
        pytest.param(
            {
                "sandbox": "read-only",
                "argv": READ_ONLY,
                "evidence.required_commands": ["./check"],
            },
            Options(confine_evidence=True),
            id="checks of a run that reads, confined",
        ),
        pytest.param(
            {"sandbox": "read-only", "argv": READ_ONLY, "evidence.required_commands": [" "]},
            STRICT,
            id="a blank check is none",
        ),
        pytest.param({"argv": before("--model", "gpt-5.4")}, REHEARSED, id="the rehearsal's model"),
    ],
)
def test_a_packet_whose_parts_agree_passes(
    tmp_path: Path, changes: dict[str, Any], options: Options
) -> None:
    assert broken(tmp_path, changes, options) is None


@pytest.mark.parametrize(
    ("changes", "path", "rule"),
    [
        pytest.param({"packet_id": " "}, "$.packet_id", "blank", id="a blank name"),
        pytest.param({"cwd": "\t"}, "$.cwd", "blank", id="a blank folder"),
        pytest.param({"objective": "\n"}, "$.objective", "blank", id="a blank objective"),
        pytest.param({"output.receipt_path": ""}, "$.output.receipt_path", "blank", id="receipt"),
        pytest.param(
            {"output.final_message_path": " "}, "$.output.final_message_path", "blank", id="message"
        ),
        pytest.param({"cwd": "a\0b"}, "$.cwd", "nul", id="a NUL in a path"),
        pytest.param({"notes": ["x", "a\0"]}, "$.notes[1]", "nul", id="a NUL in a note"),
        pytest.param(
            {"execution.environment": {"A": "\0"}},
            "$.execution.environment.A",
            "nul",
            id="a NUL in a variable",
        ),
        *(
            pytest.param(
                {"execution.environment": {name: "x"}},
                "$.execution.environment",
                "environment-name",
                id=f"a variable called {name!r}",
            )
            for name in ("", "A=B", "A\0")
        ),
        pytest.param(
            {"resume": {"policy": "last-session-in-cwd", "allow_resume": True}},
            "$.resume.policy",
            "resume-last",
            id="the last session, whichever it is",
        ),
        pytest.param(
            {"resume": {**RESUME, "allow_resume": False}, "argv": RESUMING},
            "$.resume.allow_resume",
            "resume-not-allowed",
            id="a session that may not be resumed",
        ),
        pytest.param(
            {"resume": {"policy": "session-id", "allow_resume": True}, "argv": RESUMING},
            "$.resume.session_id",
            "resume-id",
            id="no session",
        ),
        pytest.param(
            {"resume": {**RESUME, "session_id": " "}, "argv": RESUMING},
            "$.resume.session_id",
            "resume-id",
            id="a blank session",
        ),
        pytest.param(
            {"dispatch.command": before("--ephemeral")},
            "$.dispatch.command",
            "command-differs",
            id="two commands",
        ),
        pytest.param(
            {"dispatch.command": [*ARGV[2:], *ARGV[:2]]},
            "$.dispatch.command",
            "command-differs",
            id="the same words in another order",
        ),
        pytest.param({"argv": ["sh", "-c"]}, "$.execution.argv[0]", "argv-shape", id="no Codex"),
        pytest.param({"argv": before(BYPASS)}, "$.execution.argv[5]", "argv-flag", id="bypass"),
        pytest.param(
            {"argv": before("-c", "a=b")}, "$.execution.argv[5]", "argv-config", id="a setting"
        ),
        pytest.param(
            {"argv": before("--json")}, "$.execution.argv[5]", "argv-duplicate", id="a flag twice"
        ),
        pytest.param(
            {"argv": ["codex", "exec", "-"]}, "$.execution.argv", "sandbox-missing", id="no sandbox"
        ),
        pytest.param(
            {"sandbox": "read-only"}, "$.execution.argv", "sandbox-mismatch", id="another sandbox"
        ),
        pytest.param(
            {"argv": ["codex", "exec", "--sandbox=", "-"]},
            "$.execution.argv",
            "sandbox-mismatch",
            id="an empty sandbox",
        ),
        pytest.param(
            {
                "sandbox": "read-only",
                "argv": READ_ONLY,
                "evidence.required_commands": ["./check"],
            },
            "$.evidence.required_commands",
            "read-only-evidence",
            id="checks of a run that reads",
        ),
        pytest.param(
            {"evidence.required_commands": ["./check", " make test"]},
            "$.evidence.required_commands[1]",
            "evidence-grammar",
            id="a check that is looked up on PATH",
        ),
        pytest.param(
            {"evidence.receipt_path": "other.json"},
            "$.evidence.receipt_path",
            "receipt-path",
            id="two receipts",
        ),
        pytest.param(
            {"argv": before("--cd", "/")}, "$.execution.argv", "cd-mismatch", id="another folder"
        ),
        pytest.param(
            {"argv": before("--output-last-message", "final.md")},
            "$.execution.argv",
            "final-message-path",
            id="the final message elsewhere",
        ),
        pytest.param(
            {"output.final_message_path": f"{RUN}/x/../receipt.json"},
            "$.output",
            "output-collision",
            id="the message over the receipt",
        ),
        pytest.param(
            {"output.jsonl_path": f"{RUN}/final.md"},
            "$.output",
            "output-collision",
            id="the events over the message",
        ),
        pytest.param(
            {"output.final_message_path": f"{RUN}/run.json"},
            "$.output",
            "output-collision",
            id="the message over the record",
        ),
        pytest.param(
            {"output.final_message_path": f"{RUN}/events.jsonl"},
            "$.output",
            "output-collision",
            id="the message over the events, where they are by default",
        ),
        pytest.param(
            {"output.jsonl_path": f"{RUN}/packet.json"},
            "$.output",
            "output-collision",
            id="the events over the packet",
        ),
        pytest.param(
            {"output.jsonl_path": f"{RUN}/generations/1-dispatch.json"},
            "$.output",
            "output-collision",
            id="the events over a generation",
        ),
        pytest.param(
            {"output.jsonl_path": f"{RUN}/../ledger.jsonl"},
            "$.output",
            "output-collision",
            id="the events over the ledger",
        ),
        pytest.param(
            {
                "output.receipt_path": f"{RUN}/run.json",
                "evidence.receipt_path": f"{RUN}/run.json",
            },
            "$.output",
            "output-collision",
            id="the receipt over the record",
        ),
        pytest.param(
            {"execution.stdin.mode": "inherit-interactive"},
            "$.execution.stdin.mode",
            "stdin-interactive",
            id="a stdin of somebody else",
        ),
        pytest.param(
            {"execution.stdin.close_after_prompt": False},
            "$.execution.stdin.close_after_prompt",
            "stdin-open",
            id="a stdin that stays open",
        ),
        pytest.param(
            {"argv": [*ARGV[:-1], "do it"]},
            "$.execution.argv",
            "argv-shape",
            id="a prompt in the command beside one on stdin",
        ),
        pytest.param(
            {"execution.stdin.mode": "closed"},
            "$.execution.argv",
            "argv-shape",
            id="a dash for a stdin that is closed",
        ),
        pytest.param(
            {"output.capture_mode": "jsonl", "argv": [*ARGV[:2], *ARGV[3:]]},
            "$.output.capture_mode",
            "capture-jsonl",
            id="events that are not asked for",
        ),
        pytest.param(
            {"output.capture_mode": "output-schema"},
            "$.execution.output_schema_path",
            "capture-schema",
            id="a schema that is not there",
        ),
        pytest.param(
            {
                "output.capture_mode": "output-schema",
                "execution.output_schema_path": "a.json",
                "argv": before("--output-schema", "b.json"),
            },
            "$.execution.argv",
            "capture-schema",
            id="another schema",
        ),
        pytest.param(
            {"argv": before("--output-schema", "a.json")},
            "$.output.capture_mode",
            "capture-schema",
            id="a schema that nobody asked for",
        ),
        pytest.param(
            {"argv": RESUMING}, "$.execution.argv", "resume-undeclared", id="resumed in secret"
        ),
        pytest.param(
            {"argv": RESUMING, "resume": {"policy": "none", "allow_resume": True}},
            "$.execution.argv",
            "resume-undeclared",
            id="resumed against the policy",
        ),
        pytest.param({"resume": RESUME}, "$.execution.argv", "resume-mismatch", id="not resumed"),
        pytest.param(
            {"resume": {**RESUME, "session_id": "OTHER"}, "argv": RESUMING},
            "$.execution.argv",
            "resume-mismatch",
            id="another session",
        ),
        pytest.param(
            {"resume": RESUME, "argv": [*ARGV[:-1], "resume", "ID", "-"]},
            "$.execution.argv",
            "resume-folder",
            id="a session without its folder",
        ),
        pytest.param(
            {"argv": before("-c", 'projects={"/a"={trust_level="trusted"}}')},
            "$.execution.argv",
            "project-trust",
            id="a project that is trusted",
        ),
        pytest.param(
            {"argv": before("-c", "projects=1")}, "$.execution.argv", "project-trust", id="no table"
        ),
    ],
)
def test_a_packet_that_contradicts_itself_breaks_a_rule_by_its_name(
    tmp_path: Path, changes: dict[str, Any], path: str, rule: str
) -> None:
    assert broken(tmp_path, changes) == (path, rule)


@pytest.mark.parametrize(
    ("changes", "allowed"),
    [
        pytest.param({"execution.environment": {"CODEX_HOME": "/x"}}, (), id="another home"),
        pytest.param({"execution.environment": {"OPENAI_BASE_URL": ""}}, (), id="another server"),
        pytest.param({"argv": before("--model", "gpt-5.5")}, (), id="another model"),
        pytest.param({"argv": before("--oss")}, ("--oss",), id="another provider"),
        pytest.param({"argv": before("--profile", "x")}, ("--profile",), id="a profile"),
        pytest.param({"argv": before("-p", "x")}, ("-p",), id="a profile, in short"),
        pytest.param({"argv": before("--config=a=b")}, ("--config",), id="any setting"),
        pytest.param({"argv": before("-c", "a=b")}, ("-c:a",), id="a setting let through"),
    ],
)
def test_a_rehearsal_cannot_lead_to_another_model(
    tmp_path: Path, changes: dict[str, Any], allowed: tuple[str, ...]
) -> None:
    found = broken(tmp_path, changes, Options(allowed, rehearsal_model="gpt-5.4"))
    assert found is not None
    assert found[1] == "rehearsal-escape"
    assert broken(tmp_path, changes, Options(allowed)) is None


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        pytest.param(
            {
                "resume": {"policy": "last-session-in-cwd", "allow_resume": True},
                "sandbox": "read-only",
                "evidence.required_commands": ["./check"],
            },
            ["resume-last", "sandbox-mismatch", "read-only-evidence"],
            id="resume policy, sandbox, checks of a run that reads",
        ),
        pytest.param(
            {"packet_id": " ", "dispatch.command": ["x"], "argv": before("--nope")},
            ["blank", "argv-flag"],
            id="text before the command",
        ),
        pytest.param(
            {"evidence.required_commands": ["make"], "execution.stdin.close_after_prompt": False},
            ["evidence-grammar", "stdin-open"],
            id="checks before stdin",
        ),
    ],
)
def test_the_rules_are_checked_in_their_order(
    tmp_path: Path, changes: dict[str, Any], rules: list[str]
) -> None:
    found = crosscheck.violations(make(changes), tmp_path, STRICT)
    assert [violation.rule for violation in found] == rules


def test_the_first_broken_rule_is_the_fault_with_path_rule_and_sentence(tmp_path: Path) -> None:
    with pytest.raises(Fault) as caught:
        crosscheck.check(make({"sandbox": "read-only"}), tmp_path, STRICT)
    assert (caught.value.status, caught.value.outcome) == (exits.DATA, None)
    assert str(caught.value) == (
        "packet.json: $.execution.argv: sandbox-mismatch:"
        " --sandbox workspace-write is not the packet's read-only"
    )


def test_paths_are_compared_where_links_lead(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    argv = before("--cd", str(tmp_path / "real"))
    assert broken(tmp_path, {"cwd": "link", "argv": argv}) is None


def test_a_packet_without_an_event_stream_is_legal(tmp_path: Path) -> None:
    argv = ["codex", "exec", "--sandbox", "workspace-write", "do it"]
    packet = make({"argv": argv, "execution.stdin.mode": "closed"})
    said = crosscheck.check(packet, tmp_path, STRICT)
    assert (said.json, said.prompt) == (False, "do it")
