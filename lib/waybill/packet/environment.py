"""The environment of a worker and of a check: built from a list, never a copy of ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

PASSED = frozenset(
    "PATH HOME USER LOGNAME SHELL TERM LANG TZ TMPDIR CODEX_HOME SSL_CERT_FILE SSL_CERT_DIR"
    " HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY http_proxy https_proxy no_proxy all_proxy".split()
)
_PREFIX = "LC_"


def worker(
    ambient: Mapping[str, str], packet: Mapping[str, str], passed: Iterable[str] = ()
) -> dict[str, str]:
    """The listed variables of ours, then the packet's, then those passed on by name."""
    built = {
        name: value for name, value in ambient.items() if name in PASSED or name.startswith(_PREFIX)
    }
    built.update(packet)
    built.update({name: ambient[name] for name in passed if name in ambient})
    return built


def evidence(worker_environment: Mapping[str, str]) -> dict[str, str]:
    """A check's environment: the worker's, without the way to Codex's login."""
    return {name: value for name, value in worker_environment.items() if name != "CODEX_HOME"}
