"""The Codex binary: which one runs, what it calls itself, and which flags it knows."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from waybill.base.exits import Fault, fault

VARIABLE = "WAYBILL_CODEX"
_VERSION = re.compile(r"\bcodex(?:-cli)?[ \t]+v?(\d+\.\d+\.\d+[0-9A-Za-z.+-]*)")
_FLAG = re.compile(r"^\s{1,8}(?:(-\w),\s+)?(--[a-z][a-z0-9-]*)", re.MULTILINE)


def locate(option: str | None, environment: Mapping[str, str]) -> str:
    """The absolute path of the native binary.

    The option wins over $WAYBILL_CODEX, that over `codex` on PATH, that over the packaged
    one. Raises Fault launch_failed when the one asked for cannot be run.
    """
    for asked, said in ((option, "--codex"), (environment.get(VARIABLE), f"${VARIABLE}")):
        if asked:
            return native(_named(asked, said, environment))
    found = shutil.which("codex", path=environment.get("PATH", ""))
    if found:
        return native(Path(found))
    spec = importlib.util.find_spec("codex_cli_bin")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        packaged = Path(folder) / "bin" / "codex"
        if os.access(packaged, os.X_OK):
            return str(packaged)
    raise _absent("codex", "no Codex on PATH and none packaged; install openai-codex-cli-bin")


def _named(asked: str, said: str, environment: Mapping[str, str]) -> Path:
    found = shutil.which(asked, path=environment.get("PATH", ""))
    if found is None:
        raise _absent(said, f"no Codex binary at {asked}; name a file that can be run")
    return Path(found).absolute()


def _absent(subject: str, message: str) -> Fault:
    return fault("launch_failed", subject, message)


def native(path: Path) -> str:
    """The native binary behind the npm wrapper; any other program as it is.

    The wrapper is a Node script that survives its child's fate: killed, it leaves the child
    running, and terminated it exits 0. It is never run.
    """
    real = Path(os.path.realpath(path))
    if real.suffix != ".js":
        return str(path.absolute())
    package = real.parent.parent
    for root in (package, *package.glob("node_modules/@openai/*"), *package.parent.glob("codex-*")):
        # Some packages hold the binaries of every platform, of which one runs here.
        vendor = f"vendor/{os.uname().machine}-*linux*"
        for layout in (f"{vendor}/bin/codex", f"{vendor}/codex/codex"):
            for candidate in sorted(root.glob(layout)):
                if os.access(candidate, os.X_OK):
                    return str(candidate)
    raise _absent(
        str(path), "is the npm wrapper, and no native binary lies beside it; reinstall Codex"
    )


def version(text: str) -> str | None:
    """The version in the output of `codex --version`; None when there is none."""
    match = _VERSION.search(text)
    return match[1] if match else None


def flags(help_text: str) -> frozenset[str]:
    """Every option that a help text names, in its long and short spelling."""
    return frozenset(
        spelling for match in _FLAG.finditer(help_text) for spelling in match.groups() if spelling
    )
