"""Generations of a receipt: each is kept, the newest stands in front, the ledger names all."""

from __future__ import annotations

import re
from typing import Any

from waybill.base import canonical, schema
from waybill.base.files import storing
from waybill.packet import ledger
from waybill.packet import record as run_record
from waybill.packet.rundir import RunFolder

_NAME = re.compile(r"(\d+)-(dispatch|verify|review|recover)\.json\Z")


def write(held: RunFolder, record: run_record.Record, receipt: dict[str, Any], by: str) -> None:
    """Write run.json, a new generation, the receipt in front, and the ledger's line.

    In this order: should one fail, what came before still says what happened. Raises Fault
    store_error.
    """
    found = schema.errors("run-receipt", receipt)
    if found:
        raise AssertionError(f"receipt breaks its schema: {found[:3]}")
    data = canonical.pretty(receipt)
    run = run_record.data(record)
    with storing(f"{held.folder.path}/{held.receipt_name}"):
        held.folder.replace("run.json", run)
        with held.folder.sub("generations") as folder:
            numbers = [int(m[1]) for name in folder.names() if (m := _NAME.match(name))]
            folder.replace(f"{max(numbers, default=0) + 1}-{by}.json", data)
        held.folder.replace(held.receipt_name, data)
    ledger.append(
        held.ledger,
        run_id=record["run_id"],
        attempt=record["attempt"],
        by=by,
        receipt=data,
        run=run,
    )
    held.record = record
