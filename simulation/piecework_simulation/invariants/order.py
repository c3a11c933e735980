"""Check that the chunks of an order key run one after another, in their order.

The numbers of the chunks are the order of the input. The checks use only them and the
key: not `blocked_by` and `followed_by`, by which the code keeps the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from piecework.domain.model import ChunkStatus

if TYPE_CHECKING:
    from piecework_simulation.invariants.chunk_invariants import ChunkInvariants

Item = Mapping[str, Any]


def order_violations(
    old: Item | None, new: Item, chunks: Iterable[ChunkInvariants]
) -> Iterator[str]:
    """Yield how a write to a chunk of a job breaks the order of its key.

    `chunks`: the chunks of the job.
    """
    if "order_key" not in new or old is None:
        return
    others = [c.item for c in chunks if c.item.get("order_key") == new["order_key"]]
    if new["fence"] > old["fence"]:
        yield from early_claims(new, others)
    if new["gen"] > old["gen"] and "skipped_at" in old:
        yield "was reopened after it was skipped"
    moved = {
        name for name in ("order_key", "followed_by") if old.get(name) != new.get(name)
    }
    if moved:
        yield f"changed {sorted(moved)}"


def early_claims(new: Item, others: Iterable[Item]) -> Iterator[str]:
    """Yield the chunks of the key that keep a chunk from being claimed."""
    for other in others:
        number, status = other["chunk"], other["status"]
        if number < new["chunk"] and not has_settled(other):
            yield f"was claimed while {number} before it is {status}"
        if number != new["chunk"] and status == ChunkStatus.RUNNING:
            yield f"was claimed while {number} of its key runs"
        if number > new["chunk"] and other["fence"] > 0:
            yield f"was claimed after {number} behind it"


def has_settled(item: Item) -> bool:
    """Return whether a chunk has a result, or an operator has skipped it."""
    return item["status"] == ChunkStatus.SUCCEEDED or "skipped_at" in item
