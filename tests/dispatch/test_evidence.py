"""Required commands: pinned, run after the work, bounded in the receipt, whole in a log."""

from __future__ import annotations

import hashlib
import socket
from typing import Any

import pytest

WORK = [{"exec": "echo new > new.txt"}, {"say": "done"}]


def tool(project: Any, name: str, body: str) -> str:
    project.write(name, f"#!/bin/sh\n{body}\n", 0o755)
    return f"./{name}"


def play(
    project: Any, packet: Any, codex: Any, entries: list[str], *words: str, **more: Any
) -> Any:
    given = packet({"evidence.required_commands": entries, **more})
    return project.run("dispatch", "--codex", codex.path, *words, stdin=given)


def test_commands_run_in_order_with_literal_words_and_keep_their_output(
    project: Any, packet: Any, standin: Any
) -> None:
    tool(project, "one", 'pwd; for word; do echo "<$word>"; done; cat; echo err >&2')
    tool(project, "two", "cat made.txt")
    done = play(project, packet, standin(), [" ./one a b=c  -d ", "", "./two"])
    assert done.status == 0
    rows = done.json["commands_run"]
    assert [row["command"] for row in rows[1:]] == ["./one a b=c  -d", "./two"]
    assert [row["exit_code"] for row in rows] == [0, 0, 0]
    said = rows[1]["output_excerpt"].splitlines()
    assert said == [str(project.top), "<a>", "<b=c>", "<-d>", "err"]
    assert rows[2]["output_excerpt"] == "made"


def test_all_run_after_one_fails_and_each_keeps_its_status(
    project: Any, packet: Any, standin: Any
) -> None:
    entries = [
        tool(project, "seven", "exit 7"),
        tool(project, "killed", "kill -9 $$"),
        tool(project, "missing", "no-such-program-at-all"),
        tool(project, "good", "echo fine"),
    ]
    done = play(project, packet, standin(), entries)
    record = project.record()
    assert (done.status, record["outcome"]) == (1, "verify_failed")
    assert record["reason"] == "./seven failed: exit 7"
    assert [row["exit_code"] for row in done.json["commands_run"]] == [0, 7, -1, 127, 0]
    outcomes = [row["outcome"] for row in record["evidence"]]
    assert outcomes == ["verify_failed", "verify_failed", "verify_not_run", "ok"]
    assert done.json["verdict"]["status"] == "NO_VERDICT"
    for number, row in enumerate(record["evidence"], 1):
        data = (project.folder() / row["log"]["path"]).read_bytes()
        assert row["log"]["path"] == f"evidence/{number}.log"
        assert row["log"]["sha256"] == hashlib.sha256(data).hexdigest()


def test_they_run_after_codex_has_ended_badly_too(project: Any, packet: Any, standin: Any) -> None:
    done = play(project, packet, standin(exit=3), [tool(project, "tool", "touch ran")])
    assert (done.status, project.record()["outcome"]) == (1, "agent_failed")
    assert (project.top / "ran").exists()
    assert done.json["commands_run"][1]["exit_code"] == 0


def test_none_runs_after_a_limit_and_the_receipt_names_the_limit(
    project: Any, packet: Any, standin: Any
) -> None:
    entry = tool(project, "tool", "touch ran")
    codex = standin(hang_at=2)
    done = play(project, packet, codex, [entry], "--idle-limit", "0.5", "--grace", "1")
    (row,) = project.record()["evidence"]
    assert (done.status, row["outcome"]) == (124, "verify_not_run")
    assert row["reason"] == "not attempted: the idle limit ended the run"
    assert len(done.json["commands_run"]) == 1
    assert done.json["failure_reason"].startswith("timeout_idle: ")
    assert not (project.top / "ran").exists()


def test_each_has_the_packets_limit_and_its_descendants_are_ended(
    project: Any, packet: Any, standin: Any
) -> None:
    entries = [
        tool(project, "hangs", "echo begun; (trap '' TERM; sleep 600) & sleep 600"),
        tool(project, "leaves", "setsid sleep 600 >/dev/null 2>&1 &"),
    ]
    more = {"execution.timeout_seconds": 2}
    done = play(project, packet, standin(), entries, "--grace", "0.5", **more)
    hung, left = project.record()["evidence"]
    assert (done.status, hung["timed_out"], hung["exit_code"]) == (1, True, -1)
    assert done.json["commands_run"][1]["output_excerpt"] == "timed out after 2 s\nbegun"
    assert left["outcome"] == "ok"
    assert done.json["timed_out"] is False  # that is about Codex
    assert project.idle(2)


def test_a_flood_is_whole_in_the_log_and_its_end_stands_in_the_receipt(
    project: Any, packet: Any, standin: Any
) -> None:
    line = "python3 -c \"print('é' * 3_000_000); print('the end')\""
    done = play(project, packet, standin(), [tool(project, "flood", line)])
    (row,) = project.record()["evidence"]
    assert (done.status, row["log"]["bytes"]) == (0, 6_000_009)
    text = done.json["commands_run"][1]["output_excerpt"]
    assert text.endswith("é\nthe end") and text.startswith("[… ")
    assert "\ufffd" not in text and len(text.encode()) < 2100


def test_what_a_command_changes_is_told_and_is_not_the_workers(
    project: Any, packet: Any, standin: Any
) -> None:
    entry = tool(project, "tool", "echo x > 'by the check.txt'; rm README")
    done = play(project, packet, standin(), [entry])
    (row,) = project.record()["evidence"]
    assert row["changed_files"] == ["README", "by the check.txt"]
    assert done.json["changed_files"] == ["made.txt"]
    assert project.record()["tree"]["after_evidence"] is not None


@pytest.mark.parametrize(
    "edit",
    [
        "echo x >> tool",
        "rm tool; ln -s README tool",
        "rm tool",
        "chmod -x tool",
        "ln -sf /bin/true tool",
    ],
)
def test_a_program_that_is_not_the_pinned_one_is_not_run(
    project: Any, packet: Any, standin: Any, edit: str
) -> None:
    entry = tool(project, "tool", "touch ran")
    done = play(project, packet, standin(edit=f"{edit}; echo made > made.txt"), [entry])
    record = project.record()
    (row,) = record["evidence"]
    assert (done.status, record["outcome"]) == (76, "verify_not_run")
    assert (row["exit_code"], len(row["pinned"])) == (-1, 64)
    assert not (project.top / "ran").exists()


def test_both_digests_of_a_changed_program_are_recorded(
    project: Any, packet: Any, standin: Any
) -> None:
    entry = tool(project, "tool", "true")
    play(project, packet, standin(edit="echo '# more' >> tool"), [entry])
    (row,) = project.record()["evidence"]
    data = (project.top / "tool").read_bytes()
    assert row["found"] == hashlib.sha256(data).hexdigest()
    assert row["pinned"] == hashlib.sha256(data.removesuffix(b"# more\n")).hexdigest()


def test_a_command_that_comes_later_runs_when_asked_and_is_recorded_as_unpinned(
    project: Any, packet: Any, standin: Any
) -> None:
    edit = "printf '#!/bin/sh\\ntrue\\n' > later; chmod +x later"
    done = play(project, packet, standin(edit=edit), ["./later"], "--allow-unpinned")
    record = project.record()
    assert (done.status, record["relaxations"]) == (0, ["allow-unpinned"])
    (row,) = record["evidence"]
    assert (row["pinned"], row["outcome"], len(row["found"])) == (None, "ok", 64)


def test_a_command_that_never_comes_is_not_run(project: Any, packet: Any, standin: Any) -> None:
    done = play(project, packet, standin(), ["./later"], "--allow-unpinned")
    assert (done.status, project.record()["outcome"]) == (76, "verify_not_run")


def test_deferred_commands_are_run_by_verify(project: Any, packet: Any, standin: Any) -> None:
    entry = tool(project, "tool", "cat made.txt")
    done = play(project, packet, standin(), [entry], "--defer-evidence")
    record = project.record()
    assert (done.status, record["outcome"]) == (0, "verify_not_run")
    assert "deferred" in record["reason"]
    assert done.json["failure_reason"].startswith("verify_not_run: deferred")
    assert done.json["verdict"]["status"] == "NO_VERDICT"
    assert len(done.json["commands_run"]) == 1

    verified = project.run("verify", stdin=done.stdout)
    assert (verified.status, project.record()["outcome"]) == (0, "ok")
    assert "failure_reason" not in verified.json
    assert verified.json["commands_run"][1]["output_excerpt"] == "made"
    assert verified.json == project.receipt()
    names = sorted(path.name for path in (project.folder() / "generations").iterdir())
    assert names == ["1-dispatch.json", "2-verify.json"]


def test_a_deferred_run_without_commands_is_just_a_run(
    project: Any, packet: Any, standin: Any
) -> None:
    done = play(project, packet, standin(), [], "--defer-evidence")
    assert (done.status, project.record()["outcome"]) == (0, "ok")


PROBE = """\
import pathlib, socket, sys
tried = []
try:
    socket.create_connection(("127.0.0.1", {port}), 1)
    tried.append("network")
except OSError:
    pass
for name in ("escape.txt", "/tmp/waybill-escape-{port}"):
    try:
        pathlib.Path(name).write_text("x")
        tried.append(name)
    except OSError:
        pass
import os
pathlib.Path(os.environ["TMPDIR"], "scratch").write_text("x")
print("got:", *tried)
"""


def confine(project: Any, packet: Any, sandbox: str) -> tuple[Any, int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        project.write("probe.py", PROBE.format(port=port))
        tool(project, "tool", "exec python3 probe.py")
        given = packet(
            {
                "role": "explorer" if sandbox == "read-only" else "worker",
                "sandbox": sandbox,
                "evidence.required_commands": ["./tool"],
            }
        )
        return project.rehearse(WORK, given, "--confine-evidence"), port


def test_confined_commands_have_no_network_and_write_nowhere(project: Any, packet: Any) -> None:
    done, _ = confine(project, packet, "read-only")
    (row,) = project.record()["evidence"]
    assert (done.status, row["confined"], row["exit_code"]) == (0, True, 0)
    assert done.json["commands_run"][1]["output_excerpt"] == "got:"
    assert not (project.top / "escape.txt").exists()
    assert project.record()["relaxations"] == ["confine-evidence"]


def test_confined_commands_of_a_writable_packet_write_in_its_folder_alone(
    project: Any, packet: Any
) -> None:
    done, _ = confine(project, packet, "workspace-write")
    (row,) = project.record()["evidence"]
    assert (done.status, row["changed_files"]) == (0, ["escape.txt"])
    assert "network" not in done.json["commands_run"][1]["output_excerpt"]


def test_a_confined_command_whose_interpreter_is_missing_is_not_run(
    project: Any, packet: Any
) -> None:
    project.write("tool", "#!/nowhere/sh\n", 0o755)
    given = packet({"evidence.required_commands": ["./tool"]})
    done = project.rehearse(WORK, given, "--confine-evidence")
    (row,) = project.record()["evidence"]
    assert (done.status, row["outcome"], row["exit_code"]) == (76, "verify_not_run", -1)


def test_a_command_whose_interpreter_is_missing_is_not_run(
    project: Any, packet: Any, standin: Any
) -> None:
    project.write("tool", "#!/nowhere/sh\n", 0o755)
    done = play(project, packet, standin(), ["./tool"])
    (row,) = project.record()["evidence"]
    assert (done.status, row["outcome"]) == (76, "verify_not_run")
    assert "could not be started" in row["reason"]


def test_where_the_sandbox_does_not_work_nothing_is_launched(
    project: Any, packet: Any, standin: Any
) -> None:
    tool(project, "tool", "touch ran")
    codex = standin(sandbox=["no namespaces here", 1])
    for dry in (["--dry-run"], []):
        done = play(project, packet, codex, ["./tool"], "--confine-evidence", *dry)
        assert done.status == 78
        assert "--confine-evidence: the sandbox fails: no namespaces here" in done.stderr
    assert not codex.ran
    assert not (project.top / "ran").exists()


def test_an_interrupt_during_a_command_ends_it_and_is_told(
    project: Any, packet: Any, standin: Any
) -> None:
    entries = [tool(project, "slow", "touch begun; sleep 600"), tool(project, "next", "touch ran")]
    given = packet({"evidence.required_commands": entries})
    words = ["--codex", standin().path, "--grace", "0.5"]
    process = project.start("dispatch", *words, stdin=given)
    while not (project.top / "begun").exists():
        assert process.poll() is None
    process.terminate()
    done = project.finish(process)
    record = project.record()
    assert (done.status, record["outcome"]) == (143, "interrupted")
    assert not (project.top / "ran").exists()
    assert [row["outcome"] for row in record["evidence"]] == ["verify_not_run"] * 2
