"""The command line of a packet: the listed flags, each once, and what is refused by name."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from waybill.codex import argv

BEGIN = ["codex", "exec"]


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        pytest.param([], {}, id="nothing"),
        pytest.param(["--json"], {"--json": None}, id="--json"),
        pytest.param(["--skip-git-repo-check"], {"--skip-git-repo-check": None}, id="no check"),
        pytest.param(["--ephemeral"], {"--ephemeral": None}, id="--ephemeral"),
        *(
            pytest.param([name, "x y"], {name: "x y"}, id=f"{name} and a word")
            for name, takes in argv.LISTED.items()
            if takes and name != "-c"
        ),
        pytest.param(
            ["--sandbox=read-only"], {"--sandbox": "read-only"}, id="after an equals sign"
        ),
        pytest.param(["--model=a=b"], {"--model": "a=b"}, id="two equals signs"),
        pytest.param(["--cd="], {"--cd": ""}, id="an empty value"),
    ],
)
def test_every_listed_flag_is_read(words: list[str], flags: dict[str, str | None]) -> None:
    said = argv.parse([*BEGIN, *words])
    assert said.flags == flags
    assert said.json == ("--json" in flags)
    assert said.spellings() == list(flags)


@pytest.mark.parametrize(
    ("words", "config"),
    [
        (["-c", "model_reasoning_effort=high"], {"model_reasoning_effort": "high"}),
        (["-c=project_doc_max_bytes=0"], {"project_doc_max_bytes": "0"}),
        (["-c", ' projects = {"/a"=1}'], {"projects": ' {"/a"=1}'}),
    ],
)
def test_every_listed_setting_is_read(words: list[str], config: dict[str, str]) -> None:
    said = argv.parse([*BEGIN, *words])
    assert said.config == config
    assert said.spellings() == ["-c"]


@pytest.mark.parametrize(
    ("words", "resume", "prompt", "reads_stdin"),
    [
        pytest.param(["-"], None, None, True, id="a prompt from stdin"),
        pytest.param(["do it"], None, "do it", False, id="a prompt in the command"),
        pytest.param(["resume", "ID"], "ID", None, False, id="a session"),
        pytest.param(["--json", "resume", "ID", "-"], "ID", None, True, id="a session and stdin"),
        pytest.param(["resume", "ID", "go on"], "ID", "go on", False, id="a session and a prompt"),
    ],
)
def test_what_stands_beside_the_flags_is_read(
    words: list[str], resume: str | None, prompt: str | None, reads_stdin: bool
) -> None:
    said = argv.parse([*BEGIN, *words])
    assert (said.resume, said.prompt, said.reads_stdin) == (resume, prompt, reads_stdin)


@pytest.mark.parametrize(
    ("words", "index", "rule", "said"),
    [
        pytest.param(["-s", "read-only"], 2, "argv-flag", "-s is not a listed", id="-s"),
        pytest.param(["-sread-only"], 2, "argv-flag", "-sread-only is", id="-s with its value"),
        pytest.param(["-C", "."], 2, "argv-flag", "-C is not a listed", id="-C"),
        pytest.param(["-m", "x"], 2, "argv-flag", "-m is not a listed", id="-m"),
        pytest.param(["-o", "x"], 2, "argv-flag", "-o is not a listed", id="-o"),
        pytest.param(["-p", "x"], 2, "argv-flag", "-p is not a listed", id="-p"),
        pytest.param(["--full-auto"], 2, "argv-flag", "--full-auto is not", id="--full-auto"),
        pytest.param(
            ["--sandbox", "read-only", "--dangerously-bypass-approvals-and-sandbox"],
            4,
            "argv-flag",
            "--allow-flag --dangerously-bypass-approvals-and-sandbox lets it through",
            id="the flag that bypasses the sandbox beside a sandbox",
        ),
        pytest.param(["--yolo"], 2, "argv-flag", "--yolo is not", id="its other name"),
        pytest.param(["--config", "a=b"], 2, "argv-flag", "--config is not", id="--config"),
        pytest.param(["--profile=x"], 2, "argv-flag", "--profile is not", id="--profile=x"),
        pytest.param(["--add-dir", "/"], 2, "argv-flag", "--add-dir is not", id="--add-dir"),
        pytest.param(["--js"], 2, "argv-flag", "--js is not", id="the beginning of a flag"),
        pytest.param(["--JSON"], 2, "argv-flag", "--JSON is not", id="a flag in capitals"),
        pytest.param(["--"], 2, "argv-flag", "-- is not", id="two dashes"),
        pytest.param(["--json=yes"], 2, "argv-flag", "takes no value", id="a value too many"),
        pytest.param(["--model"], 2, "argv-flag", "lacks its value", id="a value that is lacking"),
        pytest.param(["--model", "--json"], 2, "argv-flag", "lacks", id="a flag in its place"),
        pytest.param(["--output-schema", "-"], 2, "argv-flag", "lacks", id="a dash in its place"),
        pytest.param(["--json", "--json"], 3, "argv-duplicate", "--json stands twice", id="twice"),
        pytest.param(
            ["--sandbox", "read-only", "--sandbox=danger-full-access"],
            4,
            "argv-duplicate",
            "--sandbox stands twice",
            id="twice in two spellings",
        ),
        pytest.param(["-c", "x"], 2, "argv-flag", "needs key=value", id="-c without a value"),
        pytest.param(
            ["-c", "sandbox_workspace_write.network_access=true"],
            2,
            "argv-config",
            "--allow-flag=-c:sandbox_workspace_write.network_access lets it through",
            id="a setting that widens the sandbox",
        ),
        pytest.param(["-c", "sandbox_mode=x"], 2, "argv-config", "sandbox_mode", id="the sandbox"),
        pytest.param(["-csandbox_mode=x"], 2, "argv-flag", "-csandbox_mode", id="-c and its key"),
        pytest.param(
            ["-c", 'projects."/a".trust_level="trusted"'],
            2,
            "argv-config",
            "not a listed key",
            id="a dotted form of a listed setting",
        ),
        pytest.param(
            ["-c", "projects=1", "-c", " projects =2"],
            4,
            "argv-duplicate",
            "-c projects stands twice",
            id="a setting twice",
        ),
        pytest.param(
            ["-", "--json"], 2, "argv-shape", "must be last", id="a dash that is not last"
        ),
        pytest.param(["-", "-"], 2, "argv-shape", "must be last", id="two dashes alone"),
        pytest.param(["resume"], 2, "argv-shape", "needs the id", id="resume without an id"),
        pytest.param(["resume", "--last"], 2, "argv-shape", "needs the id", id="resume --last"),
        pytest.param(["resume", "-"], 2, "argv-shape", "needs the id", id="resume and a dash"),
        pytest.param(
            ["resume", "ID", "--json"], 4, "argv-shape", "before the word resume", id="a flag after"
        ),
        pytest.param(["resume", "A", "resume", "B"], 4, "argv-shape", "not permitted", id="again"),
        pytest.param(["fork", "ID"], 2, "argv-shape", "'fork' is not permitted", id="fork"),
        pytest.param(["review"], 2, "argv-shape", "'review' is not permitted", id="review"),
        pytest.param(["help"], 2, "argv-shape", "'help' is not permitted", id="help"),
        pytest.param(["a", "b"], 3, "argv-shape", "'b' is not permitted", id="two prompts"),
        pytest.param([""], 2, "argv-shape", "'' is not permitted", id="an empty word"),
    ],
)
def test_anything_else_is_refused_by_name(
    words: list[str], index: int, rule: str, said: str
) -> None:
    with pytest.raises(argv.Unfit) as caught:
        argv.parse([*BEGIN, *words])
    assert (caught.value.index, caught.value.rule) == (index, rule)
    assert said in caught.value.message


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["codex"],
        ["exec"],
        ["codex", "e"],
        ["/usr/bin/codex", "exec"],
        ["codex", "--json", "exec"],
    ],
)
def test_a_command_begins_with_codex_exec(words: list[str]) -> None:
    with pytest.raises(argv.Unfit, match="codex exec") as caught:
        argv.parse(words)
    assert (caught.value.index, caught.value.rule) == (0, "argv-shape")


@pytest.mark.parametrize(
    ("words", "allowed", "let_through", "spelt"),
    [
        pytest.param(["--oss"], ["--oss"], ["--oss"], ["--oss"], id="a flag"),
        pytest.param(
            ["--add-dir", "/a", "x"],
            ["--add-dir"],
            ["--add-dir"],
            ["--add-dir"],
            id="its value too",
        ),
        pytest.param(["--color=never"], ["--color"], ["--color=never"], ["--color"], id="--a=b"),
        pytest.param(
            ["-c", "a.b=1"], ["-c:a.b"], ["-c:a.b"], ["-c:a.b", "-c"], id="a setting by its key"
        ),
    ],
)
def test_a_flag_allowed_by_name_is_let_through_and_told(
    words: list[str], allowed: list[str], let_through: list[str], spelt: list[str]
) -> None:
    said = argv.parse([*BEGIN, *words], allowed)
    assert (said.allowed, said.spellings()) == (let_through, spelt)
    assert said.prompt == ("x" if "x" in words else None)
    with pytest.raises(argv.Unfit):
        argv.parse([*BEGIN, *words], ["--other", "-c:a", "-c"])


@pytest.mark.parametrize(
    "folders", [["/a"], ["/a", "/b c"], ['/a"b\\c', "/d\te", "/é名\x7f", "/x]=1\n#"]]
)
def test_distrust_names_the_folders_whatever_their_names(folders: list[str]) -> None:
    key, _, value = argv.distrust(folders).partition("=")
    assert key == "projects"
    assert argv.distrusted(value) == set(folders)
    read: Any = tomllib.loads(argv.distrust(folders))
    assert read == {"projects": {folder: {"trust_level": "untrusted"} for folder in folders}}


@pytest.mark.parametrize(
    "value",
    [
        pytest.param('{"/a"={trust_level="trusted"}}', id="one that is trusted"),
        pytest.param(
            '{"/a"={trust_level="untrusted"},"/b"={trust_level="trusted"}}', id="one of two"
        ),
        pytest.param('{"/a"={trust_level="untrusted",x=1}}', id="more than that"),
        pytest.param('{"/a"="untrusted"}', id="another shape"),
        pytest.param("{}", id="no folder"),
        pytest.param("1", id="a number"),
        pytest.param("", id="nothing"),
        pytest.param('{"/a"={trust_level="untrusted"}', id="no TOML"),
        pytest.param("[" * 5000, id="no end of nesting"),
    ],
)
def test_a_value_that_trusts_or_says_nothing_is_no_distrust(value: str) -> None:
    assert argv.distrusted(value) is None
