"""Check that each answer of a batch is booked once, and that no request is forgotten.

The provider tells which rows it has billed, in which batch. What Piecework has booked
is what the chunks say. A batch whose id Piecework has noted is told; the rows of
another one, and those of an output that the provider has deleted, are possibly paid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

from piecework.domain import keys
from piecework.domain.call_usage import CallUsage
from piecework.domain.moments import moment
from piecework.domain.states import ChunkStatus
from piecework.store.serialization import from_item
from piecework_simulation.aws.dynamodb import Change
from piecework_simulation.provider import TIER_NANO_USD

if TYPE_CHECKING:
    from piecework_simulation.batch_provider import BatchService
    from piecework_simulation.provider import ChunkKey

Item = Mapping[str, Any]
#: The part of the key of a partition that holds the batches of a model.
BATCHES = "#BATCHES#"
#: The end of the lines of a bill about batches.
LINE = " batch"


@dataclass(slots=True)
class BatchInvariants:
    """The requests and the batches that are open, by their keys.

    Attributes:
        known: The batches whose ids Piecework has noted.
        collectors: When the next pass of each collector is due.
    """

    report_violation: Callable[[str], None]
    requests: dict[tuple[str, str], Item] = field(default_factory=dict)
    open: set[tuple[str, str]] = field(default_factory=set)
    known: set[str] = field(default_factory=set)
    collectors: dict[str, str] = field(default_factory=dict)

    def next_pass_at(self) -> float:
        """Return when the next pass of a collector is due; infinite: no pass is due."""
        return min((moment(at) for at in self.collectors.values() if at), default=inf)

    @staticmethod
    def concerns(change: Change) -> bool:
        """Return whether a write is about requests, batches or their collectors."""
        is_collector = change.sk.startswith(keys.COLLECTOR_PREFIX)
        return is_collector or BATCHES in change.pk or "#BATCH#" in change.sk

    def check_write(self, change: Change) -> None:
        """Check a write to a request, and note what is open."""
        place, new = (change.pk, change.sk), from_item(change.new or {})
        if change.sk.startswith(keys.COLLECTOR_PREFIX):
            self.collectors[change.sk] = new.get("next_at", "")
            return
        if BATCHES in change.pk:
            if change.sk.startswith((keys.ASKED_PREFIX, keys.BATCH_PREFIX)):
                (self.open.add if new else self.open.discard)(place)
            if new and new.get("batch"):
                self.known.add(new["batch"])
            return
        if not new:
            self.requests.pop(place, None)
            return
        old = self.requests.get(place)
        if old is not None and old["state"] != "OPEN":
            self.report_violation(f"I34: {place} left {old['state']}")
        self.requests[place] = new

    def check_claims(self, change: Change, chunk: Item | None) -> None:
        """Check that the claim which made a request has ended with it."""
        new = self.requests.get((change.pk, change.sk))
        if new is None or change.old or chunk is None:
            return
        if chunk["status"] == ChunkStatus.RUNNING and chunk["fence"] == new["fence"]:
            self.report_violation(f"I35: {change.pk} {change.sk} waits with a worker")

    def check_end(self) -> None:
        """Check that each request is closed."""
        for place, item in self.requests.items():
            if item["state"] == "OPEN":
                self.report_violation(f"I35: the request {place} is open for ever")

    def check_book(
        self, chunks: Mapping[ChunkKey, Item], service: BatchService
    ) -> None:
        """Compare what the chunks have booked with the provider's book."""
        for chunk, (told, untold) in service.book(self.known).items():
            if chunk not in chunks:
                continue
            usage = CallUsage.read(chunks[chunk].get("batch_usage"))
            (calls, nano), (perhaps, _) = (
                booked(usage, kind) for kind in ("paid", "possibly_paid")
            )
            name = "{}/{}/{}".format(*chunk)
            if (calls, nano) != (told, told * TIER_NANO_USD["batch"]):
                text = f"I34: {name} booked {calls} answers for {nano} of {told}"
                self.report_violation(text)
            if perhaps < untold:
                text = f"I34: {name} has {perhaps} of {untold} answers in doubt"
                self.report_violation(text)


def booked(usage: CallUsage, kind: Any) -> tuple[int, int]:
    """Return the calls and the nano-dollars of all lines about batches."""
    lines = [n for name, n in usage.models(kind).items() if name.endswith(LINE)]
    return sum(n["calls"] for n in lines), sum(n["nano_usd"] for n in lines)
