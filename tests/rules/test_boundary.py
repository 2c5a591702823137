"""The path boundary of a packet: seven fields and the artifacts, before anything is created."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from good import RUN, make
from waybill.base import exits
from waybill.base.exits import Fault
from waybill.packet import boundary

FIELDS = [f"{section}.{key}" for section, key in boundary.FIELDS]


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    """A working directory with links, and places beside it."""
    for made in ("work/sub", "work-sibling", "out"):
        (tmp_path / made).mkdir(parents=True)
    (tmp_path / "out" / "there").touch()
    (tmp_path / "work" / "in-link").symlink_to("sub")
    (tmp_path / "work" / "out-link").symlink_to(tmp_path / "out")
    (tmp_path / "work" / "dangling").symlink_to("nowhere")
    (tmp_path / "alias").symlink_to("work")
    return tmp_path / "work"


def refusal(cwd: Path, changes: dict[str, Any]) -> Fault:
    """The refusal of a packet; nothing was created on the way."""
    before = sorted(cwd.parent.rglob("*"))
    with pytest.raises(Fault) as caught:
        boundary.draw(make(changes, cwd), cwd.parent)
    assert sorted(cwd.parent.rglob("*")) == before
    return caught.value


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize(
    "path",
    [
        pytest.param("{tmp}/out/x/y", id="elsewhere, absolute"),
        pytest.param("../out/x/y", id="elsewhere, upward"),
        pytest.param("sub/../../out/x", id="elsewhere, after a step in"),
        pytest.param("../work-sibling/x", id="a sibling with the same beginning"),
        pytest.param("out-link/there", id="a file through a link"),
        pytest.param("out-link/x/y", id="what is not there yet, through a link"),
        pytest.param("dangling", id="a link that leads nowhere"),
        pytest.param("~/../../x", id="upward from a name that a shell would expand"),
    ],
)
def test_a_field_that_leads_outside_is_refused_by_its_name(
    cwd: Path, field: str, path: str
) -> None:
    fault = refusal(cwd, {field: path.format(tmp=cwd.parent)})
    assert (fault.status, fault.outcome) == (exits.REFUSED, "refused")
    assert fault.message.startswith(f"$.{field}: ")
    assert "escapes cwd" in fault.message or path == "dangling"


def test_an_artifact_that_leads_outside_is_refused_too(cwd: Path) -> None:
    fault = refusal(cwd, {"evidence.artifacts": ["sub/x", "out-link/there"]})
    assert fault.outcome == "refused"
    assert fault.message.startswith("$.evidence.artifacts: out-link/there: escapes cwd")


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize(
    ("allowed", "path"),
    [
        pytest.param(["{tmp}/out"], "{tmp}/out/x/y", id="an allowed root"),
        pytest.param(["{tmp}/out"], "../out/x/y", id="reached by a relative path"),
        pytest.param(["", "{tmp}/work/out-link"], "{tmp}/out/x/y", id="a root that is a link"),
        pytest.param([], "in-link/x", id="a link that stays inside"),
        pytest.param([], "{tmp}/alias/sub/x", id="a folder by its other name"),
    ],
)
def test_a_field_within_the_boundary_is_resolved(
    cwd: Path, field: str, allowed: list[str], path: str
) -> None:
    tmp = cwd.parent
    text = path.format(tmp=tmp)
    changes = {field: text, "allowed_paths": [root.format(tmp=tmp) for root in allowed]}
    if field == "output.schema_path":
        changes["output.capture_mode"] = "output-schema"
    if field == "execution.output_schema_path":
        changes |= {"output.capture_mode": "output-schema", "output.schema_path": "sub/other"}
    drawn = boundary.draw(make(changes, cwd), tmp)
    found = {
        "output.final_message_path": drawn.final_message,
        "output.jsonl_path": drawn.events,
        "output.schema_path": drawn.schema,
        "output.receipt_path": drawn.receipt,
        "execution.prompt_path": drawn.prompt,
        "execution.output_schema_path": drawn.schema,
    }
    assert found.get(field, Path(os.path.realpath(cwd / text))) == Path(
        os.path.realpath(cwd / text)
    )


@pytest.mark.parametrize(
    "allowed",
    [
        pytest.param("../out", id="upward"),
        pytest.param("out-link", id="by a link"),
        pytest.param(" ", id="blank"),
        pytest.param("dangling", id="by a link that leads nowhere"),
    ],
)
def test_a_relative_root_permits_nothing_elsewhere(cwd: Path, allowed: str) -> None:
    changes = {"allowed_paths": [allowed], "output.jsonl_path": "../out/x"}
    assert refusal(cwd, changes).outcome == "refused"


@pytest.mark.parametrize(
    "name", ["..", ".hidden", "-x", "a/b", "a b", "é", "a\n", "a.", "NUL", "x" * 201]
)
def test_a_packet_id_that_is_no_safe_name_is_refused(cwd: Path, name: str) -> None:
    fault = refusal(cwd, {"packet_id": name})
    assert (fault.status, fault.outcome) == (exits.REFUSED, "refused")
    assert fault.message.startswith("$.packet_id: not path-safe: ")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param("{tmp}/nowhere", "no such folder", id="nothing there"),
        pytest.param("work/nowhere", "no such folder", id="nothing there, relative"),
        pytest.param("{tmp}/out/there", "no such folder", id="a file"),
        pytest.param("{tmp}/work/dangling", "leads nowhere", id="a link that leads nowhere"),
        pytest.param("{tmp}/out/there/x", "cannot be resolved", id="below a file"),
    ],
)
def test_without_its_folder_a_packet_has_no_input(cwd: Path, given: str, said: str) -> None:
    packet = make({"cwd": given.format(tmp=cwd.parent)})
    with pytest.raises(Fault, match=said) as caught:
        boundary.draw(packet, cwd.parent)
    assert (caught.value.status, caught.value.outcome) == (exits.NOINPUT, None)
    assert caught.value.message.startswith("$.cwd: ")


def test_a_folder_that_no_record_could_name_is_no_input(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/\xff"
    os.mkdir(folder)
    with pytest.raises(Fault, match="not UTF-8") as caught:
        boundary.draw(make(), Path(os.fsdecode(folder)))
    assert (caught.value.status, caught.value.outcome) == (exits.NOINPUT, None)


def test_a_run_folder_is_inside_even_where_the_receipt_is_permitted_by_itself(cwd: Path) -> None:
    there = str(cwd.parent / "out" / "there")
    changes = {
        "allowed_paths": [there],
        "output.receipt_path": there,
        "evidence.receipt_path": there,
    }
    fault = refusal(cwd, changes)
    assert fault.outcome == "refused"
    assert fault.message.startswith("$.output.receipt_path: the run folder")


def test_a_folder_by_its_other_name_is_the_real_one(cwd: Path) -> None:
    drawn = boundary.draw(make({"cwd": "alias"}), cwd.parent)
    assert drawn.cwd == cwd
    assert drawn.receipt == cwd / RUN / "receipt.json"


@pytest.mark.parametrize(
    ("receipt", "allowed", "ledger"),
    [
        pytest.param(f"{RUN}/receipt.json", [], ".codex/runs", id="beside the run folder"),
        pytest.param("run/receipt.json", [], ".", id="beside a run folder of one's own"),
        pytest.param("receipt.json", [], ".", id="in a run folder that is the whole"),
        pytest.param("../out/receipt.json", ["{tmp}/out"], "../out", id="in it: beside is outside"),
        pytest.param("../out/r/receipt.json", ["{tmp}/out"], "../out", id="beside, elsewhere"),
    ],
)
def test_the_ledger_lies_beside_the_run_folder_where_that_is_inside(
    cwd: Path, receipt: str, allowed: list[str], ledger: str
) -> None:
    changes = {
        "output.receipt_path": receipt,
        "evidence.receipt_path": receipt,
        "allowed_paths": [root.format(tmp=cwd.parent) for root in allowed],
    }
    drawn = boundary.draw(make(changes, cwd), cwd.parent)
    assert drawn.ledger_folder == Path(os.path.realpath(cwd / ledger))
    assert drawn.run_folder == drawn.receipt.parent


def test_what_is_ours_is_kept_out_of_trees_and_nothing_else(cwd: Path) -> None:
    changes = {
        "output.receipt_path": "sub/r.json",
        "evidence.receipt_path": "sub/r.json",
        "output.final_message_path": "answer.md",
    }
    own = boundary.draw(make(changes, cwd), cwd.parent).own()
    assert {cwd / "answer.md", cwd / "sub" / "r.json", cwd / "sub" / "run.json"} <= set(own)
    assert {cwd / "ledger.jsonl", cwd / "sub" / "attempts"} <= set(own)
    assert not {cwd, cwd / "sub", cwd / ".gitignore"} & set(own)


@pytest.mark.parametrize(
    ("changes", "schema"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"output.schema_path": "sub/a"}, None, id="one that is not asked for"),
        pytest.param(
            {"output.schema_path": "sub/a", "output.capture_mode": "output-schema"},
            "sub/a",
            id="the output's",
        ),
    ],
)
def test_the_schema_of_an_answer_counts_only_when_it_is_asked_for(
    cwd: Path, changes: dict[str, Any], schema: str | None
) -> None:
    drawn = boundary.draw(make(changes, cwd), cwd.parent)
    assert drawn.schema == (cwd / schema if schema else None)
