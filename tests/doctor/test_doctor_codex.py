"""Codex looked at: the binary, the version, the flags, the login, the sandbox."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from codex_cli_bin import bundled_codex_path
from waybill.doctor import binary
from waybill.doctor import patient as examined


def look(patient: Any, by_name: Any, codex: str) -> dict[str, Any]:
    found: dict[str, Any] = by_name(binary.codex(patient(codex)))
    return found


def test_the_real_sandbox_lets_a_command_run_and_denies_a_write(patient: Any, by_name: Any) -> None:
    found = look(patient, by_name, str(bundled_codex_path()))
    assert found["sandbox"].status == "ok"
    assert found["codex"].found == f"{bundled_codex_path()}, from --codex"
    assert [found[name].status for name in ("codex", "codex version", "codex flags")] == ["ok"] * 3


def test_a_sandbox_that_lets_a_write_through_has_failed(
    patient: Any, by_name: Any, stub: Any
) -> None:
    finding = look(patient, by_name, stub())["sandbox"]
    assert (finding.status, "was not denied" in finding.found) == ("failed", True)


def test_a_write_that_only_seems_to_have_been_made_was_not_denied(
    patient: Any, by_name: Any, stub: Any
) -> None:
    assert look(patient, by_name, stub(sandbox="exit 0"))["sandbox"].status == "failed"


def test_a_sandbox_in_which_nothing_runs_has_failed_and_says_why(
    patient: Any, by_name: Any, stub: Any
) -> None:
    codex = stub(sandbox="echo one >&2; echo no namespaces >&2; exit 1")
    finding = look(patient, by_name, codex)["sandbox"]
    assert finding.status == "failed"
    assert finding.found.endswith("codex sandbox true exited with 1: no namespaces")


@pytest.mark.parametrize(
    ("source", "says"),
    [("--codex", "--codex"), ("WAYBILL_CODEX", "$WAYBILL_CODEX"), ("PATH", "PATH")],
)
def test_a_script_is_told_apart_from_the_binary_wherever_it_is_named(
    patient: Any, by_name: Any, stub: Any, source: str, says: str
) -> None:
    path = Path(stub())
    if source == "PATH":
        path = path.rename(path.with_name("codex"))
    given = {"WAYBILL_CODEX": str(path)} if source == "WAYBILL_CODEX" else {}
    if source == "PATH":
        given["PATH"] = f"{path.parent}:/usr/bin:/bin"
    who = patient(str(path) if source == "--codex" else None, **given)
    finding = by_name(binary.codex(who))["codex"]
    assert (finding.status, finding.found) == ("warning", f"{path}, a script, from {says}")


def test_the_packaged_binary_is_the_last_resort(patient: Any, by_name: Any, tmp_path: Path) -> None:
    finding = by_name(binary.codex(patient(PATH=str(tmp_path))))["codex"]
    assert finding.status == "ok"
    assert finding.found.endswith("from the package openai-codex-cli-bin")


def test_the_wrapper_of_npm_is_passed_over_and_named(
    patient: Any, by_name: Any, stub: Any, tmp_path: Path
) -> None:
    package = tmp_path / "node_modules" / "codex"
    native = package / "vendor" / f"{os.uname().machine}-unknown-linux-musl" / "bin" / "codex"
    native.parent.mkdir(parents=True)
    Path(stub()).rename(native)
    wrapper = package / "bin" / "codex.js"
    wrapper.parent.mkdir()
    wrapper.write_text("#!/usr/bin/env node\n")
    wrapper.chmod(0o755)
    finding = look(patient, by_name, str(wrapper))["codex"]
    assert finding.status == "warning"
    assert finding.found == f"{native}, behind the wrapper {wrapper}, from --codex"
    assert finding.advice == f"name the binary itself: export WAYBILL_CODEX={native}"


@pytest.mark.parametrize(
    ("version", "status"),
    [("0.149.0", "ok"), ("0.149.7", "ok"), ("0.1490.0", "warning"), ("0.150.0", "warning")],
)
def test_another_version_is_a_warning(version: str, status: str) -> None:
    assert binary.judge_version(version).status == status


def test_a_version_that_cannot_be_read_ends_the_look_at_codex(
    patient: Any, by_name: Any, stub: Any
) -> None:
    found = look(patient, by_name, stub(version="echo broken >&2; exit 3"))
    assert list(found) == ["codex", "codex version"]
    assert found["codex version"].found.endswith("--version exited with 3: broken")


def test_a_binary_that_does_not_answer_is_ended(
    patient: Any, by_name: Any, stub: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examined, "LIMIT", 0.2)
    found = look(patient, by_name, stub(version="exec sleep 60"))
    assert found["codex version"].found.endswith("did not end within 0.2 s and said nothing")


def test_a_file_of_no_known_format_cannot_be_started(
    patient: Any, by_name: Any, tmp_path: Path
) -> None:
    path = tmp_path / "codex"
    path.write_bytes(b"\x7fELF")
    path.chmod(0o755)
    finding = look(patient, by_name, str(path))["codex version"]
    assert (finding.status, "cannot be started" in finding.found) == ("failed", True)


def test_flags_that_this_codex_lacks_are_named(patient: Any, by_name: Any, stub: Any) -> None:
    lacking = "printf '  -c, --config\\n      --json\\n      --sandbox\\n'"
    finding = look(patient, by_name, stub(help=lacking))["codex flags"]
    assert finding.status == "failed"
    assert "--output-last-message" in finding.found
    assert "--json" not in finding.found
    assert look(patient, by_name, stub(help="exit 2"))["codex flags"].status == "failed"


@pytest.mark.parametrize(
    ("says", "status", "advice"),
    [
        ("echo 'Logged in using ChatGPT' >&2", "ok", None),
        ("echo 'Not logged in' >&2; exit 1", "warning", "codex login; a rehearsal needs none"),
        ("exit 1", "warning", "codex login; a rehearsal needs none"),
        (
            "echo 'Logged in using an API key - sk-a***b' >&2",
            "warning",
            "codex logout, then codex login: only the ChatGPT login passes; a rehearsal needs none",
        ),
    ],
)
def test_only_the_chatgpt_login_is_well(
    patient: Any, by_name: Any, stub: Any, says: str, status: str, advice: str | None
) -> None:
    finding = look(patient, by_name, stub(login=says))["login"]
    assert (finding.status, finding.advice) == (status, advice)


def test_the_login_is_asked_for_in_the_environment_of_a_worker(
    patient: Any, by_name: Any, stub: Any
) -> None:
    codex = stub(login='echo "$CODEX_HOME,$CODEX_API_KEY" >&2; exit 1')
    who = patient(codex, CODEX_HOME="/there", CODEX_API_KEY="k")
    assert by_name(binary.codex(who))["login"].found == "/there,"


def test_keys_in_the_environment_are_named_without_their_values(patient: Any) -> None:
    (finding,) = binary.variables(patient(OPENAI_API_KEY="value", CODEX_ACCESS_TOKEN="value"))
    assert finding.status == "warning"
    assert finding.advice == "unset OPENAI_API_KEY CODEX_ACCESS_TOKEN"
    assert "value" not in finding.found
    (finding,) = binary.variables(patient(OPENAI_API_KEY=""))
    assert finding.status == "ok"
