"""The final message: from its file when that was made during the run, else from the stream."""

from __future__ import annotations

import json
from typing import Any

import pytest

FINAL = ".codex/runs/t1/final.md"


def play(project: Any, packet: Any, codex: Any, **changes: Any) -> Any:
    return project.run("dispatch", "--codex", codex.path, stdin=packet(changes))


def test_the_file_is_taken(project: Any, packet: Any, standin: Any) -> None:
    done = play(project, packet, standin(say="from events", last="from the file, é"))
    assert done.status == 0
    assert project.record()["final_message"]["source"] == "file"
    assert done.json["commands_run"][0]["output_excerpt"] == "from the file, é"
    assert "differs from the last agent message" in done.stderr
    assert {"path": FINAL, "kind": "final-message"} in done.json["evidence"]


def test_a_stale_file_is_moved_aside_and_not_believed(
    project: Any, packet: Any, standin: Any
) -> None:
    project.write(FINAL, "VERDICT: PASS, of long ago")
    done = play(project, packet, standin(last="skip", say="fresh"))
    assert done.status == 0
    assert project.record()["final_message"]["source"] == "events"
    assert (project.top / FINAL).read_text() == "fresh"
    aside = project.folder() / "attempts" / "0" / "final.md"
    assert aside.read_text() == "VERDICT: PASS, of long ago"


def test_a_stale_file_elsewhere_is_moved_aside_too(project: Any, packet: Any, standin: Any) -> None:
    project.write("out/last.md", "stale")
    argv = packet()["execution"]["argv"]
    argv = ["out/last.md" if word == FINAL else word for word in argv]
    changes = {"output.final_message_path": "out/last.md", "argv": argv}
    done = play(project, packet, standin(last="skip", say="fresh"), **changes)
    assert done.status == 0
    assert (project.top / "out" / "last.md").read_text() == "fresh"
    assert (project.folder() / "attempts" / "0" / "last.md").read_text() == "stale"
    assert done.json["changed_files"] == ["made.txt"]


def test_a_stale_verdict_is_no_verdict(project: Any, packet: Any, standin: Any) -> None:
    project.write(FINAL, "VERDICT: PASS")
    codex = standin(last="skip", events=[{"type": "thread.started", "thread_id": "x"},
                                         {"type": "turn.completed"}])  # fmt: skip
    done = play(project, packet, codex, role="validator", sandbox="read-only")
    assert (done.status, project.record()["outcome"]) == (1, "no_work")
    assert done.json["verdict"]["status"] in ("ERROR", "NO_VERDICT")
    assert project.record()["final_message"] is None


def test_the_folder_is_made_before_the_launch(project: Any, packet: Any, standin: Any) -> None:
    argv = packet()["execution"]["argv"]
    argv = ["a/b/last.md" if word == FINAL else word for word in argv]
    changes = {"output.final_message_path": "a/b/last.md", "argv": argv}
    done = play(project, packet, standin(), **changes)
    assert (done.status, project.record()["final_message"]["source"]) == (0, "file")
    assert (project.top / "a" / "b" / "last.md").read_text() == "done"


def test_a_folder_in_its_place_is_moved_aside(project: Any, packet: Any, standin: Any) -> None:
    project.write(f"{FINAL}/inner.txt", "x")
    done = play(project, packet, standin())
    assert (done.status, (project.top / FINAL).read_text()) == (0, "done")


def test_without_file_and_message_a_workers_tree_still_counts(
    project: Any, packet: Any, standin: Any
) -> None:
    events = [{"type": "thread.started", "thread_id": "x"}, {"type": "turn.completed"}]
    done = play(project, packet, standin(events=events, last="skip"))
    assert (done.status, project.record()["final_message"]) == (0, None)
    assert [row["kind"] for row in done.json["evidence"]] == ["jsonl"]


def test_an_explorer_without_a_message_did_no_work(project: Any, packet: Any, standin: Any) -> None:
    events = [{"type": "thread.started", "thread_id": "x"}, {"type": "turn.completed"}]
    codex = standin(events=events, last="skip", edit="true")
    done = play(project, packet, codex, role="explorer", sandbox="read-only")
    assert (done.status, project.record()["outcome"]) == (1, "no_work")


@pytest.mark.parametrize(
    "edit",
    [
        "ln -s ../../../README .codex/runs/t1/final.md",
        "ln README .codex/runs/t1/hard; mkdir .codex/runs/t1/final.md",
        "mkfifo .codex/runs/t1/final.md",
    ],
    ids=["a link", "a folder", "a fifo"],
)
def test_what_is_no_regular_file_is_not_taken(
    project: Any, packet: Any, standin: Any, edit: str
) -> None:
    codex = standin(edit=f"{edit}; echo made > made.txt", last="skip", say="from events")
    done = play(project, packet, codex)
    assert project.record()["final_message"]["source"] == "events"
    assert done.json["commands_run"][0]["output_excerpt"] == "from events"
    assert "not taken" in done.stderr
    assert (project.top / "README").read_text() == "one\n"


def test_a_workers_own_verdict_is_a_claim(project: Any, packet: Any, standin: Any) -> None:
    done = play(project, packet, standin(say="VERDICT: PASS"))
    assert (done.status, done.json["verdict"]["status"]) == (0, "NO_VERDICT")
    assert project.record()["claims"] == [{"kind": "verdict", "text": "VERDICT: PASS"}]


SCHEMA = {
    "type": "object",
    "required": ["count"],
    "additionalProperties": False,
    "properties": {"count": {"type": "integer"}},
}


def asking(project: Any, packet: Any, **more: Any) -> Any:
    project.write("schema.json", json.dumps(SCHEMA))
    argv = packet()["execution"]["argv"]
    return packet(
        {
            "output.capture_mode": "output-schema",
            "execution.output_schema_path": "schema.json",
            "argv": [*argv[:-1], "--output-schema", "schema.json", "-"],
            **more,
        }
    )


def test_an_answer_that_matches_its_schema_is_ok(project: Any, packet: Any) -> None:
    steps = [{"exec": "echo x > new.txt"}, {"say": '{"count": 3}'}]
    done = project.rehearse(steps, asking(project, packet))
    assert (done.status, project.record()["outcome"]) == (0, "ok")
    assert json.loads((project.top / FINAL).read_text()) == {"count": 3}


@pytest.mark.parametrize(
    ("answer", "why"),
    [("three of them", "not JSON"), ('{"count": "3"}', "$.count"), ('{"count": 1, "x": 2}', "$")],
)
def test_an_answer_that_does_not_match_is_no_work(
    project: Any, packet: Any, standin: Any, answer: str, why: str
) -> None:
    done = project.run(
        "dispatch", "--codex", standin(say=answer).path, stdin=asking(project, packet)
    )
    record = project.record()
    assert (done.status, record["outcome"]) == (1, "no_work")
    assert "the answer does not match the schema" in record["reason"] and why in record["reason"]
    assert (project.top / FINAL).read_text() == answer


def test_an_answer_of_a_validator_that_does_not_match_is_unusable(
    project: Any, packet: Any, standin: Any
) -> None:
    given = asking(project, packet, role="validator", sandbox="read-only")
    argv = ["read-only" if w == "workspace-write" else w for w in given["execution"]["argv"]]
    given["execution"]["argv"] = given["dispatch"]["command"] = argv
    codex = standin(say="prose", edit="true")
    done = project.run("dispatch", "--codex", codex.path, stdin=given)
    assert (done.status, project.record()["outcome"]) == (76, "review_unusable")


def test_the_schema_is_checked_by_us_when_the_command_does_not_name_it(
    project: Any, packet: Any, standin: Any
) -> None:
    given = asking(project, packet, argv=packet()["execution"]["argv"])
    done = project.run("dispatch", "--codex", standin(say="prose").path, stdin=given)
    assert (done.status, project.record()["outcome"]) == (1, "no_work")


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [(None, 66, "no such file"), ("{not json", 65, "not JSON"), ('{"type": 3}', 65, "JSON Schema")],
)
def test_a_schema_that_cannot_be_used_is_told_before_the_launch(
    project: Any, packet: Any, standin: Any, text: str | None, status: int, said: str
) -> None:
    given = asking(project, packet)
    (project.top / "schema.json").unlink()
    if text is not None:
        project.write("schema.json", text)
    codex = standin()
    done = project.run("dispatch", "--codex", codex.path, stdin=given)
    assert (done.status, codex.ran) == (status, False)
    assert said in done.stderr


def test_artifacts_must_be_there_and_are_digested(project: Any, packet: Any, standin: Any) -> None:
    changes = {"evidence.artifacts": ["made.txt", "docs/report.schema.json"]}
    edit = "echo made > made.txt; mkdir -p docs; echo {} > docs/report.schema.json"
    done = play(project, packet, standin(edit=edit), **changes)
    rows = project.record()["artifacts"]
    assert done.status == 0
    assert [(row["path"], row["bytes"]) for row in rows] == [
        ("made.txt", 5),
        ("docs/report.schema.json", 3),
    ]
    assert {"path": "docs/report.schema.json", "kind": "schema"} in done.json["evidence"]


def test_a_missing_artifact_is_no_work(project: Any, packet: Any, standin: Any) -> None:
    done = play(project, packet, standin(), **{"evidence.artifacts": ["made.txt", "absent"]})
    record = project.record()
    assert (done.status, record["reason"]) == (1, "artifact not there: absent")
    assert {"path": "absent", "kind": "contract"} not in done.json["evidence"]


def test_an_ignored_artifact_that_was_made_is_work(project: Any, packet: Any, standin: Any) -> None:
    project.write(".gitignore", "/build/\n")
    project.commit()
    codex = standin(edit="mkdir build; echo x > build/out")
    done = play(project, packet, codex, **{"evidence.artifacts": ["build/out"]})
    assert (done.status, done.json["changed_files"]) == (0, [])


def test_no_change_is_ok_when_that_is_allowed(project: Any, packet: Any, standin: Any) -> None:
    codex = standin(edit="true")
    done = project.run("dispatch", "--codex", codex.path, "--allow-no-change", stdin=packet())
    assert (done.status, project.record()["relaxations"]) == (0, ["allow-no-change"])
