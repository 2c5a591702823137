"""A Codex home whose only model provider is a rehearsal, and the same as options.

Codex retries nothing here, asks for no login and reports to nobody; a provider that does
not answer is a failed turn rather than a wait for the network.
"""

from __future__ import annotations

import json
from pathlib import Path

PROVIDER = "rehearsal"


def write_home(
    folder: Path, base_url: str, *, model: str = "gpt-5.4", idle_ms: int = 20000
) -> None:
    """Make `folder` a Codex home; its config.toml is replaced, all else in it is left.

    `idle_ms`: after so many milliseconds of silence Codex gives up an answer.
    """
    lines = [f"model = {_toml(model)}", *_lines({"model_provider": PROVIDER})]
    for table, values in _tables(base_url, idle_ms).items():
        lines += [f"[{table}]", *_lines(values)]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "config.toml").write_text("\n".join(lines) + "\n")


def overrides(base_url: str, *, idle_ms: int = 20000) -> list[str]:
    """The provider's settings as options of `codex exec --ignore-user-config`."""
    values: dict[str, object] = {"model_provider": PROVIDER}
    for table, members in _tables(base_url, idle_ms).items():
        values |= {f"{table}.{key}": value for key, value in members.items()}
    return [word for key, value in values.items() for word in ("-c", f"{key}={_toml(value)}")]


def _tables(base_url: str, idle_ms: int) -> dict[str, dict[str, object]]:
    provider = {
        "name": PROVIDER,
        "base_url": base_url,
        "wire_api": "responses",
        "requires_openai_auth": False,
        "request_max_retries": 0,
        "stream_max_retries": 0,
        "stream_idle_timeout_ms": idle_ms,
        "supports_websockets": False,
    }
    return {
        f"model_providers.{PROVIDER}": provider,
        "analytics": {"enabled": False},
        "features": {"unbounded_connection_retries": False},
    }


def _lines(values: dict[str, object]) -> list[str]:
    return [f"{key} = {_toml(value)}" for key, value in values.items()]


def _toml(value: object) -> str:
    # JSON's strings, integers and booleans are TOML's too.
    return json.dumps(value, ensure_ascii=False)
