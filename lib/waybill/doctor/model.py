"""The scripted model: whether a rehearsal starts, and whether Codex would reach it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from waybill.base import canonical
from waybill.base.exits import Fault
from waybill.doctor.patient import LIMIT, Finding, Patient, failed, ok
from waybill.rehearsal import spawn

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
    if wrong is not None:
        yield failed("rehearsal", f"{url}: {wrong}", advice)
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
