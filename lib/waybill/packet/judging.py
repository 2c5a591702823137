"""One judge's run: a read-only Codex in an empty folder, asked about one rebuilt tree."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waybill.base import canonical, schema, state
from waybill.base.exits import fault
from waybill.base.files import Folder, storing
from waybill.codex import argv as codex_argv
from waybill.codex import rollout
from waybill.packet import (
    capture,
    evidence,
    observe,
    opened,
    outcome,
    preflight,
    reviewer,
)
from waybill.packet import session as codex_session
from waybill.packet.boundary import BASE_PATCH, PROMPT, WORK_PATCH
from waybill.packet.preflight import Asked, Ready
from waybill.packet.reviewer import Answer
from waybill.packet.session import Limits, Signals
from waybill.packet.stage import Rehearsing
from waybill.tree import repository
from waybill.tree.rebuild import rebuild

ANSWER, RECORD = "answer.json", "review.json"
MOST_PATCH = 4 << 20  # bytes of a patch that are read for the prompt, which is bounded again
# Beside the listed flags: nothing of the user's settings reaches a judge but the login.
ALLOWED = ("--ignore-user-config", "-c:model_provider", "-c:analytics.enabled")


@dataclass(frozen=True)
class Bench:
    """What a judge is run with."""

    asked: Asked
    ambient: Mapping[str, str]
    model: str | None
    effort: str | None
    other_family: bool
    limits: Limits
    rehearsing: Rehearsing | None
    overrides: tuple[str, ...] = ()  # options that lead to the scripted model


@dataclass
class Judged:
    """What one review came to."""

    record: dict[str, Any]
    sha256: str
    outcome: str
    reason: str | None
    retry_at: str | None


def judge(found: opened.Opened, bench: Bench, signals: Signals, author: str) -> Judged:
    """Run one judge over the result tree of a run, and keep everything that it said.

    Raises the Fault of what must hold before a judge can be started.
    """
    number = len(found.record["reviews"]) + 1
    with (
        storing(str(found.held.folder.path)),
        _chamber(found, number) as (empty, checkout),
        found.held.folder.sub("reviews") as reviews,
        reviews.sub(str(number)) as folder,
    ):
        _clear(folder)
        prompt = _prompt(found, checkout)
        argv = _argv(bench, empty, folder)
        ready = Ready(prompt=prompt.text.encode())
        said = codex_argv.parse(argv, _allowed(bench))
        preflight.codex(found.packet, empty, argv, said, bench.asked, bench.ambient, ready)
        return _run(found, bench, signals, author, number, folder, empty, ready, prompt)


def _clear(folder: Folder) -> None:
    """A review that died half-way left no record; its files make way for this one's."""
    for name in folder.names():
        folder.remove(name)


def _allowed(bench: Bench) -> tuple[str, ...]:
    keys = [word.partition("=")[0] for word in bench.overrides if word != "-c"]
    return (*ALLOWED, *(f"-c:{key}" for key in keys))


def _argv(bench: Bench, empty: Path, folder: Folder) -> list[str]:
    argv = ["codex", "exec", "--json", "--sandbox", "read-only", "--cd", str(empty)]
    argv += ["--skip-git-repo-check", "--ignore-user-config", *bench.overrides]
    argv += ["-c", "project_doc_max_bytes=0", "-c", codex_argv.distrust([str(empty)])]
    argv += ["--output-schema", str(folder.path / "answer.schema.json")]
    argv += ["--output-last-message", str(folder.path / ANSWER)]
    model = bench.model or (bench.rehearsing.model if bench.rehearsing else None)
    if model:
        argv += ["--model", model]
    if bench.effort:
        argv += ["-c", f"model_reasoning_effort={bench.effort}"]
    return [*argv, "-"]


@contextmanager
def _chamber(found: opened.Opened, number: int) -> Iterator[tuple[Path, Path]]:
    """An empty folder outside any repository, and a checkout of the result tree."""
    row = found.record
    for base in (state.folder("reviews"), Path("/var/tmp"), Path(tempfile.gettempdir())):
        root = Path(tempfile.mkdtemp(prefix=f"{row['run_id']}-{number}-", dir=base))
        empty, checkout = root / "empty", root / "tree"
        empty.mkdir(mode=0o700)
        if repository.find(empty, os.environ).kind == "folder":
            break
        shutil.rmtree(root, ignore_errors=True)
    else:
        raise fault("config_error", str(base), "no folder outside a repository for the judge")
    try:
        where = row["tree"]
        common = repository.find(found.boundary.cwd, os.environ).common_dir
        rebuilt = rebuild(
            Path(common) if common else None,
            where["base_commit"],
            [found.held.folder.path / BASE_PATCH, found.held.folder.path / WORK_PATCH],
            root / "git",
            object_format=where["object_format"],
            checkout=checkout,
            env=os.environ,
        )
        if rebuilt != where["result_tree"]:
            raise fault(
                "refused", str(found.held.folder.path), "the patches do not make the result tree"
            )
        yield empty, checkout
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _prompt(found: opened.Opened, checkout: Path) -> reviewer.Prompt:
    row, folder = found.record, found.held.folder
    rows = []
    for entry in row["evidence"]:
        text = ""
        if entry["log"]:
            with folder.sub("evidence", make=False) as logs:
                log = logs.open_file(Path(entry["log"]["path"]).name, os.O_RDONLY)
            try:
                text = evidence.excerpt(log)
            finally:
                os.close(log)
        rows.append((entry["command"], entry["exit_code"], text))
    descriptor = folder.open_file(WORK_PATCH, os.O_RDONLY)
    try:
        patch = os.pread(descriptor, MOST_PATCH, 0).decode("utf-8", "replace")
    finally:
        os.close(descriptor)
    return reviewer.review(
        nonce=secrets.token_hex(8),
        tree=str(checkout),
        objective=found.packet.document["objective"],
        stop_condition=found.packet.document["stop_condition"],
        patch=patch,
        files=[f"{r['status']} {r['path']}" for r in row["patch"]["files"]],
        evidence=rows,
    )


def _run(
    found: opened.Opened,
    bench: Bench,
    signals: Signals,
    author: str,
    number: int,
    folder: Folder,
    empty: Path,
    ready: Ready,
    prompt: reviewer.Prompt,
) -> Judged:
    folder.replace(PROMPT, ready.prompt or b"")
    folder.replace("answer.schema.json", canonical.pretty(schema.load("review-answer")))
    streams = capture.Streams.open(
        folder, folder.path / "events.jsonl", folder.path / ANSWER, prompt=True
    )
    try:
        session = codex_session.run(
            ready.argv,
            cwd=empty,
            environment=ready.environment,
            prompt=streams.prompt,
            events=streams.events,
            stderr=streams.stderr,
            limits=bench.limits,
            stream=True,
            signals=signals,
            started=lambda _: None,
            spare={bench.rehearsing.pid} if bench.rehearsing else set(),
        )
        streams.sync()
        message, _ = streams.final_message(session, stream=True)
        headline = streams.headline()
    finally:
        streams.close()
    thread = session.reader.thread_id
    path = rollout.find(observe.codex_home(ready.environment), thread) if thread else None
    effective = rollout.effective(path) if path else rollout.Effective()
    rehearsal = bench.rehearsing.record if bench.rehearsing else None
    facts = outcome.Facts(
        role="explorer",
        writable=False,
        stream=True,
        exit_code=session.exit_code,
        signal=session.signal,
        limit=session.limit,
        limit_seconds=bench.limits.wall,
        interrupted="a signal" if session.interrupted else None,
        turn=session.reader.turn,
        error=session.reader.error,
        error_code=session.reader.error_code,
        last_error=session.reader.last_error,
        recognised=session.reader.recognised,
        headline=headline,
        message="given",
    )
    family = observe.family(effective.model, rehearsal)
    answer, word, reason, retry = _decide(facts, message, author, thread, effective)
    if bench.other_family and word in ("ok", "review_rejected"):
        other = found.record["model"]["family"]
        if family is None or other is None or family == other:
            word, answer.verdict = "review_unavailable", "ERROR"
            reason = f"a judge of another family than {other} was demanded; this one is {family}"
    raw = folder.read(ANSWER, 64 << 20)
    row = {
        "schema_version": "1.0",
        "number": number,
        "judge": {
            "id": f"codex-thread:{thread}" if thread else None,
            "program": f"codex-cli {ready.version}",
            "family": family,
            "model": effective.model,
        },
        "author": author,
        "tree": found.record["tree"]["result_tree"],
        "patch_sha256": found.record["patch"]["sha256"],
        "verdict": answer.verdict,
        "outcome": word,
        "reason": reason,
        "blockers": answer.blockers,
        "warnings": answer.warnings,
        "summary": answer.summary,
        "needs_fix": answer.needs_fix,
        "omitted": prompt.omitted,
        "raw": {"path": ANSWER, "sha256": canonical.digest(raw)} if raw is not None else None,
    }
    return _keep(found, folder, row, Judged(row, "", word, reason, retry))


def _decide(
    facts: outcome.Facts,
    message: str | None,
    author: str,
    thread: str | None,
    effective: rollout.Effective,
) -> tuple[Answer, str, str | None, str | None]:
    """Outage, refusal, unusable and rejected are four different things."""
    ended, reason, retry = outcome.decide(facts)
    if ended != "ok":
        return Answer("ERROR"), "review_unavailable", f"{ended}: {reason}", retry
    if effective.sandbox not in (None, "read-only"):
        said = f"the judge ran in the sandbox {effective.sandbox}"
        return Answer("ERROR"), "refused", said, None
    answer = reviewer.read(message)
    if answer.verdict == "ERROR":
        return answer, "review_unusable", answer.reason, None
    if effective.sandbox is None or effective.model is None:
        answer.verdict = "ERROR"
        return answer, "review_unusable", "no rollout shows the judge's model and sandbox", None
    if thread is None or author == f"codex-thread:{thread}":
        answer.verdict = "ERROR"
        return answer, "review_unusable", "author_neq_validator: judge and author are one", None
    if answer.verdict == "FAIL":
        return answer, "review_rejected", answer.reason, None
    return answer, "ok", None, None


def _keep(found: opened.Opened, folder: Folder, row: dict[str, Any], judged: Judged) -> Judged:
    row = found.mask.record(row, spare=("sha256", "tree", "patch_sha256", "author", "id"))
    wrong = schema.errors("review", row)
    if wrong:
        raise AssertionError(f"review record breaks its schema: {wrong[:3]}")
    data = canonical.pretty(row)
    folder.replace(RECORD, data)
    judged.record, judged.sha256 = row, canonical.digest(data)
    return judged
