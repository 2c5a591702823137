"""`make receipts` and `make judgements`: all are run, then counted, and one is enough to fail."""

from __future__ import annotations

from typing import Any


def test_receipts_that_are_not_ok_are_counted_and_fail(project: Any) -> None:
    project.packet("a")
    project.packet("b", exits=1)
    project.packet("c", exits=77)
    project.packet("d", exits=65, silent="")
    project.packet("e")
    made = project.make("receipts")
    assert made.returncode == 2
    assert made.stdout == "receipts: 2 of 5 ok\n"
    assert made.stderr.splitlines()[:3] == [
        'receipts: .codex/runs/b: status 1, outcome: it said \\"1\\"',
        'receipts: .codex/runs/c: status 77, outcome: it said \\"77\\"',
        "receipts: .codex/runs/d: no receipt, status 65",
    ]
    assert len(project.calls()) == 5


def test_answers_are_counted_again_without_a_call(project: Any) -> None:
    project.packet("a")
    project.packet("b", exits=1)
    first = project.make("receipts")
    project.calls()
    second = project.make("receipts")
    assert (second.returncode, second.stdout) == (first.returncode, first.stdout)
    assert second.stderr == first.stderr
    assert project.calls() == []


def test_what_is_ok_is_counted_and_passes(project: Any) -> None:
    project.packet("a")
    project.packet("b")
    made = project.make("-j4", "receipts")
    assert (made.returncode, made.stdout, made.stderr) == (0, "receipts: 2 of 2 ok\n", "")


def test_nothing_to_run_is_said(project: Any) -> None:
    made = project.make("receipts")
    assert (made.returncode, made.stdout) == (0, "receipts: 0 of 0 ok\n")


def test_a_receipt_that_a_review_rejected_is_no_longer_ok(project: Any) -> None:
    project.packet("a", review_exits=1)
    assert project.make("receipts").returncode == 0
    made = project.make("judgements")
    assert (made.returncode, made.stdout) == (2, "judgements: 0 of 1 passed\n")
    made = project.make("receipts")
    assert (made.returncode, made.stdout) == (2, "receipts: 0 of 1 ok\n")
    assert made.stderr.startswith("receipts: .codex/runs/a: review_rejected: no\n")


def test_receipts_that_the_makefile_adds_are_counted_too(project: Any) -> None:
    project.makefile(after="receipts: more/x/receipt.json .codex/runs/a/receipt.json")
    project.packet("a")
    run = project.top / "more" / "x"
    run.mkdir(parents=True)
    (run / "packet.json").write_text("{}\n")
    (run / "exits").write_text("124\n")
    made = project.make("receipts")
    assert (made.returncode, made.stdout) == (2, "receipts: 1 of 2 ok\n")
    assert made.stderr.startswith("receipts: more/x: status 124, ")


def test_several_folders_of_runs_are_counted_together(project: Any) -> None:
    for top in ("one", "two"):
        run = project.top / top / "r"
        run.mkdir(parents=True)
        (run / "packet.json").write_text("{}\n")
    made = project.make("receipts", "WAYBILL_RUNS=one two")
    assert (made.returncode, made.stdout) == (0, "receipts: 2 of 2 ok\n")


def test_a_receipt_that_is_held_keeps_its_judgement_and_only_the_gate_fails(
    project: Any,
) -> None:
    run = project.packet("a", exits=1)
    assert project.make(".codex/runs/a/judgement.json").returncode == 0
    assert '"pass": false' in (run / "judgement.json").read_text()
    project.calls()
    made = project.make("judgements")
    assert (made.returncode, made.stdout) == (2, "judgements: 0 of 1 passed\n")
    assert made.stderr.startswith("judgements: .codex/runs/a: held, see .codex/runs/a/judgement")
    assert project.calls() == []


def test_a_review_that_could_not_be_made_leaves_no_judgement_and_is_made_again(
    project: Any,
) -> None:
    run = project.packet("a", review_exits=69)
    (run / "judgement.json").write_text('{"pass": true}\n')
    made = project.make("judgements")
    assert (made.returncode, made.stdout) == (2, "judgements: 0 of 1 passed\n")
    assert "judgements: .codex/runs/a: not judged\n" in made.stderr
    assert not (run / "judgement.json").exists()
    assert project.make(".codex/runs/a/judgement.json").returncode == 2
    (run / "review-exits").unlink()
    assert project.make("judgements").stdout == "judgements: 1 of 1 passed\n"


def test_a_judgement_of_an_earlier_receipt_is_made_again(project: Any) -> None:
    run = project.packet("a")
    assert project.make("judgements").returncode == 0
    project.calls()
    project.later(run / "receipt.json", run / "judgement.json")
    assert project.make("judgements").returncode == 0
    assert [call.split()[0] for call in project.calls()] == ["review", "receipt-check"]


def test_a_check_that_fails_or_says_nothing_leaves_no_judgement(project: Any) -> None:
    for name, status in (("a", 66), ("b", 0)):
        run = project.packet(name, check_exits=status)
        made = project.make(f".codex/runs/{name}/judgement.json")
        assert made.returncode == 2
        assert f"Error {status or 70}" in made.stderr
        assert not (run / "judgement.json").exists()
