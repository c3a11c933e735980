"""Check that the chunks of an order key run one after another, in their order.

The numbers of the chunks are the order of the input. The checks use only them and the
key: not `blocked_by` and `followed_by`, by which the code keeps the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from piecework.domain.outcome import STOPPED_CODE
from piecework.domain.states import ChunkStatus

if TYPE_CHECKING:
    from piecework_simulation.invariants.chunk_invariants import ChunkInvariants

Item = Mapping[str, Any]


def order_violations(
    name: str, old: Item | None, new: Item, chunks: Iterable[ChunkInvariants]
) -> Iterator[str]:
    """Yield how a write to a chunk breaks the order of its key.

    `chunks`: the chunks of its job.
    """
    if "order_key" not in new or old is None:
        return
    if old["order_key"] != new["order_key"]:
        yield f"I20: {name} moved to another order key"
    if new["gen"] > old["gen"] and "skipped_at" in old:
        yield f"I20: {name} was reopened after it was skipped"
    others = [c.item for c in chunks if c.item.get("order_key") == new["order_key"]]
    before = [each for each in others if each["chunk"] < new["chunk"]]
    ended = new["status"] == ChunkStatus.CANCELLED != old["status"]
    if ended and new.get("error_code") == STOPPED_CODE and not any(map(stops, before)):
        yield f"I20: {name} ended as stopped, and no dead letter stops it"
    if new["fence"] == old["fence"]:
        return
    for other in others:
        number, status = other["chunk"], other["status"]
        settled = status == ChunkStatus.SUCCEEDED or "skipped_at" in other
        if number < new["chunk"] and not settled:
            yield f"I20: {name} was claimed while {number} before it is {status}"
        if number > new["chunk"] and other["fence"]:
            yield f"I20: {name} was claimed after {number} behind it"


def stops(item: Item) -> bool:
    """Return whether a chunk has ended in a way that stops its key."""
    ended = item["status"] in {ChunkStatus.DEAD, ChunkStatus.CANCELLED}
    return ended and "skipped_at" not in item
