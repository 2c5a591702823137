from __future__ import annotations

import json
import shutil
import tracemalloc
from pathlib import Path

import pytest
from waybill.codex import rollout, usage
from waybill.codex.rollout import Effective

RECORDED = Path(__file__).parent / "recorded"
RESUMED = RECORDED / "rollout_resumed.jsonl"
THREAD = "01a22e80-2625-7fe1-ba4b-7c60530a54c9"


def numbers(*values: int | None) -> usage.Usage:
    return dict(zip(usage.KEYS, values, strict=True))


TOTAL = numbers(1100, 760, 0, 145, 25)


def record(kind: str, **payload: object) -> dict[str, object]:
    return {"timestamp": "2026-11-30T22:08:00.162Z", "type": kind, "payload": payload}


def turn(**payload: object) -> dict[str, object]:
    return record("turn_context", **payload)


def tokens(info: object) -> dict[str, object]:
    return record("event_msg", type="token_count", info=info)


META = record("session_meta", cli_version="0.149.0")
SPOKE = record("response_item", type="message", role="assistant", content=[])
READ_ONLY = {"type": "read-only"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rollout.jsonl"


def write(path: Path, *records: object) -> None:
    lines = (one if isinstance(one, str) else json.dumps(one) for one in records)
    path.write_text("".join(f"{line}\n" for line in lines))


# --- what the real Codex wrote


def test_a_recorded_thread_ran_last_under_what_its_resume_said() -> None:
    assert rollout.effective(RESUMED) == Effective(
        sandbox="read-only",
        model="gpt-5.2",
        effort=None,
        cwd="/home/user/project",
        cli_version="0.149.0",
        turns=2,
    )


def test_the_first_turn_of_a_recorded_thread_ran_under_other_settings(path: Path) -> None:
    lines = RESUMED.read_text().splitlines()
    write(path, *lines[: next(n for n, line in enumerate(lines) if "task_complete" in line)])
    found = rollout.effective(path)
    assert (found.sandbox, found.model, found.effort) == ("workspace-write", "gpt-5.4", "high")
    assert rollout.baseline_usage(path) == numbers(400, 160, 0, 80, 20)


def test_the_usage_of_recorded_threads() -> None:
    assert rollout.baseline_usage(RESUMED) == TOTAL
    assert rollout.baseline_usage(RECORDED / "rollout_usage_limit.jsonl") == usage.zero()


# --- finding it


def test_a_rollout_is_found_by_its_id(tmp_path: Path) -> None:
    name = f"rollout-2026-11-30T22-08-00-{THREAD}.jsonl"
    archived = tmp_path / "archived_sessions" / name
    archived.parent.mkdir()
    shutil.copy(RESUMED, archived)
    assert rollout.find(tmp_path, THREAD) == archived
    live = tmp_path / "sessions/2026/11/30" / name
    live.parent.mkdir(parents=True)
    shutil.copy(RESUMED, live)
    assert rollout.find(tmp_path, THREAD) == live
    assert rollout.find(tmp_path, THREAD.upper()) == live
    assert rollout.find(tmp_path, THREAD[:-1] + "0") is None


@pytest.mark.parametrize(
    "ident", ["", "*", "../x", "last", THREAD + "*", THREAD + "/..", THREAD[1:]]
)
def test_only_a_uuid_is_looked_for(tmp_path: Path, ident: str) -> None:
    folder = tmp_path / "sessions/2026/11/30"
    folder.mkdir(parents=True)
    (folder / f"rollout-2026-11-30T22-08-00-{THREAD}.jsonl").touch()
    assert rollout.find(tmp_path, ident) is None
    assert rollout.find(tmp_path / "absent", THREAD) is None


# --- damage


@pytest.mark.parametrize(
    "records",
    [
        [],
        ["", "{", "[]", "null", '"turn_context"', "\x00"],
        [record("response_item", type="message", text='{"type":"turn_context"}')],
        ['{"type":"turn_context","payload":' + "[" * 10_000],
    ],
)
def test_what_a_rollout_does_not_say_is_unknown(path: Path, records: list[object]) -> None:
    write(path, *records)
    assert rollout.effective(path)[:5] == (None,) * 5


def test_absence_is_unknown_and_never_an_error(tmp_path: Path) -> None:
    for path in (tmp_path / "absent", tmp_path):
        assert rollout.effective(path) == Effective()
        assert rollout.baseline_usage(path) is None


def test_a_damaged_last_turn_does_not_take_the_values_of_the_one_before(path: Path) -> None:
    good = turn(sandbox_policy=READ_ONLY, model="gpt-5.4", cwd="/p", effort="low")
    write(path, META, good, json.dumps(good)[:-30])
    assert rollout.effective(path) == Effective(cli_version="0.149.0", turns=2)
    write(path, META, good, json.dumps(SPOKE)[:-30])
    assert rollout.effective(path) == Effective("read-only", "gpt-5.4", "low", "/p", "0.149.0", 1)


def test_values_of_an_odd_kind_are_unknown(path: Path) -> None:
    write(path, turn(sandbox_policy=[1], model=5, effort={}, cwd=None, collaboration_mode="x"))
    assert rollout.effective(path) == Effective(turns=1)


@pytest.mark.parametrize(
    ("policy", "sandbox"),
    [
        ({"type": "danger-full-access"}, "danger-full-access"),
        ({"mode": "workspace-write"}, "workspace-write"),
        ("read-only", "read-only"),
        ({}, None),
    ],
)
def test_older_forms_of_the_policy_are_read(path: Path, policy: object, sandbox: str) -> None:
    write(path, turn(sandbox_policy=policy))
    assert rollout.effective(path).sandbox == sandbox


def test_long_lines_are_skipped_in_flat_memory(path: Path) -> None:
    mib = 1024 * 1024
    with path.open("w") as file:
        file.write(json.dumps(META) + "\n")
        file.write(
            json.dumps(turn(sandbox_policy=READ_ONLY, user_instructions="x" * 2 * mib)) + "\n"
        )
        file.write('{"type":"event_msg","payload":{"type":"image","data":"')
        for _ in range(32):
            file.write("y" * mib)
        file.write('"}}\n' + json.dumps(tokens({"total_token_usage": TOTAL})) + "\n")
    tracemalloc.start()
    try:
        found, total = rollout.effective(path), rollout.baseline_usage(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (found.sandbox, total) == ("read-only", TOTAL)
    assert peak < 24 * mib


# --- usage


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([META], usage.zero()),
        ([META, SPOKE], None),
        ([META, record("response_item", type="function_call")], None),
        ([META, SPOKE, tokens(None)], None),
        ([META, SPOKE, tokens({"total_token_usage": TOTAL}), tokens(None)], TOTAL),
        ([META, SPOKE, tokens({"total_token_usage": TOTAL}), tokens({})], None),
        ([META, SPOKE, tokens({"total_token_usage": TOTAL}), json.dumps(tokens(TOTAL))[:-9]], None),
        ([], None),
    ],
)
def test_a_baseline_is_zero_only_where_nothing_was_used(
    path: Path, records: list[object], expected: object
) -> None:
    write(path, *records)
    assert rollout.baseline_usage(path) == expected


@pytest.mark.parametrize(
    ("total", "baseline", "run"),
    [
        (numbers(1800, 1400, 0, 125, 9), numbers(1000, 700, 0, 60, 4), numbers(800, 700, 0, 65, 5)),
        (numbers(1000, 700, 0, 60, 4), usage.zero(), numbers(1000, 700, 0, 60, 4)),
        (numbers(9, 9, 9, 9, 9), numbers(9, 9, 9, 9, 9), usage.zero()),
        (
            numbers(9, 1, None, 9, None),
            numbers(1, None, 0, 1, None),
            numbers(8, None, None, 8, None),
        ),
        (numbers(1, 0, 0, 5, 0), numbers(2, 0, 0, 1, 0), None),
        (numbers(None, None, None, None, None), usage.zero(), None),
        (None, usage.zero(), None),
        (usage.zero(), None, None),
    ],
)
def test_the_usage_of_a_run_is_the_rise_of_the_total(
    total: usage.Usage | None, baseline: usage.Usage | None, run: object
) -> None:
    assert usage.difference(total, baseline) == run


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("gpt-5.4", "gpt-5"),
        ("gpt-5.6-sol", "gpt-5"),
        ("GPT-5", "gpt-5"),
        ("gpt-4o", "gpt-4"),
        ("o3", "o3"),
        ("o3-mini", "o3"),
        ("claude-opus-4-1", "claude-opus-4"),
        ("llama", "llama"),
        ("scripted", "scripted"),
        ("", None),
        (None, None),
    ],
)
def test_the_family_of_a_model(model: str | None, expected: str | None) -> None:
    assert rollout.family(model) == expected
