"""The Codex home of a rehearsal, and the same as options."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from waybill.rehearsal import home

URL = "http://127.0.0.1:1234/v1"


def read(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "config.toml").read_text())


def test_a_home_has_one_provider_that_never_retries(tmp_path: Path) -> None:
    home.write_home(tmp_path / "a" / "home", URL)
    config = read(tmp_path / "a" / "home")
    assert config["model"] == "gpt-5.4"
    provider = config["model_providers"][config["model_provider"]]
    assert provider["base_url"] == URL and provider["wire_api"] == "responses"
    assert provider["request_max_retries"] == provider["stream_max_retries"] == 0
    assert provider["requires_openai_auth"] is False
    assert provider["stream_idle_timeout_ms"] == 20000
    assert config["analytics"] == {"enabled": False}
    assert config["features"] == {"unbounded_connection_retries": False}


def test_model_and_patience_are_the_callers(tmp_path: Path) -> None:
    home.write_home(tmp_path, URL, model='odd "one" é', idle_ms=500)
    config = read(tmp_path)
    assert config["model"] == 'odd "one" é'
    assert config["model_providers"][home.PROVIDER]["stream_idle_timeout_ms"] == 500


def test_a_home_in_use_keeps_what_else_is_there(tmp_path: Path) -> None:
    (tmp_path / "sessions").mkdir()
    home.write_home(tmp_path, URL)
    home.write_home(tmp_path, "http://127.0.0.1:9/v1")
    assert read(tmp_path)["model_providers"][home.PROVIDER]["base_url"].endswith(":9/v1")
    assert (tmp_path / "sessions").is_dir()


def test_the_options_say_what_the_home_says_but_for_the_model(tmp_path: Path) -> None:
    home.write_home(tmp_path, URL)
    words = home.overrides(URL)
    assert words[::2] == ["-c"] * (len(words) // 2)
    told: dict[str, Any] = {}
    for word in words[1::2]:
        path, _, value = word.partition("=")
        *tables, key = path.split(".")
        table = told
        for name in tables:
            table = table.setdefault(name, {})
        table[key] = tomllib.loads(f"value = {value}")["value"]
    expected = read(tmp_path)
    del expected["model"]
    assert told == expected
