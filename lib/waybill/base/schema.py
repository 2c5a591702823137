"""Records against their schemas: jsonschema-rs answers, jsonschema words the errors.

Schemas lie in `schemas/` under the record's name, are JSON Schema 2020-12, and are the only
place where a record's shape is written down.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from waybill.base import exits
from waybill.base.exits import Fault

FOLDER = Path(__file__).resolve().parent.parent / "schemas"
MOST_ERRORS = 20  # reported at once; a document that is wrong everywhere needs no more


def load(name: str) -> dict[str, Any]:
    """The schema of a record, by the record's name."""
    data = (FOLDER / f"{name}.schema.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(data)
    return found


@functools.cache
def _fast(name: str) -> Any:
    import jsonschema_rs

    return jsonschema_rs.validator_for(load(name), validate_formats=True)


def is_valid(name: str, document: Any) -> bool:
    """The fast answer alone, with formats checked."""
    return bool(_fast(name).is_valid(document))


def errors(name: str, document: Any) -> list[tuple[str, str]]:
    """Every error as (JSON path, sentence), sorted; empty for a valid document."""
    if is_valid(name, document):
        return []
    import jsonschema

    checker = jsonschema.FormatChecker(formats=())
    checker.checks("date-time")(_is_date_time)
    validator = jsonschema.Draft202012Validator(load(name), format_checker=checker)
    found = sorted((error.json_path, _words(error)) for error in validator.iter_errors(document))
    # The two implementations are held in agreement by a test; should they ever differ, the
    # strict answer stands.
    return found or [("$", f"does not match the {name} schema")]


def require(name: str, document: Any, subject: str) -> Any:
    """The document, when it is valid; else Fault 65 with one line for each error."""
    found = errors(name, document)
    if not found:
        return document
    said = [f"{path}: violates schema {name}: {words}" for path, words in found[:MOST_ERRORS]]
    if len(found) > 1:
        said[0] += f" (and {len(found) - 1} more)"
    raise Fault(exits.DATA, subject, said[0], lines=said[1:])


def _is_date_time(value: Any) -> bool:
    if not isinstance(value, str):
        return True
    import jsonschema_rs

    found = jsonschema_rs.validator_for({"format": "date-time"}, validate_formats=True)
    return bool(found.is_valid(value))


def _words(error: Any) -> str:
    """One bounded sentence; the offending value is shown only when it is short."""
    message = " ".join(str(error.message).split())
    if len(message) <= 300:
        return message
    return f"{error.validator}: the value does not fit {json.dumps(error.validator_value)[:200]}"
