"""A repository's own .codex/config.toml: what it names is started by nobody, unless asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

WORK = [{"exec": "echo new > new.txt"}, {"sleep": 0.3, "say": "done"}]


def plant(project: Any) -> Path:
    """Settings that start a program; the file that the program makes."""
    mark: Path = project.root / "started-by-the-project"
    project.write(
        ".codex/config.toml",
        f'[mcp_servers.planted]\ncommand = "/bin/sh"\nargs = ["-c", "touch {mark}"]\n',
    )
    project.commit()
    return mark


@pytest.mark.parametrize("sandbox", ["workspace-write", "danger-full-access"])
def test_a_packet_of_packet_make_starts_nothing_of_the_project(project: Any, sandbox: str) -> None:
    mark = plant(project)
    made = project.run("packet-make", "--objective", "x", "--packet-id", "t1", "--sandbox", sandbox)
    done = project.rehearse(WORK, made.json)
    assert (made.status, done.status, mark.exists()) == (0, 0, False)
    assert done.stderr == ""


def test_not_in_a_sub_folder_either_when_the_user_trusts_the_top(project: Any) -> None:
    mark = plant(project)
    (project.top / "sub").mkdir()
    words = ["--objective", "x", "--packet-id", "t1", "--cwd", "sub"]
    made = project.run("packet-make", *words)
    trusted = f'[projects."{project.top}"]\ntrust_level = "trusted"\n'
    with project.model(WORK) as model:
        done = project.run("dispatch", stdin=made.json, env=project.login(model, trusted))
    assert (done.status, mark.exists()) == (0, False)
    assert done.json["auth_mode"] == "chatgpt-subscription"
    assert done.json["changed_files"] == ["sub/new.txt"]
    assert (project.home / "codex" / "config.toml").read_text().endswith(trusted)


def foreign(project: Any, packet: Any) -> Any:
    argv = packet()["execution"]["argv"]
    return packet(argv=[word for word in argv if word[:8] not in ("-c", "projects")])


def test_a_foreign_packet_needs_the_word_of_who_dispatches_it(project: Any, packet: Any) -> None:
    mark = plant(project)
    given = foreign(project, packet)
    refused = project.rehearse(WORK, given)
    assert (refused.status, mark.exists()) == (78, False)
    assert "--trust-project" in refused.stderr
    done = project.rehearse(WORK, given, "--trust-project")
    record = project.record()
    assert (done.status, record["relaxations"]) == (0, ["trust-project"])
    assert any(f"trusted: {project.top}/.codex/config.toml" in row for row in record["warnings"])
    # This shows that the tests above would see it.
    assert mark.exists()


def test_a_packet_that_distrusts_too_little_is_refused(project: Any, packet: Any) -> None:
    mark = plant(project)
    (project.top / "sub").mkdir()
    sub = project.top / "sub"
    argv = foreign(project, packet)["execution"]["argv"]
    value = f'projects={{"{sub}"={{trust_level="untrusted"}}}}'
    done = project.rehearse(WORK, packet(argv=[*argv[:-1], "-c", value, "-"], cwd=str(sub)))
    assert (done.status, mark.exists()) == (78, False)


def test_the_users_own_settings_are_not_written_by_a_run(project: Any) -> None:
    plant(project)
    made = project.run("packet-make", "--objective", "x", "--packet-id", "t1")
    with project.model(WORK) as model:
        env = project.login(model)
        before = (project.home / "codex" / "config.toml").read_bytes()
        done = project.run("dispatch", stdin=made.json, env=env)
    assert done.status == 0
    assert (project.home / "codex" / "config.toml").read_bytes() == before
