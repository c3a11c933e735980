"""A chunk, as it is read from its row.

`Chunk.read` checks what every reader needs. A property checks its attribute when it is
read, so that a claim pays only for what it uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from piecework.domain import keys, records
from piecework.domain.call_usage import CallUsage
from piecework.domain.refs import ChunkRef
from piecework.domain.states import ChunkStatus

#: Attributes that no document shows.
HIDDEN = frozenset({"pk", "sk", "v", "claim_token", "value"})
#: Claims that a chunk remembers: more would make each later write of its row dearer.
MAX_HISTORY = 10
#: The counters of a chunk's item.
COUNTS = frozenset(
    {
        "attempts",
        "breaker_deferrals",
        "budget_deferrals",
        "deferrals",
        "early_deferrals",
        "exhaustions",
        "failed_probes",
        "fence",
        "outages",
        "recoveries",
        "releases",
        "renewals",
        "stage_deferrals",
        "takeovers",
    }
)
STATUSES: Mapping[str, ChunkStatus] = {str(each): each for each in ChunkStatus}


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk, read from its item."""

    ref: ChunkRef
    status: ChunkStatus
    gen: int
    fence: int
    item: Mapping[str, Any]

    @classmethod
    def read(cls, ref: ChunkRef, item: Mapping[str, Any]) -> Chunk:
        """Read an item.

        Raises:
            PermanentError: `runtime.record.unreadable`.
        """
        status, gen = STATUSES.get(str(item.get("status"))), item.get("gen")
        counts = [item[name] for name in COUNTS if name in item]
        odd = [n for n in counts if type(n) is not int or not 0 <= n <= records.MAX_INT]
        if status and not odd and type(gen) is int and 1 <= gen <= keys.MAX_GENERATION:
            return cls(ref, status, gen, item.get("fence", 0), item)
        what = f"The record of chunk {ref}"
        for name in COUNTS & item.keys():
            records.read_int(item, name, what)
        status = records.read_status(item, ChunkStatus, what)
        gen = records.read_int(item, "gen", what, 1, keys.MAX_GENERATION)
        return cls(ref, status, gen, item.get("fence", 0), item)

    def to_reopen(self) -> Chunk:
        """Return it with only the attributes that a reopening reads, to save memory."""
        read = {"stage", "resume_at", "blocked_by", "error_code", "history", "attempts"}
        read |= {"claimed_at", "ended_at", "ended_by", "gen"}
        names = read & self.item.keys()
        return replace(self, item={name: self.item[name] for name in names})

    @property
    def stage(self) -> str:
        """The stage that it is at; every stage before it is complete."""
        return self._text("stage")

    @property
    def resume_at(self) -> str:
        """The stage at which it continues when it is reopened."""
        return self._optional("resume_at") or self.stage

    @property
    def label(self) -> str:
        """The label that the submit gave it; empty: it has none."""
        return records.read_optional_text(self.item, "label") or ""

    @property
    def payload(self) -> str:
        """The place of its payload."""
        return self._text("payload")

    @property
    def payload_sha256(self) -> str:
        """The hash of its payload."""
        return self._text("payload_sha256")

    @property
    def claimed_by(self) -> str:
        """Its owner; empty: it has none."""
        return self._optional("claimed_by")

    @property
    def claimed_at(self) -> str:
        """When it was claimed last; empty: never."""
        return self._optional("claimed_at")

    @property
    def started_at(self) -> str:
        """When its present or last stage started; empty: it was never claimed."""
        return self._optional("started_at")

    @property
    def claim_expires_at(self) -> str:
        """When its lease expires unless it is renewed; empty: it has no owner."""
        return self._optional("claim_expires_at")

    @property
    def retry_at(self) -> str:
        """When it may be claimed again; empty: at once."""
        return self._optional("retry_at")

    @property
    def blocked_on(self) -> str:
        """What it waits for: a dependency, or a cause such as `pause`; empty: none."""
        return self._optional("blocked_on")

    @property
    def order_key(self) -> str:
        """The hash of its order key; empty: it has none, and waits for no chunk."""
        return self._optional("order_key")

    @property
    def blocked_by(self) -> int | None:
        """The chunk before it in its order key, until that has settled; else None."""
        return self._optional_count("blocked_by")

    @property
    def followed_by(self) -> int | None:
        """The next chunk of its order key; None: it is the last one, or has no key."""
        return self._optional_count("followed_by")

    @property
    def is_skipped(self) -> bool:
        """Whether an operator discarded its dead letter, so that its key goes on."""
        return "skipped_at" in self.item

    @property
    def redispatch_at(self) -> str:
        """When the reconciler sends its message again; empty: no time is set."""
        return self._optional("redispatch_at")

    @property
    def due_at(self) -> str:
        """Its time in the index of long waits; empty: it is not in the index."""
        return self._optional("due_at")

    @property
    def question(self) -> str:
        """The question that its stage waits for; empty: it waits for none."""
        return self._optional("question")

    @property
    def lease_released_at(self) -> str:
        """When a worker or the reconciler released its expired lease.

        Empty: never, or a later claim has settled.
        """
        return self._optional("lease_released_at")

    @property
    def is_cancel_requested(self) -> bool:
        """Whether a cancel requests it to stop."""
        return "cancel_requested_at" in self.item

    @property
    def ended_at(self) -> str:
        """When it ended; empty: it has not ended."""
        return self._optional("ended_at")

    @property
    def ended_by(self) -> str:
        """The worker that ended it; empty: it has not ended, or no worker did."""
        return self._optional("ended_by")

    @property
    def history(self) -> list[dict[str, Any]]:
        """Its earlier claims, the last `MAX_HISTORY`; the oldest first.

        Each has `gen`, `attempt`, `worker`, `from`, `to` and `end`. If known, it has
        `code`, the `until` of the wait, and what the chunk was `blocked_on`.
        """
        found = self.item.get("history", ())
        return [dict(entry) for entry in found if isinstance(entry, Mapping)]

    @property
    def failures(self) -> list[dict[str, Any]]:
        """The earlier claims of this generation that ended with a retry."""
        gen = self.item.get("gen")
        mine = (entry for entry in self.history if entry.get("gen") == gen)
        return [entry for entry in mine if entry.get("end") == "retry"]

    def history_with(
        self, worker: str, to: str, end: str, **more: str
    ) -> list[dict[str, Any]]:
        """Return the history with the last claim, before the chunk is claimed again."""
        entry = {
            "gen": self.item.get("gen", 0),
            "attempt": self.attempts,
            "worker": worker,
            "from": self.claimed_at,
            "to": to,
            "end": end,
            **more,
        }
        known = {name: value for name, value in entry.items() if value != ""}
        return [*self.history, known][-MAX_HISTORY:]

    @property
    def error_code(self) -> str:
        """The code of its last error; empty: it has none."""
        return records.read_optional_text(self.item, "error_code") or ""

    @property
    def result_sha256(self) -> str:
        """The hash of its result; empty: it has none yet."""
        return self._optional("result_sha256")

    @property
    def attempts(self) -> int:
        """The attempts so far, without those that were refunded."""
        return int(self.item.get("attempts", 0))

    @property
    def deferrals(self) -> int:
        """How often it was deferred."""
        return int(self.item.get("deferrals", 0))

    @property
    def breaker_deferrals(self) -> int:
        """Deferrals among these for an open breaker."""
        return int(self.item.get("breaker_deferrals", 0))

    @property
    def breaker_since(self) -> str:
        """When an open breaker deferred it first since its last progress; or empty."""
        return self._optional("breaker_since")

    @property
    def budget_deferrals(self) -> int:
        """Deferrals among these for an exhausted retry budget."""
        return int(self.item.get("budget_deferrals", 0))

    @property
    def early_deferrals(self) -> int:
        """Deferrals among these because earlier numbers of a stream were missing."""
        return int(self.item.get("early_deferrals", 0))

    @property
    def stage_deferrals(self) -> int:
        """Deferrals among these because the worker's pipeline lacked the stage."""
        return int(self.item.get("stage_deferrals", 0))

    @property
    def failed_probes(self) -> int:
        """How many probes of open breakers failed in its claims."""
        return int(self.item.get("failed_probes", 0))

    @property
    def outages(self) -> int:
        """How often it was deferred because AWS did not answer or refused."""
        return int(self.item.get("outages", 0))

    @property
    def exhaustions(self) -> int:
        """How often it was deferred because its worker lacked what a process needs."""
        return int(self.item.get("exhaustions", 0))

    @property
    def recoveries(self) -> int:
        """How often it was claimed for recovery."""
        return int(self.item.get("recoveries", 0))

    @property
    def releases(self) -> int:
        """How often a stopping worker released it."""
        return int(self.item.get("releases", 0))

    @property
    def takeovers(self) -> int:
        """How often its lease expired, and the next claim took it over."""
        return int(self.item.get("takeovers", 0))

    @property
    def redispatches(self) -> int:
        """How often the reconciler sent its message again since its last claim."""
        return self._count("redispatches")

    @property
    def calls(self) -> int:
        """The calls that a dependency answered."""
        return self._count("calls")

    @property
    def cached_calls(self) -> int:
        """The calls that the shared cache or an equal call answered."""
        return self._count("cached_calls")

    @property
    def calls_after_cancel(self) -> int:
        """The calls that ended after the cancel request."""
        return self._count("calls_after_cancel")

    @property
    def call_usage(self) -> CallUsage:
        """What the calls of its settled claims used."""
        return CallUsage.read(self.item.get("call_usage"))

    @property
    def lost_fences(self) -> frozenset[int]:
        """The claims that never settled: their leases expired."""
        found = self.item.get("lost_fences")
        return frozenset(found) if isinstance(found, set) else frozenset()

    @property
    def lost_at(self) -> str:
        """The stage of the last claim whose lease expired; empty: no lease did."""
        return self._optional("lost_at")

    @property
    def pivot_untried_fence(self) -> int | None:
        """The claim that ended at the pivot before it tried anything there."""
        return records.read_optional_int(self.item, "pivot_untried_fence")

    @property
    def has_patched_payload(self) -> bool:
        """Whether a redrive replaced its payload."""
        return "patched_in_gen" in self.item

    @property
    def compensation(self) -> str:
        """The result of its compensation; empty: it has none."""
        return self._optional("compensation")

    @property
    def direction(self) -> str:
        """`compensating`, `forward` or `pivot`; empty: it may still be cancelled."""
        return self._optional("direction")

    @property
    def has_direction(self) -> bool:
        """Whether its direction is decided, so that no further cancel counts."""
        return "direction" in self.item

    @property
    def compensate_requested(self) -> bool:
        """Whether a cancel requests its compensation."""
        return "compensate_requested" in self.item

    @property
    def renewal_mark(self) -> tuple[int, int]:
        """Fence and renewals: a pair that changes while the lease's worker lives."""
        return self.fence, int(self.item.get("renewals", 0))

    @property
    def facts(self) -> dict[str, Any]:
        """Its attributes as a document, without keys, result and claim token."""
        shown = {n: v for n, v in self.item.items() if n not in HIDDEN}
        name = {"job": self.ref.job, "chunk": self.ref.chunk}
        return {**name, "label": self.label, **shown}

    def _text(self, name: str) -> str:
        found = self.item.get(name)
        if isinstance(found, str):  # before the message is built: claims read this
            return found
        return records.read_text(self.item, name, f"The record of chunk {self.ref}")

    def _optional(self, name: str) -> str:
        return self._text(name) if name in self.item else ""

    def _optional_count(self, name: str) -> int | None:
        return self._count(name) if name in self.item else None

    def _count(self, name: str) -> int:
        if name not in self.item:
            return 0
        return records.read_int(self.item, name, f"The record of chunk {self.ref}")
