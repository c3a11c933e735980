"""The end of a claim: fenced writes, one for each outcome.

Each returns whether this claim made the write. The SDK may have sent a write twice, and
lost the first answer. So a refused write is first compared with our own fence.

All outcomes are in one file, because they share the fence and one write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from piecework.domain import keys
from piecework.domain.call_usage import CallUsage
from piecework.domain.child import LOOK_S, MOST_UNASKED, started_before
from piecework.domain.claim import Claim
from piecework.domain.moments import iso, moment
from piecework.domain.outcome import (
    ANSWER,
    BATCH,
    CHANGED_CODE,
    CHILD_JOB,
    NO_STAGE_CODE,
    PAUSE,
    STORE,
    TIMER,
    WORKER,
    Asking,
    Batching,
    Cancelled,
    DeadLettered,
    Deferred,
    Mapped,
    Paused,
    Released,
    Retry,
    Sleeping,
    leaves_queue,
)
from piecework.domain.states import ChunkStatus
from piecework.resilience.breaker import OPEN_CODE
from piecework.resilience.retry import BUDGET_CODE, EARLY_CODE
from piecework.settings import Settings
from piecework.store.batches import request_writes
from piecework.store.cancellation import cancelled_at_stage
from piecework.store.children import child_writes
from piecework.store.claims import OWNED, ownership_values
from piecework.store.dead_letters import open_mark
from piecework.store.outbox import webhooks_of
from piecework.store.questions import question_put
from piecework.store.table import ItemWrite, Refused, Table, Written
from piecework.store.waits import WaitIndex, entry

if TYPE_CHECKING:
    from piecework.errors import ErrorEnvelope

#: Notes that the claim has started no call at the pivot.
UNTRIED = ", pivot_untried_fence = :fence"
#: Clears the owner. The token stays: it identifies the last writer.
CLEAR_OWNER = "REMOVE claimed_by, claim_expires_at, claim_usage"

#: The counters of deferrals that have their own limit, by their code. `defer` sets the
#: counter of an open breaker, together with the time of the first one.
OWN_COUNTERS = {
    BUDGET_CODE: "budget_deferrals",
    NO_STAGE_CODE: "stage_deferrals",
    CHANGED_CODE: "stage_deferrals",
    EARLY_CODE: "early_deferrals",
}
#: The counters of outages, by what they block.
OUTAGE_COUNTERS = {STORE: "outages", WORKER: "exhaustions"}
#: The ends of claims that wait for something other than a breaker or another attempt.
ENDS_BREAKER_WAIT = {"paused", "sleeping", "batching", "asking", "mapping"}


@dataclass(slots=True)
class Settlements:
    """The ends of one worker's claims."""

    table: Table
    dead_letters: Table
    settings: Settings
    clock: Callable[[], float]
    waits: WaitIndex = field(init=False)

    def __post_init__(self) -> None:
        self.waits = WaitIndex(self.table, self.clock)

    async def succeed(
        self,
        claim: Claim,
        *,
        result: Mapping[str, Any],
        also: Sequence[ItemWrite] = (),
        calls: Calls,
    ) -> bool:
        """Move RUNNING -> SUCCEEDED, together with the last stage's value.

        `result`: the attributes of the result on the chunk's item. Without its `value`,
        a row in `also` has it, or it is `null`.
        """
        assignments = ", ".join(f"#{name} = :{name}" for name in result)
        update = self._end(
            claim,
            ChunkStatus.SUCCEEDED,
            assignments,
            dict(result),
            calls=calls,
            remove=", error_code",
        )
        return await self._write(claim, ChunkStatus.SUCCEEDED, [update, *also])

    async def schedule_retry(self, claim: Claim, retry: Retry, *, calls: Calls) -> bool:
        """Move RUNNING -> WAITING after a failure that spends an attempt."""
        writes = await self._wait(
            claim,
            "error_code = :code",
            {"code": retry.failure.code},
            retry.delay,
            calls,
            "retry",
        )
        error = self._error_put(claim, retry.failure)
        return await self._write(claim, ChunkStatus.WAITING, [*writes, error])

    async def defer(self, claim: Claim, deferred: Deferred, *, calls: Calls) -> bool:
        """Move RUNNING -> WAITING until a dependency, AWS or another worker is there.

        The claim's attempt (or recovery) is refunded: the chunk did not fail. For an
        outage of a dependency, the number of deferrals and the time of the first
        limit the wait (`piecework/saga/recovery.py`). `pivot_untried` is for the next
        claim. An outage of the store or the worker has its own counter: it must not use
        up the deferrals for a dependency. The error of an exhausted retry budget is in
        the same transaction: it names the failure of the dependency. That of changed
        code names the call that was about to be made.
        """
        counted = counted_as(claim)
        added = OUTAGE_COUNTERS.get(deferred.blocked_on, "deferrals")
        code = deferred.failure.code
        more = UNTRIED if deferred.pivot_untried else ""
        values = {"code": code, "dependency": deferred.blocked_on, "one": 1}
        if code == OPEN_CODE or deferred.failure.is_not_connected:
            since = "" if deferred.has_progress else claim.chunk.breaker_since
            more += ", breaker_deferrals = :waits, breaker_since = :since"
            values["waits"] = claim.chunk.breaker_deferrals + 1
            values["since"] = since or iso(self.clock())
        if own := OWN_COUNTERS.get(code):
            added += f" :one, {own}"
        if deferred.probe_failed:
            added += " :one, failed_probes"
        writes = await self._wait(
            claim,
            "error_code = :code, blocked_on = :dependency,"
            f" {counted} = {counted} - :one{more}",
            values,
            deferred.delay,
            calls,
            "deferred",
            also_added=f", {added} :one",
        )
        if code in {BUDGET_CODE, CHANGED_CODE}:
            writes.append(self._error_put(claim, deferred.failure, deferred=True))
        return await self._write(claim, ChunkStatus.WAITING, writes)

    async def release(self, claim: Claim, released: Released, *, calls: Calls) -> bool:
        """Move RUNNING -> WAITING because the worker stops; refund the attempt.

        After `max_releases` the attempt is no longer refunded: the chunk itself may be
        what stops its workers.
        """
        releases = claim.chunk.releases
        refund = 1 if releases < self.settings.max_releases else 0
        counted = counted_as(claim)
        more = UNTRIED if released.pivot_untried else ""
        writes = await self._wait(
            claim,
            f"{counted} = {counted} - :refund{more}",
            {"one": 1, "refund": refund},
            0.0,
            calls,
            "released",
            also_added=", releases :one",
        )
        return await self._write(claim, ChunkStatus.WAITING, writes)

    async def pause(self, claim: Claim, paused: Paused, *, calls: Calls) -> bool:
        """Move RUNNING -> WAITING because the job is paused; refund the attempt.

        The chunk may be claimed as soon as the job is resumed.
        """
        counted = counted_as(claim)
        more = UNTRIED if paused.pivot_untried else ""
        writes = await self._wait(
            claim,
            f"blocked_on = :pause, {counted} = {counted} - :one{more}",
            {"one": 1, "pause": PAUSE},
            0.0,
            calls,
            "paused",
        )
        return await self._write(claim, ChunkStatus.WAITING, writes)

    async def sleep(self, claim: Claim, sleeping: Sleeping, *, calls: Calls) -> bool:
        """Move RUNNING -> WAITING because a stage sleeps; refund the attempt.

        The journal has the moment, so the next claim does not start the wait again.
        """
        counted = counted_as(claim)
        more = UNTRIED if sleeping.pivot_untried else ""
        writes = await self._wait(
            claim,
            f"blocked_on = :timer, {counted} = {counted} - :one{more}",
            {"one": 1, "timer": TIMER},
            max(sleeping.until - self.clock(), 0.0),
            calls,
            "sleeping",
        )
        return await self._write(claim, ChunkStatus.WAITING, writes)

    async def batch(self, claim: Claim, batching: Batching, *, calls: Calls) -> bool:
        """Move RUNNING -> WAITING because batches answer calls; refund the attempt.

        The requests are in the same transaction: no batch has one of a claim that goes
        on. The chunk is in the index of waits, where its wake finds it.
        """
        counted, now = counted_as(claim), self.clock()
        more = UNTRIED if batching.pivot_untried else ""
        writes = await self._wait(
            claim,
            f"blocked_on = :batch, {counted} = {counted} - :one{more}",
            {"one": 1, "batch": BATCH},
            max(batching.until - now, 0.0),
            calls,
            "batching",
            entered=(iso(batching.until), {}),
        )
        for part, request in enumerate(batching.requests, 1):
            writes += request_writes(self.table, claim, part, request, now)
        return await self._write(claim, ChunkStatus.WAITING, writes)

    async def ask(self, claim: Claim, asking: Asking, *, calls: Calls) -> bool:
        """Move RUNNING -> WAITING because a stage asks a person; refund the attempt.

        The question is in the same transaction. If a webhook wants `question.asked`,
        telling it is the first step. Otherwise the first reminder or escalation is.
        """
        question, now = asking.question, self.clock()
        hooks = await webhooks_of(self.table, claim.ref.tenant)
        is_told = question.facts is not None and any(
            hook.wants("question.asked") for hook in hooks
        )
        due_at, step = question.next_step("" if is_told else iso(now))
        named = {"stage": question.stage, "question": question.name, "step": step}
        counted = counted_as(claim)
        more = UNTRIED if asking.pivot_untried else ""
        writes = await self._wait(
            claim,
            "blocked_on = :answer, question = :question,"
            f" {counted} = {counted} - :one{more}",
            {"one": 1, "answer": ANSWER, "question": question.name},
            max(moment(question.until) - now, 0.0),
            calls,
            "asking",
            entered=(due_at, named),
        )
        if question.facts is not None:
            writes.append(question_put(self.table, claim, question.facts))
        return await self._write(claim, ChunkStatus.WAITING, writes)

    async def map(self, claim: Claim, mapped: Mapped, *, calls: Calls) -> bool | None:
        """Move RUNNING -> WAITING because a stage maps; refund the attempt.

        The child is created in the same transaction, or it is checked that it has not
        ended. None: it has, since it was read, and nothing is written.
        """
        child, counted = mapped.child, counted_as(claim)
        more = UNTRIED if mapped.pivot_untried else ""
        values = {"one": 1, "child_job": CHILD_JOB, "child": child.job}
        if child.facts is not None:
            more += ", mapped = :mapped"
            version = claim.code_version
            known = started_before(claim.chunk, child.stage, version)
            values["mapped"] = {
                "stage": child.stage,
                "gen": claim.gen,
                "code_version": version,
                "jobs": [*known, child.job][-MOST_UNASKED:],
            }
        writes = await self._wait(
            claim,
            "blocked_on = :child_job, child = :child,"
            f" {counted} = {counted} - :one{more}",
            values,
            LOOK_S,
            calls,
            "mapping",
        )
        also = child_writes(self.table, claim, child, self.clock())
        reply = await self.table.transact([*writes, *also])
        if isinstance(reply, Written):
            return True
        if 0 in reply.refused:
            return self._was_ours(claim, ChunkStatus.WAITING, reply)
        return None

    async def dead_letter(
        self,
        claim: Claim,
        outcome: DeadLettered,
        letter: dict[str, Any],
        *,
        resume_at: str,
        also: Sequence[ItemWrite],
        calls: Calls,
    ) -> bool:
        """Move RUNNING -> DEAD, together with the dead letter and the last error."""
        update = self._end(
            claim,
            ChunkStatus.DEAD,
            "error_code = :code, compensation = :compensation, resume_at = :resume",
            {
                "code": outcome.failure.code,
                "compensation": outcome.compensation,
                "resume": resume_at,
            },
            calls=calls,
        )
        row = self.dead_letters.item_write(
            "Put",
            claim.ref.of.pk,
            keys.dead_letter_sk(claim.ref.chunk, claim.gen),
            item=letter,
        )
        mark = open_mark(self.dead_letters, letter)
        writes = [update, row, mark, self._error_put(claim, outcome.failure), *also]
        return await self._write(claim, ChunkStatus.DEAD, writes)

    async def cancel(
        self,
        claim: Claim,
        cancelled: Cancelled,
        *,
        resume_at: str | None,
        calls: Calls,
    ) -> bool:
        """Move RUNNING -> CANCELLED, with the interrupted stage and the compensation.

        A compensated chunk continues at `resume_at`, any other chunk at its cursor.
        """
        assignments = "cancelled_at_stage = :at"
        values: dict[str, Any] = {"at": cancelled_at_stage(cancelled.stage)}
        if resume_at is not None:
            assignments += ", compensation = :compensation, resume_at = :resume"
            values |= {"compensation": cancelled.compensation, "resume": resume_at}
        update = self._end(
            claim, ChunkStatus.CANCELLED, assignments, values, calls=calls
        )
        return await self._write(claim, ChunkStatus.CANCELLED, [update])

    def _end(
        self,
        claim: Claim,
        status: ChunkStatus,
        assignments: str,
        values: dict[str, Any],
        *,
        calls: Calls,
        remove: str = "",
    ) -> ItemWrite:
        if calls.in_doubt or claim.chunk.effects_in_doubt:
            assignments += ", effects_in_doubt = :in_doubt"
            values = {**values, "in_doubt": calls.in_doubt}
        return self._update(
            claim,
            "SET #status = :status, ended_at = :now, ended_by = :worker,"
            f" {assignments}{calls.assigned} {calls.added} {CLEAR_OWNER},"
            f" redispatch_at{remove}",
            {
                "status": status,
                "worker": claim.worker,
                **calls.values,
                **values,
            },
        )

    async def _wait(
        self,
        claim: Claim,
        assignments: str,
        values: dict[str, Any],
        delay: float,
        calls: Calls,
        end: str,
        also_added: str = "",
        entered: tuple[str, dict[str, Any]] | None = None,
    ) -> list[ItemWrite]:
        """Return the writes of a wait: the chunk, and its entry in the index.

        A wait in the queue has an entry only with `entered`: its time and its facts.
        """
        now = self.clock()
        again = now + delay
        history = claim.chunk.history_with(
            claim.worker,
            iso(now),
            end,
            code=values.get("code", ""),
            blocked_on=values.get("dependency", ""),
            until=iso(again) if delay else "",
        )
        lost_after = 0.0 if leaves_queue(delay) else self.settings.visibility_s
        # An answered call, or a wait for something else, ends the wait for a breaker.
        passed = calls.made or end in ENDS_BREAKER_WAIT
        ended = claim.chunk.breaker_since and passed and "since" not in values
        removed = ", breaker_since" if ended else ""
        entries = []
        if leaves_queue(delay) or entered is not None:
            due_at, facts = entered or (iso(again), {})
            await self.waits.mark(claim.ref.of)
            entries = [entry(self.table, claim.ref, claim.gen, due_at, **facts)]
            assignments += ", due_at = :due_at"
            values = {**values, "due_at": due_at}
        update = self._update(
            claim,
            "SET #status = :status, retry_at = :again, redispatch_at = :due,"
            f" history = :history, {assignments}{calls.assigned}"
            f" {calls.added}{also_added} {CLEAR_OWNER}, redispatches, lease_released_at"
            f"{removed}",
            {
                "status": ChunkStatus.WAITING,
                "again": iso(again),
                "due": iso(again + lost_after),
                "history": history,
                **calls.values,
                **values,
            },
        )
        return [update, *entries]

    def _update(self, claim: Claim, update: str, values: dict[str, Any]) -> ItemWrite:
        now = {"now": iso(self.clock())} if ":now" in update else {}
        return self.table.item_write(
            "Update",
            claim.ref.pk,
            claim.ref.sk,
            condition=OWNED,
            update=update,
            values={**ownership_values(claim), **now, **values},
        )

    def _error_put(
        self, claim: Claim, failure: ErrorEnvelope, *, deferred: bool = False
    ) -> ItemWrite:
        """Return the write of the error that ended a claim, for its transaction.

        A deferral refunds its attempt, so its error ended no attempt.
        """
        return self.table.item_write(
            "Put",
            claim.ref.pk,
            keys.error_sk(claim.ref.chunk, claim.gen, claim.fence),
            item={
                "at": iso(self.clock()),
                "worker": claim.worker,
                "gen": claim.gen,
                "attempt": claim.attempt,
                "error": failure.model_dump_json(exclude_none=True),
                "expires_at": claim.expires_at,
                **({"deferred": True} if deferred else {}),
            },
        )

    async def _write(
        self, claim: Claim, status: ChunkStatus, writes: list[ItemWrite]
    ) -> bool:
        reply: Written | Refused
        if len(writes) == 1:
            reply = await self.table.update(writes[0], returning="NONE")
        else:
            reply = await self.table.transact(writes)
        if isinstance(reply, Written):
            return True
        return self._was_ours(claim, status, reply)

    def _was_ours(self, claim: Claim, status: ChunkStatus, reply: Refused) -> bool:
        """Return whether an earlier copy of the write was applied."""
        item = reply.item or {}
        ours = (
            item.get("fence") == claim.fence and item.get("claim_token") == claim.token
        )
        return ours and item.get("gen") == claim.gen and item.get("status") == status


def counted_as(claim: Claim) -> str:
    """Return the counter that a claim has raised."""
    return "recoveries" if claim.is_recovery else "attempts"


# ── calls of a claim ──────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Calls:
    """The counters of a claim's calls.

    Attributes:
        made: Calls that a dependency answered.
        late: Calls among these that ended after a cancel request.
        paid_again: Pure calls among these that only newer code made again.
        in_doubt: The effects of the chunk that are in doubt.
        cached: Calls that the shared cache or an equal call answered.
        usage: What the calls of all settled claims of the chunk used, this one
            included.
        records: The packed records of the calls that no page of the journal has.
        unstable: The call whose stored answers the claim did not find again.
    """

    made: int
    late: int = 0
    cached: int = 0
    paid_again: int = 0
    in_doubt: int = 0
    usage: CallUsage = field(default_factory=CallUsage)
    records: bytes | None = None
    unstable: dict[str, str] | None = None

    @property
    def added(self) -> str:
        """The ADD clause for the chunk's counters."""
        names = {
            "late": "calls_after_cancel",
            "cached": "cached_calls",
            "repaid": "calls_paid_again",
        }
        more = "".join(
            f", {name} :{n}" for n, name in names.items() if n in self.values
        )
        return f"ADD calls :calls{more}"

    @property
    def assigned(self) -> str:
        """The end of the SET clause: usage, records and what is unstable, if any."""
        usage = ", call_usage = :usage" if self.usage else ""
        usage += ", unstable_call = :unstable" if self.unstable else ""
        return usage + (", call_records = :records" if self.records else "")

    @property
    def values(self) -> dict[str, Any]:
        """The values of both clauses."""
        facts = {
            "late": self.late,
            "cached": self.cached,
            "repaid": self.paid_again,
            "usage": self.usage.item,
            "records": self.records,
            "unstable": self.unstable,
        }
        return {"calls": self.made, **{name: n for name, n in facts.items() if n}}
