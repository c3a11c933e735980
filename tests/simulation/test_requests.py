"""The requests and log lines of whole jobs: a change of them is deliberate.

`requests.txt` counts the requests of each process, by the rows that they read or write.
It has the status or event that they write, and counts log lines by kind.
After a deliberate change write it again, and review the difference:

    python -m tests.simulation.test_requests
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from piecework.jobs.fan_in import Certificate
from piecework_simulation.engine.network import Exchange
from tests.simulation.lives import ALL, run_life

RECORD = Path(__file__).with_name("requests.txt")
#: A poll: how often it is made is a question of time.
POLL = re.compile(
    "receive_message|ACTIVE|BREAKERS|WORKERS|EXPIRY|WAIT$|OPEN$|WEBHOOKS|y OUTBOX"
    "|reconcile.pass|receive_failed|cancel_poll.failed"
)
#: A test waits for an end by reads.
READ = re.compile("get_item|query")


def lines_of(name: str) -> list[str]:
    """Return the requests of a life, each with its number."""
    found: Counter[str] = Counter()

    def note(when: str, exchange: Exchange) -> None:
        process = exchange.client.process.name.split("-")[0]
        if when == "answered" and not (
            process == "test" and READ.match(exchange.operation)
        ):
            rows = Counter(rows_of(exchange.request))
            text = ", ".join(f"{n} {row}" if n > 1 else row for row, n in rows.items())
            request = f"{exchange.operation} {text}".strip()
            request += ", refused" if exchange.error is not None else ""
            if not POLL.search(request):
                found[f"{process} {request}"] += 1

    def say(text: str) -> None:
        if not POLL.search(text):
            found[f"log {text}"] += 1

    run_life(name, note, say)
    return [f"{number:3} {text}" for text, number in sorted(found.items())]


def rows_of(request: Mapping[str, Any]) -> Iterator[str]:
    """Yield the rows, by kind, and the messages of a request."""
    for item in request.get("TransactItems", ()):
        for action, change in item.items():
            yield from (f"{action} {row}" for row in rows_of(change))
    for some in request.get("RequestItems", {}).values():
        reads = "Keys" in some
        keys = some["Keys"] if reads else [one["DeleteRequest"]["Key"] for one in some]
        verb = "" if reads else "Delete "
        yield from (f"{verb}{kind_of(k['pk']['S'], k['sk']['S'])}" for k in keys)
    for statement in request.get("Statements", ()):
        pk, sk = statement["Parameters"][:2]
        yield f"Insert {kind_of(pk['S'], sk['S'])}"
    for key in request.get("Key", ""), request.get("Item", ""):
        if isinstance(key, dict):
            said = (written(request, name) for name in ("event", "status", ":to"))
            yield kind_of(key["pk"]["S"], key["sk"]["S"]) + "".join(said)
    if "/certificate/" in request["Key"] if "Body" in request else False:
        yield describe(Certificate.model_validate_json(request["Body"]))
    if "KeyConditionExpression" in request:
        values = request["ExpressionAttributeValues"].values()
        yield kind_of(*(value.get("S", "") for value in values))
    for entry in request.get("Entries", ()):
        at_once = entry.get("VisibilityTimeout") == 0
        yield "message, visible at once" if at_once else "message"


def written(request: Mapping[str, Any], name: str) -> str:
    """Return the word that a request writes as an attribute, after a space."""
    new = {**request.get("Item", {}), **request.get("ExpressionAttributeValues", {})}
    value = new.get(name, new.get(f":{name}", {})).get("S", "")
    return f" {value}" if value.replace(" ", "").isalpha() else ""


def describe(certificate: Certificate) -> str:
    """Return what a certificate says of its job, without times and sums."""
    missing = [(e.chunk, e.status, e.error_code) for e in certificate.missing[:3]]
    facts = certificate.status, len(certificate.results), missing
    return " ".join(map(str, [*facts, certificate.compensations, certificate.stopped]))


def kind_of(*texts: str) -> str:
    """Return the words of a key, without the names, times and numbers in it."""
    return " ".join(re.findall("[A-Z]{2,}", "#".join(texts)))


@pytest.mark.parametrize("name", ALL)
def test_a_job_makes_the_requests_of_the_record(name: str) -> None:
    recorded = RECORD.read_text().split(f"[{name}]\n")[1].partition("\n\n")[0]
    assert recorded.rstrip().splitlines() == lines_of(name)


if __name__ == "__main__":
    parts = ["\n".join([f"[{name}]", *lines_of(name)]) for name in ALL]
    RECORD.write_text("\n\n".join(parts) + "\n")
