"""The scripted model: whether a rehearsal starts, and whether Codex would reach it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from waybill.base import canonical
from waybill.base.exits import Fault
from waybill.doctor.patient import LIMIT, Finding, Patient, failed, ok, warning
from waybill.rehearsal import spawn

LOOPBACK = "127.0.0.1"
_PROXIES = ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
_REQUEST = {"model": "gpt-5.4", "input": [], "stream": True}
_MOST_BYTES = 1 << 20  # of an answer


@dataclass(frozen=True)
class Answer:
    """What came back: the status, the content type, and the body as text."""

    status: int
    kind: str
    body: str


def rehearsal(patient: Patient) -> Iterator[Finding]:
    """Start the scripted model on a script of one sentence, and have it say that."""
    script = patient.scratch / "script.json"
    script.write_bytes(canonical.pretty([{"say": "well"}]))
    advice = "no rehearsal runs here: see that loopback is up and that processes may listen on it"
    try:
        model = spawn.spawn(script)
    except Fault as fault:
        yield failed("rehearsal", f"{fault.subject}: {fault.message}", advice)
        return
    try:
        url = f"{model.base_url}/responses"
        wrong = why_not(ask(url))
    finally:
        model.close()
    proxy = in_the_way(patient.environment)
    if wrong is not None:
        yield failed("rehearsal", f"{url}: {wrong}", advice)
    elif proxy is not None:
        found = f"{proxy} is set, and NO_PROXY does not name {LOOPBACK}: Codex asks the proxy"
        yield warning("rehearsal", found, f"put {LOOPBACK} into NO_PROXY")
    else:
        yield ok("rehearsal", f"{url} answers")


def ask(url: str) -> Answer | str:
    """The answer to a request for a response, or why there is none."""
    import http.client
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    # Not urllib.request, which would go through a proxy.
    connection = http.client.HTTPConnection(parts.netloc, timeout=LIMIT)
    try:
        headers = {"content-type": "application/json"}
        connection.request("POST", parts.path, canonical.dumps(_REQUEST), headers)
        response = connection.getresponse()
        kind = response.headers.get_content_type()
        try:
            data = response.read(_MOST_BYTES)
        except http.client.IncompleteRead as cut:
            data = cut.partial
        return Answer(response.status, kind, data.decode("utf-8", "replace"))
    except OSError as error:
        return f"no answer: {error.strerror or error}"
    except http.client.HTTPException as error:
        return f"answers, and not in HTTP (does it want TLS?): {type(error).__name__}"
    finally:
        connection.close()


def why_not(answer: Answer | str) -> str | None:
    """Why an answer is none that Codex could use; None when it is one.

    Codex says the same of all of these: that the stream ended before it was complete.
    """
    if isinstance(answer, str):
        return answer
    found = f"status {answer.status}, {answer.kind}"
    if answer.kind == "text/html":
        return f"{found}: a page for people; the path is wrong"
    if answer.status != 200:
        return f"{found}: {' '.join(answer.body.split())[:200]}"
    if answer.kind != "text/event-stream":
        return f"{found}: not an event stream"
    if "response.completed" not in answer.body:
        return f"{found}: the stream was cut before its end"
    return None


def in_the_way(environment: Mapping[str, str]) -> str | None:
    """The variable by which Codex would ask a proxy for the scripted model; else None."""
    names = [name for name in _PROXIES if environment.get(name)]
    spared = ",".join(environment.get(name, "") for name in ("NO_PROXY", "no_proxy")).split(",")
    if not names or any(_names_loopback(entry.strip()) for entry in spared):
        return None
    return names[0]


def _names_loopback(entry: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(LOOPBACK) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False
