"""The conditional writes that acquire and renew the claim on a chunk.

A claim gives a chunk an owner, a lease and a new fence. The condition of a claim names
the previous fence, so a request that arrives late starts nothing. Every later write
compares all of `status, gen, fence, claim_token`. So a worker that was paused,
disconnected or declared dead cannot write. Safety never depends on a clock: clocks only
decide when a worker may *try* to release an expired lease.

No claim takes a RUNNING chunk: `Takeovers.release_expired` releases it first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from piecework.domain.call_usage import CallUsage
from piecework.domain.chunk import Chunk
from piecework.domain.claim import (
    RECHECK_S,
    Busy,
    Claim,
    FenceMismatch,
    Refusal,
    explain_refusal,
)
from piecework.domain.moments import iso
from piecework.domain.protocols import CancelRequest
from piecework.domain.refs import ChunkRef
from piecework.domain.schema import SCHEMA
from piecework.domain.states import ChunkStatus
from piecework.settings import Settings
from piecework.store.table import Refused, Table, Written

# ── the clauses of the conditions ───────────────────────────────────────────

#: Without it the update of a stray message would create a chunk.
EXISTS = "attribute_exists(pk)"
#: A message of an earlier generation starts nothing.
THIS_GEN = "gen = :gen"
#: A worker does not continue a chunk that a newer version has written.
KNOWN = "v <= :schema"
#: The claim counts the attempt before the work, so a chunk that kills its worker is
#: counted too.
ATTEMPTS_LEFT = "attempts < :max_attempts"
ATTEMPTS_SPENT = "attempts >= :max_attempts"
#: A cancel is decided here, on the chunk: the job's item would be a hot key. A chunk
#: that compensates, or is past its pivot, is not cancelled: it runs to its end.
HAS_DIRECTION = "attribute_exists(direction)"
NOT_CANCELLED = f"(attribute_not_exists(cancel_requested_at) OR {HAS_DIRECTION})"
#: The chunk has no owner, and its delay is over. An ended chunk is never open again.
OPEN = "#status IN (:pending, :waiting)"
DUE = "(attribute_not_exists(retry_at) OR retry_at <= :now)"
#: No earlier chunk of its order key blocks it.
NOT_BLOCKED = "attribute_not_exists(blocked_by)"
#: The SDK resends a request when the answer is lost. A copy may arrive after that claim
#: has ended. Without this clause it would start a claim that no worker has.
NO_CLAIM_SINCE = "fence = :last"
#: This claim still owns the chunk.
OWNED = "#status = :running AND gen = :gen AND fence = :fence AND claim_token = :token"
#: The renewal follows the last one that the owner knows. A late copy of an earlier
#: renewal would shorten the lease, and a live owner would lose its chunk.
NEXT_RENEWAL = "renewals = :seen"

CLAIM = (
    f"{EXISTS} AND {THIS_GEN} AND {NO_CLAIM_SINCE} AND {KNOWN} AND {ATTEMPTS_LEFT}"
    f" AND {NOT_CANCELLED} AND {OPEN} AND {DUE} AND {NOT_BLOCKED}"
)
RECOVER = (
    f"{EXISTS} AND {THIS_GEN} AND {NO_CLAIM_SINCE} AND {KNOWN} AND {ATTEMPTS_SPENT}"
    f" AND {NOT_CANCELLED} AND {OPEN} AND {DUE} AND {NOT_BLOCKED}"
)
SET_OWNER = (
    "SET v = :schema, #status = :running, claimed_by = :worker, claim_token = :token,"
    " claim_expires_at = :expires, claimed_at = :now, started_at = :now,"
    " receive_count = :receive_count, renewals = :zero, code_version = :code_version"
)
#: What a wait has left on the chunk.
WAIT = "retry_at, blocked_on, due_at, question, child"
START_ATTEMPT = f"{SET_OWNER} ADD fence :one, attempts :one REMOVE {WAIT}"
START_RECOVERY = f"{SET_OWNER} ADD fence :one, recoveries :one REMOVE {WAIT}"


@dataclass(frozen=True, slots=True)
class Renewed:
    """The lease was renewed.

    Attributes:
        renewals: How often the claim has been renewed.
        cancel: The cancel request that the chunk has, if any.
    """

    renewals: int
    cancel: CancelRequest | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """Another claim owns the chunk now, or the chunk has ended."""


@dataclass(slots=True)
class Claims:
    """The claims of one worker."""

    table: Table
    settings: Settings
    worker: str
    clock: Callable[[], float]
    rng: Random

    async def acquire(
        self,
        ref: ChunkRef,
        *,
        gen: int,
        receive_count: int,
        last: int = 0,
        code_version: str = "",
    ) -> Claim | Refusal:
        """Claim a chunk for an attempt, or return why that is refused.

        `last`: the fence of the previous claim that the caller knows; 0: there was
        none. If it is wrong, a second request uses the fence that the first one read.
        `code_version`: that of the chunk's pipeline in this worker.
        """
        told = {"receive_count": receive_count, "code_version": code_version}
        for _ in range(2):
            answer = await self._acquire(ref, gen, told, last, CLAIM, START_ATTEMPT)
            if not isinstance(answer, FenceMismatch):
                return answer
            last = answer.fence
        return Busy(RECHECK_S)

    async def acquire_for_recovery(
        self,
        ref: ChunkRef,
        *,
        gen: int,
        receive_count: int,
        last: int,
        code_version: str = "",
    ) -> Claim | Refusal:
        """Claim a chunk without attempts left, to compensate and dead-letter it."""
        told = {"receive_count": receive_count, "code_version": code_version}
        answer = await self._acquire(ref, gen, told, last, RECOVER, START_RECOVERY)
        return Busy(RECHECK_S) if isinstance(answer, FenceMismatch) else answer

    async def _acquire(
        self,
        ref: ChunkRef,
        gen: int,
        told: Mapping[str, object],
        last: int,
        condition: str,
        update: str,
    ) -> Claim | Refusal | FenceMismatch:
        now, token = self.clock(), f"{self.rng.getrandbits(128):032x}"
        values = {
            "gen": gen,
            "schema": SCHEMA,
            "last": last,
            "token": token,
            "worker": self.worker,
            "now": iso(now),
            "expires": iso(now + self.settings.lease_s),
            **told,
            "max_attempts": self.settings.max_attempts,
            "pending": ChunkStatus.PENDING,
            "waiting": ChunkStatus.WAITING,
            "running": ChunkStatus.RUNNING,
            "zero": 0,
            "one": 1,
        }
        write = self.table.item_write(
            "Update",
            ref.pk,
            ref.sk,
            condition=condition,
            update=update,
            values=values,
        )
        reply = await self.table.update(write)
        # Refused by our own token: the SDK sent it twice, the first was applied, and
        # its answer was lost.
        ours = reply.item is not None and is_owned_by(reply.item, token)
        if isinstance(reply, Written) or ours:
            chunk = Chunk.read(ref, reply.item or {})
            is_recovery = condition is RECOVER
            return Claim(ref, gen, chunk.fence, token, self.worker, chunk, is_recovery)
        return explain_refusal(
            ref,
            reply.item,
            gen=gen,
            now=now,
            skew=self.settings.clock_skew_s,
            max_attempts=self.settings.max_attempts,
        )

    async def renew(
        self, claim: Claim, renewals: int, usage: CallUsage | None = None
    ) -> Renewed | Lost:
        """Extend the lease; return the cancel request of the chunk with it.

        `renewals`: the number of renewals that the owner knows. A renewal without an
        answer may have been applied: then a second write follows it. `usage`: what the
        calls of the claim used so far. Readers see it while the chunk runs; the end of
        the claim removes it, and writes what it used in all.
        """
        expires = iso(self.clock() + self.settings.lease_s)
        used = None if usage is None else usage.item
        for _ in range(2):
            item = (await self._renew_row(claim, renewals, expires, used)).item or {}
            counted = renewals_of(item, claim.token)
            if counted is None or counted == renewals:
                break
            renewals = counted
            # A refused write can be the SDK's second copy: the first one was applied,
            # and its answer was lost.
            if item.get("claim_expires_at") == expires:
                return Renewed(renewals, CancelRequest.read(item))
        return Lost()

    async def _renew_row(
        self,
        claim: Claim,
        renewals: int,
        expires: str,
        used: Mapping[str, Any] | None,
    ) -> Written | Refused:
        told = ", claim_usage = :used" if used else ""
        write = self.table.item_write(
            "Update",
            claim.ref.pk,
            claim.ref.sk,
            condition=f"{OWNED} AND {NEXT_RENEWAL}",
            update=f"SET claim_expires_at = :expires, renewals = :next{told}",
            values={
                **ownership_values(claim),
                "seen": renewals,
                "next": renewals + 1,
                "expires": expires,
                **({"used": used} if used else {}),
            },
        )
        return await self.table.update(write)


def is_owned_by(item: Mapping[str, Any], token: str) -> bool:
    """Return whether the claim with this token owns the chunk now."""
    running = item.get("status") == ChunkStatus.RUNNING
    return running and item.get("claim_token") == token


def renewals_of(item: Mapping[str, Any], token: str) -> int | None:
    """Return how often a claim was renewed; None: it has ended, or is malformed."""
    renewals = item.get("renewals")
    return renewals if is_owned_by(item, token) and type(renewals) is int else None


def ownership_values(claim: Claim) -> dict[str, Any]:
    """Return the values that `OWNED` compares."""
    return {
        "running": ChunkStatus.RUNNING,
        "gen": claim.gen,
        "fence": claim.fence,
        "token": claim.token,
    }
