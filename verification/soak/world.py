"""The tables as they stood just before a record: what a rule judges it against."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from piecework.domain import keys
from piecework.domain.states import ChunkStatus, JobStatus
from verification.soak.record import Ack, Change, Effect, Item, Limits, LogEvent

NOTHING: Item = {}
CHUNK_ENDED = {status.value for status in ChunkStatus if status.ended}
JOB_ENDED = {status.value for status in JobStatus if status.ended}


@dataclass(slots=True)
class World:
    """Everything that was recorded so far.

    Attributes:
        renewed_at: When the owner of a chunk last renewed its lease.
        intents: The effects that were intended, by the key that the provider sees.
        effects: How often each key took effect, by operation, job and chunk.
        completions: The generations in which each chunk succeeded.
        completions_said: How often workers logged that success.
        settled: The ends of claims on record, by job, chunk, fence.
    """

    limits: Limits
    items: dict[tuple[str, str], Item] = field(default_factory=dict)
    chunks: dict[str, dict[int, Item]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    work: dict[tuple[str, int], dict[str, Item]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    renewed_at: dict[tuple[str, int], float] = field(default_factory=dict)
    intents: set[str] = field(default_factory=set)
    effects: dict[tuple[str, str, int], Counter[str]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    settled: set[tuple[str, int, int, str]] = field(default_factory=set)
    completions: dict[tuple[str, int], set[int]] = field(
        default_factory=lambda: defaultdict(set)
    )
    completions_said: Counter[tuple[str, int]] = field(default_factory=Counter)

    def old(self, change: Change) -> Item | None:
        """Return the item that a change is about to replace."""
        return self.items.get((change.pk, change.sk))

    def meta(self, job: str) -> Item:
        """Return the job's own item."""
        pk = keys.job_pk(self.limits.tenant, job)
        return self.items.get((pk, keys.META_SK), NOTHING)

    def chunk(self, job: str, number: int | None) -> Item:
        """Return a chunk's item."""
        return self.chunks[job].get(-2 if number is None else number, NOTHING)

    def pipeline(self, job: str) -> tuple[tuple[str, ...], int]:
        """Return the stages of a job's pipeline and the position of its pivot."""
        return self.limits.stages[self.meta(job)["pipeline"]]

    def rows(self, change: Change, kind: str) -> list[Item]:
        """Return the rows of a kind that belong to the chunk of a change."""
        prefix = f"{keys.work_prefix(change.chunk or 0)}{kind}#"
        rows = self.work[change.job, change.chunk or 0]
        return [item for sk, item in rows.items() if sk.startswith(prefix)]

    def take(self, record: Change | Effect | Ack | LogEvent) -> None:
        """Let a record, judged by now, have happened."""
        match record:
            case Change():
                self._change(record)
            case Effect(what=what, op=op, job=job, chunk=n, key=key) if what != "call":
                self.effects[op, job, n][key] += 1
            case LogEvent(event="chunk.succeeded", fields=fields):
                self.completions_said[fields["job"], fields["chunk"]] += 1

    def _change(self, change: Change) -> None:
        if change.kind == "CHUNK" and change.new is not None:
            self._chunk(change, change.new)
        row = change.new if change.kind == "EFFECT" else None
        if row is not None and row["state"] == "INTENT":
            self.intents.add(keys.provider_key(row["effect_key"], int(row["gen"])))
        if change.kind in {"EFFECT", "COMPENSATED", "STAGE"} and change.new is not None:
            self.work[change.job, change.chunk or 0][change.sk] = change.new
        if change.new is None:
            self.items.pop((change.pk, change.sk), None)
        else:
            self.items[change.pk, change.sk] = change.new

    def _chunk(self, change: Change, new: Item) -> None:
        job, number = change.job, change.chunk or 0
        old = self.old(change) or NOTHING
        fence = int(new.get("fence", 0))
        if (old.get("fence"), old.get("renewals")) != (fence, new.get("renewals")):
            self.renewed_at[job, number] = change.at
        if old.get("status") == "RUNNING" and new["status"] != "RUNNING":
            self.settled.add((job, number, fence, new["status"]))
        if new["status"] == "SUCCEEDED" and old.get("status") != "SUCCEEDED":
            self.completions[job, number].add(new["gen"])
        self.chunks[job][number] = new


def is_claim(old: Item, new: Item) -> bool:
    """Return whether a write to a chunk claimed it."""
    return new["status"] == "RUNNING" and (
        old.get("status") != "RUNNING"
        or new.get("claim_token") != old.get("claim_token")
    )


#: A rule says what is wrong with a record, given all that was before it.
Rule: TypeAlias = Callable[[World, Any], Iterator[str]]
