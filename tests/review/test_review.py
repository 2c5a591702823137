"""The independent verdict: from a strict answer, about one tree, by another thread."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

MADE = [{"exec": "echo new > new.txt"}, {"say": "It is done."}]


def answer(blockers: list[str] = [], warnings: list[str] = [], **more: Any) -> str:  # noqa: B006
    found = {"blockers": blockers, "warnings": warnings, "summary": "Looked at all of it."}
    return json.dumps({**found, "needsFix": bool(blockers), **more})


PASS, WARN = [{"say": answer()}], [{"say": answer(warnings=["no test"])}]
FAIL = [{"say": answer(["new.txt:1: says the wrong word"], ["w"])}]


def review(project: Any, steps: Any, *words: Any, **given: Any) -> Any:
    given.setdefault("stdin", json.dumps(project.receipt()))
    return project.run("review", "--rehearse", project.script(steps), *words, **given)


@pytest.mark.parametrize(("steps", "status"), [(PASS, "PASS"), (WARN, "WARN")])
def test_a_good_answer_is_a_verdict_with_a_proven_identity(
    worked: Any, steps: Any, status: str
) -> None:
    before = worked.receipt()
    done = review(worked, steps)
    record, verdict = worked.record(), done.json["verdict"]
    assert (done.status, verdict["status"]) == (0, status)
    assert done.json == worked.receipt()
    assert verdict["judge_source"] == "codex-review"
    assert verdict["author_id"] == f"codex-thread:{record['thread']['id']}"
    assert verdict["judge_name"].startswith("codex-thread:")
    assert verdict["judge_name"] != verdict["author_id"]
    assert verdict["judge_program"] == f"codex-cli {record['codex']['version']}"
    assert verdict["judge_model_family"] == "scripted"
    assert {**done.json, "verdict": None} == {**before, "verdict": None}
    kept = json.loads((worked.folder() / "reviews" / "1" / "review.json").read_text())
    assert (kept["tree"], kept["verdict"]) == (record["tree"]["result_tree"], status)
    assert kept["patch_sha256"] == record["patch"]["sha256"]
    assert f"review: t1: {status}: ok; {worked.folder()}" in done.stderr
    names = sorted(path.name for path in (worked.folder() / "generations").iterdir())
    assert names == ["1-dispatch.json", "2-review.json"]


def test_blockers_reject(worked: Any) -> None:
    done = review(worked, FAIL)
    assert (done.status, done.json["verdict"]["status"]) == (1, "FAIL")
    assert done.json["failure_reason"] == "review_rejected: new.txt:1: says the wrong word"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("The code is NOT APPROVED because of line 3.", "not usable"),
        (answer() + answer(["x"]), "not usable"),
        (answer(["x"], needsFix=False), "contradicts itself: needsFix is false with 1 blockers"),
        (answer(needsFix=True), "contradicts itself: needsFix is true with 0 blockers"),
    ],
)
def test_an_answer_that_is_not_in_the_grammar_is_unusable(worked: Any, said: str, why: str) -> None:
    done = review(worked, [{"say": said}])
    record = worked.record()
    assert (done.status, record["outcome"]) == (76, "review_unusable")
    assert why in record["reason"]
    assert done.json["verdict"]["status"] == "ERROR"
    raw = worked.folder() / "reviews" / "1" / "answer.json"
    assert raw.read_text() == said


@pytest.mark.outcome("review_unavailable", by="real")
@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([{"http": 500}], "agent_failed"),
        ([{"usage_limit": 2000000000}], "quota"),
        ([{"drop": "mid"}], "agent_failed"),
    ],
)
def test_an_outage_is_told_apart_from_a_refusal(worked: Any, steps: Any, said: str) -> None:
    done = review(worked, steps)
    record = worked.record()
    assert (done.status, record["outcome"]) == (69, "review_unavailable")
    assert record["reason"].startswith(f"{said}: ")
    assert (record["retry_at"] is not None) == (said == "quota")
    again = review(worked, PASS)
    assert (again.status, again.json["verdict"]["status"]) == (0, "PASS")
    assert (worked.folder() / "reviews" / "2" / "review.json").exists()


def test_a_judge_that_cannot_be_started_is_an_outage(worked: Any) -> None:
    done = review(worked, PASS, "--codex", "/nowhere/codex")
    assert (done.status, worked.record()["outcome"]) == (69, "review_unavailable")
    assert "no Codex binary at /nowhere/codex" in done.stderr


def test_a_judge_that_takes_too_long_is_ended(worked: Any) -> None:
    done = review(worked, [{"hang": 600}], "--timeout", "2")
    assert (done.status, worked.record()["outcome"]) == (69, "review_unavailable")
    assert "timeout_wall" in worked.record()["reason"]


@pytest.mark.outcome("review_stale", by="real")
def test_a_tree_that_changed_after_the_run_is_stale(worked: Any) -> None:
    worked.write("new.txt", "newer\n")
    done = review(worked, PASS)
    assert (done.status, worked.record()["outcome"]) == (76, "review_stale")
    assert not (worked.folder() / "reviews").exists()
    worked.write("new.txt", "new\n")
    again = review(worked, PASS)
    assert (again.status, again.json["verdict"]["status"]) == (0, "PASS")


def test_a_tree_that_changes_during_the_review_is_stale(worked: Any) -> None:
    path = worked.script([{"sleep": 2, "say": answer()}])
    process = worked.start("review", "--rehearse", path, stdin=json.dumps(worked.receipt()))
    while not (worked.folder() / "reviews" / "1" / "events.jsonl").exists():
        assert process.poll() is None
    worked.write("README", "changed\n")
    done = worked.finish(process)
    assert (done.status, worked.record()["outcome"]) == (76, "review_stale")
    assert done.json["verdict"]["status"] == "ERROR"


def test_work_on_the_base_that_was_there_before_is_not_stale(judged: Any) -> None:
    assert judged.git("status", "--short").splitlines() == ["M README", "?? new.txt"]
    assert judged.receipt()["changed_files"] == ["new.txt"]
    assert judged.receipt()["verdict"]["status"] == "PASS"


TWICE = {
    "scripts": [
        {"match": "You are an independent reviewer.*wrong", "steps": FAIL},
        {"match": "You are an independent reviewer", "steps": PASS},
        {
            "match": "found blockers",
            "steps": [{"exec": "echo right > new.txt"}, {"say": "Fixed."}],
        },
    ]
}


def test_a_fix_pass_mends_and_the_result_is_judged_again(project: Any, packet: Any) -> None:
    steps = [{"exec": "echo wrong > new.txt"}, {"say": "done"}]
    project.rehearse(steps, packet({"evidence.required_commands": ["./check"]}))
    first = project.record()
    done = review(project, TWICE, "--fix", "2")
    record = project.record()
    assert (done.status, done.json["verdict"]["status"]) == (0, "PASS")
    assert (project.top / "new.txt").read_text() == "right\n"
    assert [row["verdict"] for row in record["reviews"]] == ["FAIL", "PASS"]
    (row,) = record["passes"]
    assert (row["outcome"], row["result_tree"]) == ("ok", record["tree"]["result_tree"])
    assert record["tree"]["result_tree"] != first["tree"]["result_tree"]
    assert done.json["verdict"]["author_id"] == f"codex-thread:{row['thread']}"
    assert "+right" in (project.folder() / "work.patch").read_text()
    kept = project.folder() / "passes" / "1"
    assert "+wrong" in (kept / "before.patch").read_text()
    assert "says the wrong word" in (kept / "prompt.md").read_text()
    (judgement,) = project.run("receipt-check", project.folder(), "--allow", "rehearsal").rows
    assert judgement["reasons"] == []


@pytest.mark.outcome("not_converged", by="real")
def test_blockers_that_remain_after_the_passes_are_told_apart(project: Any, packet: Any) -> None:
    project.rehearse([{"exec": "echo wrong > new.txt"}, {"say": "done"}], packet())
    again = {"scripts": [dict(row) for row in TWICE["scripts"]]}
    again["scripts"][2]["steps"] = [{"exec": "echo wrong again >> new.txt"}, {"say": "Fixed."}]
    done = review(project, again, "--fix", "1")
    record = project.record()
    assert (done.status, record["outcome"]) == (1, "not_converged")
    assert (len(record["reviews"]), len(record["passes"])) == (2, 1)
    assert done.json["verdict"]["status"] == "FAIL"
    assert record["reason"].startswith("blockers remain after 1 fix passes: ")
    mended = review(project, TWICE, "--fix", "1")
    assert (mended.status, mended.json["verdict"]["status"]) == (0, "PASS")


def test_a_rejected_run_is_mended_without_being_judged_first(project: Any, packet: Any) -> None:
    project.rehearse([{"exec": "echo wrong > new.txt"}, {"say": "done"}], packet())
    assert review(project, FAIL).status == 1
    done = review(project, TWICE, "--fix", "1")
    assert (done.status, len(project.record()["reviews"])) == (0, 2)


def test_a_pass_that_breaks_the_checks_is_not_judged(project: Any, packet: Any) -> None:
    given = packet({"evidence.required_commands": ["./check"]})
    project.rehearse([{"exec": "echo wrong > new.txt"}, {"say": "done"}], given)
    again = {"scripts": [dict(row) for row in TWICE["scripts"]]}
    again["scripts"][2]["steps"] = [{"exec": "touch broken.txt"}, {"say": "Fixed."}]
    done = review(project, again, "--fix", "1")
    record = project.record()
    assert (done.status, record["outcome"]) == (1, "verify_failed")
    assert record["reason"].startswith("fix pass: ./check failed")
    assert done.json["verdict"]["status"] in ("ERROR", "NO_VERDICT")
    assert done.json["commands_run"][1]["exit_code"] == 1


def test_a_judge_of_the_authors_family_is_not_another(worked: Any) -> None:
    done = review(worked, PASS, "--judge-family", "other")
    record = worked.record()
    assert (done.status, record["outcome"]) == (69, "review_unavailable")
    assert "another family than scripted was demanded; this one is scripted" in record["reason"]


def test_a_judge_of_another_family_is_taken(worked: Any) -> None:
    steps = {"family": "another", "scripts": [{"steps": PASS}]}
    done = review(worked, steps, "--judge-family", "other")
    assert (done.status, done.json["verdict"]["judge_model_family"]) == (0, "another")


def test_another_word_for_the_family_is_wrong_usage(project: Any) -> None:
    done = project.run("review", "--judge-family", "mine", stdin="{}")
    assert (done.status, done.stdout) == (64, "")


def test_what_cannot_be_bettered_passes_unchanged_with_its_status(
    project: Any, packet: Any, standin: Any
) -> None:
    before = project.rehearse([{"say": "nothing done"}], packet())
    data = (project.folder() / "receipt.json").read_bytes()
    for command in ("verify", "review"):
        done = project.run(command, stdin=before.stdout)
        assert (done.status, done.stdout) == (before.status, before.stdout)
        assert "no_work" in done.stderr and "nothing was started" in done.stderr
    assert (project.folder() / "receipt.json").read_bytes() == data


def test_a_receipt_with_its_verdict_passes_unchanged(judged: Any) -> None:
    first = (judged.folder() / "receipt.json").read_text()
    again = review(judged, FAIL)
    assert (again.status, again.stdout) == (0, first)
    assert not (judged.folder() / "reviews" / "2").exists()


@pytest.mark.parametrize("command", ["verify", "review", "receipt-check"])
def test_nothing_on_stdin_asks_what_failed_before(project: Any, command: str) -> None:
    done = project.run(command, stdin="")
    assert (done.status, done.stdout) == (66, "")
    assert "nothing on stdin: did the command before fail?" in done.stderr


def test_a_run_without_a_change_cannot_be_judged(project: Any, packet: Any) -> None:
    project.rehearse([{"say": "nothing to do"}], packet(), "--allow-no-change")
    done = review(project, PASS)
    assert done.status == 76
    assert "the patch is empty" in done.stderr
    assert project.record()["outcome"] == "ok"


def test_a_receipt_given_as_a_file_takes_its_own_folder(worked: Any) -> None:
    path = worked.folder() / "receipt.json"
    words = ["--rehearse", worked.script(PASS), path]
    assert worked.run("review", *words, cwd=worked.root).status == 0
    moved: Path = worked.root / "moved"
    shutil.copytree(worked.folder(), moved)
    done = worked.run("review", "--rehearse", worked.script(PASS), moved / "receipt.json")
    assert done.status == 77
    assert f"its packet belongs into {worked.folder()}" in done.stderr


def test_the_whole_pipe_ends_in_a_pass(project: Any, packet: Any) -> None:
    given = packet({"evidence.required_commands": ["./check"]})
    (project.root / "packet.json").write_text(json.dumps(given))
    script = project.script(MADE), project.script(PASS)
    line = (
        f"dispatch --rehearse {script[0]} --defer-evidence ../packet.json"
        f" | verify | review --rehearse {script[1]} | receipt-check --allow rehearsal"
    )
    done = project.run("sh", "-c", line)
    assert done.status == 0
    assert done.json["pass"] is True
    assert done.json["allowed"] == ["rehearsal"]


def hanging(project: Any) -> Any:
    """A review whose judge does not answer."""
    path = project.script([{"hang": 600}])
    process = project.start("review", "--rehearse", path, stdin=json.dumps(project.receipt()))
    events = project.folder() / "reviews" / "1" / "events.jsonl"
    while not (events.exists() and events.stat().st_size):
        assert process.poll() is None
        time.sleep(0.01)
    return process


def test_an_interrupted_review_can_be_made_again(worked: Any) -> None:
    process = hanging(worked)
    process.terminate()
    done = worked.finish(process)
    record = worked.record()
    assert (done.status, record["outcome"]) == (143, "review_unavailable")
    assert record["reason"].startswith("interrupted: ")
    assert (worked.idle(3), review(worked, PASS).status) == (True, 0)


def test_a_killed_review_leaves_nothing_behind_and_can_be_made_again(worked: Any) -> None:
    before = (worked.folder() / "receipt.json").read_bytes()
    process = hanging(worked)
    second = review(worked, PASS)
    process.kill()
    with process:
        process.communicate()
    assert (second.status, second.stdout) == (75, "")
    assert worked.idle(3)
    assert (worked.folder() / "receipt.json").read_bytes() == before
    assert review(worked, PASS).status == 0
    assert [row["number"] for row in worked.record()["reviews"]] == [1]


def test_a_fix_pass_that_was_cut_short_can_be_made_again(project: Any, packet: Any) -> None:
    project.rehearse([{"exec": "echo wrong > new.txt"}, {"say": "done"}], packet())
    again = {"scripts": [dict(row) for row in TWICE["scripts"]]}
    again["scripts"][2]["steps"] = [{"usage_limit": 2000000000}]
    cut = review(project, again, "--fix", "1")
    record = project.record()
    assert (cut.status, record["outcome"]) == (75, "quota")
    assert record["retry_at"].startswith("2033-05-18T")
    done = review(project, TWICE, "--fix", "1")
    assert (done.status, done.json["verdict"]["status"]) == (0, "PASS")
    assert [row["outcome"] for row in project.record()["passes"]] == ["quota", "ok"]


def test_a_scripted_judge_of_a_real_run_does_not_pass_for_a_real_one(
    project: Any, packet: Any, standin: Any
) -> None:
    project.run("dispatch", "--codex", standin().path, stdin=packet())
    assert review(project, PASS).status == 0
    held = project.run("receipt-check", project.folder())
    assert (held.status, {row["rule"] for row in held.json["reasons"]}) == (1, {"rehearsal"})
    assert project.run("receipt-check", "--allow", "rehearsal", project.folder()).status == 0
