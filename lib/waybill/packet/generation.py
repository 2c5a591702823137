"""Generations of a receipt: each is kept, the newest stands in front, the ledger names all."""

from __future__ import annotations

import re
from typing import Any

from waybill.base import canonical, schema
from waybill.base.exits import fault
from waybill.base.files import storing
from waybill.packet import ledger
from waybill.packet import record as run_record
from waybill.packet.boundary import RUN
from waybill.packet.rundir import MOST_BYTES, RunFolder

_NAME = re.compile(r"(\d+)-(dispatch|verify|review|recover)\.json\Z")


def write(held: RunFolder, record: run_record.Record, receipt: dict[str, Any], by: str) -> None:
    """Write a new generation, run.json that names it, the receipt in front, the ledger's line.

    In this order: a death in between leaves either the generation before whole, or this one
    for `mend` to put in front. Raises Fault store_error.
    """
    found = schema.errors("run-receipt", receipt)
    if found:
        raise AssertionError(f"receipt breaks its schema: {found[:3]}")
    data = canonical.pretty(receipt)
    with storing(f"{held.folder.path}/{held.receipt_name}"):
        with held.folder.sub("generations") as folder:
            numbers = [int(m[1]) for name in folder.names() if (m := _NAME.match(name))]
            number = max(numbers, default=0) + 1
            folder.replace(_name(number, by), data)
        record["receipt"] = {"generation": number, "by": by, "sha256": canonical.digest(data)}
        held.folder.replace(RUN, run_record.data(record))
    held.record = record
    mend(held)


def mend(held: RunFolder) -> bool:
    """Put the generation that run.json names in front, and into the ledger, if it is not there.

    Whether another receipt stood in front. Raises Fault store_error when that generation is
    gone or is not the one that was written.
    """
    record = held.record
    assert record is not None and record["receipt"] is not None
    named = record["receipt"]
    where = f"{held.folder.path}/generations/{_name(named['generation'], named['by'])}"
    with storing(where):
        with held.folder.sub("generations") as folder:
            data = folder.read(_name(named["generation"], named["by"]), MOST_BYTES)
        if data is None or canonical.digest(data) != named["sha256"]:
            raise fault("store_error", where, "is not the receipt that run.json names")
        run = held.folder.read(RUN, run_record.MOST_BYTES)
        front = held.folder.read(held.receipt_name, MOST_BYTES)
        if front != data:
            held.folder.replace(held.receipt_name, data)
    assert run is not None
    ledger.append(
        held.ledger,
        run_id=record["run_id"],
        attempt=record["attempt"],
        by=named["by"],
        receipt=data,
        run=run,
    )
    return front != data


def _name(number: int, by: str) -> str:
    return f"{number}-{by}.json"
