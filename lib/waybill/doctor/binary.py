"""Codex: which one would run, whether it fits, and whether its sandbox holds."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

from waybill.base.exits import Fault
from waybill.codex import argv, binary, login, sandbox
from waybill.doctor.patient import Finding, Patient, call, failed, ok, said, warning
from waybill.packet import auth, environment

TRIED = "0.149"  # the versions that Waybill is tried with
INSTALL = f"install openai-codex-cli-bin=={TRIED}.0, or name another with --codex"


def codex(patient: Patient) -> Iterator[Finding]:
    """The binary, its version, its flags, the login that it reports, and its sandbox."""
    try:
        path = binary.locate(patient.codex, patient.environment)
    except Fault as absent:
        yield failed("codex", f"{absent.subject}: {absent.message}", INSTALL)
        return
    yield _found(patient, path)
    worker = environment.worker(patient.environment, {})
    words = [path, "--version"]
    try:
        done = call(words, patient.scratch, worker)
    except OSError as error:
        yield failed("codex version", f"{path} cannot be started: {error.strerror}", INSTALL)
        return
    version = binary.version(done.stdout.decode("utf-8", "replace")) if done.ok else None
    if version is None:
        yield failed("codex version", said(words, done), INSTALL)
        return
    yield judge_version(version)
    yield _flags(path, patient, worker)
    yield _login(path, patient, worker)
    yield _sandbox(path, patient, environment.evidence(worker))


def variables(patient: Patient) -> Iterator[Finding]:
    """The variables that Codex would prefer to the login, so that dispatch refuses them."""
    names = [n for n in (auth.ALWAYS, *auth.PREFERRED) if patient.environment.get(n)]
    if names:
        found = f"{', '.join(names)} set: a run uses the ChatGPT login alone"
        yield warning("environment", found, f"unset {' '.join(names)}")
    else:
        yield ok("environment", "holds no key that Codex would prefer to the login")


def judge_version(version: str) -> Finding:
    """How a version stands to the one that Waybill is tried with."""
    if version.startswith(f"{TRIED}."):
        return ok("codex version", version)
    found = f"{version}, and Waybill is tried with {TRIED}"
    return warning("codex version", found, f"{INSTALL}; else rehearse before you rely on it")


def _found(patient: Patient, path: str) -> Finding:
    """Where the binary comes from; a script in front of it is a warning."""
    search = patient.environment.get("PATH", "")
    asked, source = next(
        (name, source)
        for name, source in (
            (patient.codex, "--codex"),
            (patient.environment.get(binary.VARIABLE), f"${binary.VARIABLE}"),
            ("codex" if shutil.which("codex", path=search) else None, "PATH"),
            (path, "the package openai-codex-cli-bin"),
        )
        if name
    )
    named = Path(shutil.which(asked, path=search) or asked).absolute()
    if str(named) != path:
        found = f"{path}, behind the wrapper {named}, from {source}"
        advice = f"name the binary itself: export {binary.VARIABLE}={shlex.quote(path)}"
        return warning("codex", found, advice)
    if _is_script(named):
        advice = "name the native binary: a script may outlive Codex, or end before it"
        return warning("codex", f"{path}, a script, from {source}", advice)
    return ok("codex", f"{path}, from {source}")


def _is_script(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(2) == b"#!"
    except OSError:  # may be run and not read
        return False


def _flags(path: str, patient: Patient, worker: dict[str, str]) -> Finding:
    words = [path, "exec", "--help"]
    done = call(words, patient.scratch, worker)
    known = binary.flags(done.stdout.decode("utf-8", "replace"))
    if not known:
        return failed("codex flags", f"no flags named: {said(words, done)}", INSTALL)
    missing = sorted(argv.LISTED.keys() - known)
    if missing:
        return failed("codex flags", f"exec does not know {', '.join(missing)}", INSTALL)
    return ok("codex flags", f"exec knows all {len(argv.LISTED)} that a packet may use")


def _login(path: str, patient: Patient, worker: dict[str, str]) -> Finding:
    words = [path, "login", "status"]
    done = call(words, patient.scratch, worker)
    text = (done.stdout + b"\n" + done.stderr).decode("utf-8", "replace")
    mode = login.mode(-1 if done.exit_code is None else done.exit_code, text)
    # Codex warns here of what does not concern the login.
    lines = [line for line in text.splitlines() if not line.startswith("WARNING: ")]
    found = login.summary("\n".join(lines))
    if mode == login.CHATGPT:
        return ok("login", found)
    if mode == login.API_KEY:
        advice = "codex logout, then codex login: only the ChatGPT login passes"
        return warning("login", found, f"{advice}; a rehearsal needs none")
    shown = found if found and not done.timed_out else said(words, done)
    return warning("login", shown, "codex login; a rehearsal needs none")


def _sandbox(path: str, patient: Patient, checks: dict[str, str]) -> Finding:
    """Run a command read-only, and try a write that must be denied."""
    inside, writable, home = (patient.scratch / name for name in ("inside", "writable", "home"))
    for folder in (inside, writable, home):
        folder.mkdir(exist_ok=True)
    # A home of its own: Codex leaves files in the one that it is given.
    env = {**checks, "CODEX_HOME": str(home)}
    words = sandbox.confined(path, inside, writable, ["true"], writable=False)
    done = call(words, inside, env)
    if not done.ok:
        found = f"nothing runs in it: {said(['codex sandbox', 'true'], done)}"
        advice = "allow user namespaces here: Codex runs no command without its sandbox"
        return failed("sandbox", found, advice)
    target = inside / "denied"
    write = ["sh", "-c", 'echo written >"$0"', str(target)]
    done = call(sandbox.confined(path, inside, writable, write, writable=False), inside, env)
    if done.ok or target.exists():
        found = f"read-only, and a write to {target} was not denied"
        return failed("sandbox", found, "let no run read-only here: it is not")
    return ok("sandbox", "a command runs in it, read-only, and a write is denied")
