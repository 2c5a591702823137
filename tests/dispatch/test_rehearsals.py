"""A rehearsal stands by itself, whatever the caller's machine is set up for."""

from __future__ import annotations

from typing import Any


def test_a_proxy_of_the_callers_does_not_come_between_codex_and_the_scripted_model(
    project: Any, packet: Any
) -> None:
    nowhere = "http://127.0.0.1:9"
    env = {"HTTP_PROXY": nowhere, "ALL_PROXY": nowhere, "NO_PROXY": "example.org"}
    steps = [{"exec": "echo x >made.txt"}, {"say": "made"}]
    assert project.rehearse(steps, packet(), env=env).status == 0


def test_a_run_folder_given_elsewhere_takes_everything_of_the_run_with_it(
    project: Any, packet: Any
) -> None:
    steps = [{"exec": "echo x >made.txt"}, {"say": "made"}]
    done = project.rehearse(steps, packet(), "--run-dir", "out/run")
    assert done.status == 0
    assert not (project.top / ".codex" / "runs").exists()
    assert (project.top / "out" / "run" / "final.md").read_text() == "made"
    assert done.json["changed_files"] == ["made.txt"]
