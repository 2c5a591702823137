"""The Codex binary: which one it is, and what it says of itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from codex_cli_bin import bundled_codex_path
from waybill.base import exits
from waybill.base.exits import Fault
from waybill.codex import binary

HERE = f"{os.uname().machine}-unknown-linux-musl"

Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Make a program below tmp_path."""

    def made(name: str, mode: int = 0o755) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode)
        return path

    return made


@pytest.fixture
def choices(make: Make) -> dict[str, Path]:
    return {name: make(f"{name}/codex") for name in ("option", "variable", "path")}


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        pytest.param(["option", "variable", "path"], "option", id="the option first"),
        pytest.param(["variable", "path"], "variable", id="then the variable"),
        pytest.param(["path"], "path", id="then codex on PATH"),
    ],
)
def test_the_first_named_binary_is_taken(
    choices: dict[str, Path], given: list[str], chosen: str
) -> None:
    option = str(choices["option"]) if "option" in given else None
    environment = {"PATH": str(choices["path"].parent)}
    if "variable" in given:
        environment[binary.VARIABLE] = str(choices["variable"])
    assert binary.locate(option, environment) == str(choices[chosen])


@pytest.mark.parametrize("environment", [{}, {"PATH": ""}, {"PATH": "/nowhere"}])
def test_the_packaged_binary_is_taken_when_no_other_is_named(environment: dict[str, str]) -> None:
    assert binary.locate(None, environment) == str(bundled_codex_path())


def test_a_name_is_looked_up_on_path(make: Make, tmp_path: Path) -> None:
    make("bin/codex-next")
    environment = {"PATH": f"/nowhere:{tmp_path / 'bin'}"}
    assert binary.locate("codex-next", environment) == str(tmp_path / "bin" / "codex-next")


def test_a_relative_path_is_made_absolute(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make("bin/codex")
    monkeypatch.chdir(tmp_path)
    assert binary.locate("bin/codex", {}) == str(tmp_path / "bin" / "codex")
    assert binary.locate(None, {"PATH": "bin"}) == str(tmp_path / "bin" / "codex")


@pytest.mark.parametrize(
    "planted",
    [
        pytest.param(lambda path: None, id="nothing there"),
        pytest.param(lambda path: path.touch(0o644), id="a file that cannot be run"),
        pytest.param(lambda path: path.mkdir(), id="a folder"),
    ],
)
@pytest.mark.parametrize("by", ["--codex", f"${binary.VARIABLE}"])
def test_a_named_binary_that_cannot_be_run_is_not_replaced_by_another(
    make: Make, tmp_path: Path, planted: Callable[[Path], None], by: str
) -> None:
    asked = tmp_path / "asked"
    planted(asked)
    environment = {"PATH": str(make("path/codex").parent)}
    if by != "--codex":
        environment[binary.VARIABLE] = str(asked)
    with pytest.raises(Fault, match="no Codex binary at") as caught:
        binary.locate(str(asked) if by == "--codex" else None, environment)
    assert (caught.value.outcome, caught.value.status) == ("launch_failed", exits.UNAVAILABLE)
    assert caught.value.subject == by


@pytest.mark.parametrize(
    "beside",
    [
        pytest.param(f"codex/vendor/{HERE}/codex/codex", id="in the package"),
        pytest.param(f"codex/vendor/{HERE}/bin/codex", id="in the package, in bin"),
        pytest.param(f"codex-linux-x64/vendor/{HERE}/codex/codex", id="in a package beside"),
        pytest.param(
            f"codex/node_modules/@openai/codex-linux-x64/vendor/{HERE}/bin/codex",
            id="in a package below",
        ),
    ],
)
def test_the_npm_wrapper_leads_to_the_binary_of_this_machine(
    make: Make, tmp_path: Path, beside: str
) -> None:
    wrapper = make("lib/@openai/codex/bin/codex.js")
    for other in ("aarch64-apple-darwin", "riscv64-unknown-linux-musl", "x86_64-pc-windows-msvc"):
        make(f"lib/@openai/{beside}".replace(HERE, other))
    found = make(f"lib/@openai/{beside}")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "codex").symlink_to(wrapper)
    assert binary.locate(None, {"PATH": str(tmp_path / "bin")}) == str(found)


@pytest.mark.parametrize(
    ("beside", "mode"),
    [
        pytest.param("README", 0o644, id="nothing"),
        pytest.param(f"vendor/{HERE}/codex/codex", 0o644, id="a file that cannot be run"),
        pytest.param("vendor/aarch64-apple-darwin/codex/codex", 0o755, id="another platform's"),
    ],
)
def test_the_npm_wrapper_alone_is_never_run(make: Make, beside: str, mode: int) -> None:
    wrapper = make("lib/@openai/codex/bin/codex.js")
    make(f"lib/@openai/codex/{beside}", mode)
    with pytest.raises(Fault, match="npm wrapper") as caught:
        binary.locate(str(wrapper), {})
    assert caught.value.outcome == "launch_failed"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("codex-cli 0.149.0\n", "0.149.0"),
        ("codex 1.2.3", "1.2.3"),
        ("codex-cli v0.150.0-alpha.3+build", "0.150.0-alpha.3+build"),
        ("WARNING: something\ncodex-cli 0.149.0", "0.149.0"),
        ("codex-cli", None),
        ("codex-cli 0.149", None),
        ("node 22.1.0", None),
        ("mycodex 1.2.3", None),
        ("", None),
    ],
)
def test_the_version_is_that_of_codex(text: str, version: str | None) -> None:
    assert binary.version(text) == version


def test_the_flags_are_those_at_the_start_of_a_line_of_help() -> None:
    text = """Run

Usage: codex exec [OPTIONS] --not-this

Options:
  -c, --config <key=value>
          Overrides what --not-that says
      --json
          Print events
  -o, --output-last-message <FILE>
      --skip-git-repo-check
  -h, --help
"""
    named = "-c --config --json -o --output-last-message --skip-git-repo-check -h --help"
    assert binary.flags(text) == set(named.split())
    assert binary.flags("error: no such command") == frozenset()
