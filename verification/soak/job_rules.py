"""What may be written to a job, beyond what the simulator's invariants say of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from piecework.domain import keys
from verification.soak.record import Change, Item
from verification.soak.world import CHUNK_ENDED, JOB_ENDED, NOTHING, Rule, World

#: What "all" means never changes.
FACTS = ("pipeline", "chunks", "manifest", "manifest_sha256")


def generation_rises(world: World, change: Change) -> Iterator[str]:
    """I4: by one with each reopening, and at no other time."""
    old, new = world.old(change), change.new
    if old is None or new is None:
        return
    reopened = new["status"] == "REOPENING" and old["status"] != "REOPENING"
    if new["gen"] != old["gen"] + reopened:
        yield f"generation {old['gen']} -> {new['gen']} on its way to {new['status']}"


def facts_do_not_change(world: World, change: Change) -> Iterator[str]:
    """I1: no process changes the facts of a job."""
    old, new = world.old(change), change.new
    if old is None or new is None:
        return
    changed = [name for name in FACTS if old.get(name) != new.get(name)]
    if changed:
        yield f"other {', '.join(changed)}"


def job_ends_after_its_chunks(world: World, change: Change) -> Iterator[str]:
    """I12: a job ends, or comes to its join, when every chunk has ended."""
    new = change.new or NOTHING
    if not becomes(world, change, {"FINALIZING", *JOB_ENDED}):
        return
    chunks = plain_chunks(world, change)
    alive = [
        number for number, item in chunks.items() if item["status"] not in CHUNK_ENDED
    ]
    if alive:
        yield f"{new['status']} while chunk {min(alive)} is open"
    cancelled = new["status"] == "CANCELLED"  # its submit may have been cut off
    if len(chunks) != new["chunks"] and not cancelled:
        yield f"{new['status']} with {len(chunks)} chunks of {new['chunks']}"


def job_counts_its_chunks(world: World, change: Change) -> Iterator[str]:
    """I12, I15: its status and its counts are those of its chunks."""
    new = change.new or NOTHING
    if not becomes(world, change, JOB_ENDED):
        return
    counts = Counter(item["status"] for item in plain_chunks(world, change).values())
    told = Counter({str(name): int(n) for name, n in new.get("outcomes", {}).items()})
    if new["status"] == "CANCELLED":
        told["CANCELLED"] -= new["chunks"] - counts.total()  # never written
    if +told != counts:
        yield f"stores {dict(told)}, and has {dict(counts)}"
    succeeded = counts["SUCCEEDED"]
    if new["status"] == "SUCCEEDED" and succeeded != new["chunks"]:
        yield f"SUCCEEDED with {succeeded} of {new['chunks']}"
    if new["status"] == "PARTIAL" and not 0 < succeeded < new["chunks"]:
        yield f"PARTIAL with {succeeded} of {new['chunks']}"


def becomes(world: World, change: Change, statuses: set[str]) -> bool:
    """Return whether the job comes into one of these states."""
    old, new = world.old(change) or NOTHING, change.new or NOTHING
    return new.get("status") in statuses and old.get("status") != new.get("status")


def plain_chunks(world: World, change: Change) -> dict[int, Item]:
    """Return the job's chunks, without its join."""
    chunks = world.chunks[change.job]
    return {n: item for n, item in chunks.items() if n != keys.JOIN_CHUNK}


JOB_RULES: dict[str, tuple[str, Rule]] = {
    "generation-rises": ("I4", generation_rises),
    "facts-do-not-change": ("I1", facts_do_not_change),
    "job-ends-after-its-chunks": ("I12", job_ends_after_its_chunks),
    "job-counts-its-chunks": ("I15", job_counts_its_chunks),
}
