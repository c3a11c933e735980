"""No item that many chunks or processes share is part of a transaction on a hot path.

AWS refuses one of two requests on an item of a transaction at a time. The lives of
`requests.txt` are run again. Their transactions tell which items several processes, or
transactions about several chunks, touch. Each such item must be in a list below, with
a reason, and with the bound on the transactions that may meet there.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, TypeAlias

from piecework_simulation.engine.network import Exchange
from tests.simulation.lives import ALL, run_life
from tests.simulation.test_requests import kind_of

#: An item: its table and its key. A touch: the process, and the chunks it is about.
Place: TypeAlias = tuple[str, str, str]
Touch: TypeAlias = tuple[str, frozenset[Place]]

SINGLE = {"update_item", "put_item", "delete_item"}
#: Rows of one chunk or one join. Only its owner writes them, after a claim; a sweep, a
#: reconciler or an operator may meet it there once. The tasks of the owner take turns
#: (`piecework.store.turns`).
OF_ONE_CHUNK = re.compile(r"CHUNK|JOIN|^WORK|^WAIT$|^RESULT")
#: Rows that many transactions may touch: why, and how many may meet.
SHARED = {
    "META": "transitions, acts and events of one job: a few in its life",
    "ACTIVE": "the mark of one job: at its birth, its end, its retry, its deletion",
    "ACTIVE BACKLOG": "the mark of one job: its end alone is a transaction",
    "ACTIVE OUTBOX": "one of a tenant: an event for a webhook, not a chunk, writes it",
    "ACTIVE PIPELINE": "the pause of a pipeline by an operator",
    "ACTIVE WATCH": "the change of a webhook by an operator",
    "ALARM": "one of a pipeline, each some minutes",
    "BREAKERS": "a breaker that opens or closes, once in a change",
    "BREAKERS BUDGET": "the pause of a job at the daily cap of its tenant",
    "BUDGET": "the pause of a job at its cap",
    "EXPIRY": "the entry of one job",
    "NOTIFICATION": "one of an event of a job; a process claims it before it acts",
    "OUTBOX DELIVERY": "one of an event; a process claims it before it sends",
    "OUTBOX DUE": "one of a delivery",
    "OUTBOX OCCASION": "one of a state that lasts, each some minutes",
    "PIPELINES": "the pause of a pipeline by an operator",
}
#: Transactions that each chunk may make at a row of `SHARED`: why, and the bound.
A_CHUNK_EACH = {
    "ConditionCheck META, Update CHUNK": "a retry reopens one chunk after another",
    "ConditionCheck META, Delete OPEN CHUNK GEN, Update CHUNK, Update CHUNK GEN": (
        "a redrive reopens one chunk after another"
    ),
}


def test_each_shared_item_of_a_transaction_has_a_reason_and_a_bound() -> None:
    shared, each = set(), set()
    for name in ALL:
        for kind, label in shared_items(name):
            shared.add(kind)
            if "CHUNK" in label:
                each.add(label)
    assert shared - set(SHARED) == set()
    assert each - set(A_CHUNK_EACH) == set()
    # What no life shows any more leaves the lists.
    assert set(SHARED) - shared == set()
    assert set(A_CHUNK_EACH) - each == set()


def test_births_and_steps_of_a_chunk_share_nothing() -> None:
    """They are most of the writes of a job."""
    shared = {label for name in ALL for _, label in shared_items(name)}
    assert not [label for label in shared if "Put CHUNK" in label.split(", ")]
    assert not [label for label in shared if "WORK EFFECT" in label]
    assert not [label for label in shared if "WORK STAGE" in label]


@cache
def shared_items(name: str) -> set[tuple[str, str]]:
    """Return the kinds of the shared items of a life, with the kinds of the writes."""
    touches: dict[Place, set[Touch]] = defaultdict(set)
    labels: dict[Place, set[str]] = defaultdict(set)

    def note(when: str, exchange: Exchange) -> None:
        if when != "applied":
            return
        who = exchange.client.process.name
        if exchange.operation in SINGLE:
            touches[place_of(exchange.request)].add((who, frozenset()))
        elif exchange.operation == "transact_write_items":
            writes = list(writes_of(exchange.request))
            about = frozenset(p for _, p in writes if kind_of(*p[1:]) == "CHUNK")
            label = ", ".join(
                sorted({f"{verb} {kind_of(*p[1:])}" for verb, p in writes})
            )
            for _, place in writes:
                touches[place].add((who, about))
                labels[place].add(label)

    run_life(name, note, lambda _: None)
    found = set()
    for place, written in labels.items():
        kind = kind_of(*place[1:])
        processes = {who for who, _ in touches[place]}
        chunks = {about for _, about in touches[place] if about}
        if not OF_ONE_CHUNK.search(kind) and (len(processes) > 1 or len(chunks) > 1):
            found |= {(kind, label) for label in written}
    return found


def writes_of(request: Mapping[str, Any]) -> Iterator[tuple[str, Place]]:
    """Yield the verb and the item of each write of a transaction."""
    for action in request["TransactItems"]:
        for verb, write in action.items():
            yield verb, place_of(write)


def place_of(write: Mapping[str, Any]) -> Place:
    """Return the item of a write."""
    key = write.get("Key") or write["Item"]
    return write["TableName"], key["pk"]["S"], key["sk"]["S"]
