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
from piecework.domain.fields import (
    CheckedCount,
    Count,
    Decoded,
    OptionalNumber,
    OptionalText,
    Present,
    ShownNumber,
    ShownText,
    Text,
    map_list,
    mapping,
    raw,
)
from piecework.domain.refs import ChunkRef
from piecework.domain.states import ChunkStatus

#: Attributes that no document shows.
HIDDEN = frozenset({"pk", "sk", "v", "claim_token", "value", "stages", "call_records"})
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


def what_of(ref: ChunkRef) -> str:
    """Return the record of a chunk in words, for messages."""
    return f"The record of chunk {ref}"


def fences(found: Any) -> frozenset[int]:
    """Decode the set of lost claims."""
    return frozenset(found) if isinstance(found, set) else frozenset()


def stage_entries(found: Any) -> Mapping[str, Mapping[str, Any]]:
    """Decode the completed stages.

    Raises:
        PermanentError: `runtime.record.unreadable`: a stage would run again.
    """
    entries = {} if found is None else found
    is_map = isinstance(entries, Mapping)
    if not is_map or not all(isinstance(each, Mapping) for each in entries.values()):
        raise records.unreadable_error("A chunk", "has malformed 'stages'")
    return entries


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk, read from its item.

    Attributes:
        status: PENDING, RUNNING, WAITING, SUCCEEDED, DEAD or CANCELLED.
        gen: The generation; a redrive or a retry starts the next one.
        fence: The claims of any kind so far; it never falls.
    """

    ref: ChunkRef
    status: ChunkStatus
    gen: int
    fence: int
    item: Mapping[str, Any]

    label = ShownText("The label that the submit gave it; empty: it has none.")
    payload = Text("The place of its payload: pack, offset and length in bytes.")
    payload_sha256 = Text("The hash of its payload.")
    has_patched_payload = Present(
        "Whether its payload differs from the submitted one; the value is the "
        "generation since which it does.",
        "patched_in_gen",
    )
    expires_at = ShownNumber(
        "When DynamoDB may delete it, and each row of its work, after its job; None: "
        "never. See [retention](../retention.md)."
    )
    stage = Text("The stage that it is at.")
    stages = Decoded(
        stage_entries,
        "The stages that have completed, by name. Each has the attributes of [a stage]"
        "(#a-stage-a-result), or only `code_version` and the `fence` in the key of the "
        "row that has them.",
        kind="map",
    )
    patched_in_gen = ShownNumber(
        "The generation since which its payload differs from the submitted one; None: "
        "it does not."
    )
    repeats_in_gen = OptionalNumber(
        "The generation in which an operator let acts of its repeated stages happen "
        "twice; None: none did."
    )
    started_at = OptionalText(
        "When its present or last stage started; empty: it was never claimed."
    )
    # The claim.
    claimed_by = OptionalText("Its owner; empty: it has none.")
    claimed_at = OptionalText("When it was claimed last; empty: never.")
    claim_expires_at = OptionalText(
        "When its lease expires unless it is renewed; empty: it has no owner."
    )
    claim_token = OptionalText("The random token of its last claim.")
    code_version = ShownText(
        "The code version of its last claim; empty: it was never claimed, or its "
        "worker could not tell."
    )
    renewals = CheckedCount("The renewals of its last claim.")
    lost_fences = Decoded(
        fences, "The claims that never settled: their leases expired.", kind="set"
    )
    lost_at = OptionalText(
        "The stage of the last claim whose lease expired; empty: no lease did."
    )
    lease_released_at = OptionalText(
        "When a worker or the reconciler released its expired lease; empty: never, or "
        "a later wait or reopening removed it."
    )
    history = Decoded(
        map_list,
        "Its earlier claims, the last ten; the oldest first. Each has `gen`, "
        "`attempt`, `worker`, `from`, `to` and `end`. If known, it has `code`, the "
        "`until` of the wait, and what the chunk was `blocked_on`. `end` is `retry`, "
        "`deferred`, `released`, `paused`, `sleeping`, `batching`, `asking`, "
        "`mapping`, `lost`, "
        "`dead` or `cancelled`.",
        kind="list",
    )
    # The wait.
    retry_at = OptionalText("When it may be claimed again; empty: at once.")
    blocked_on = OptionalText(
        "What it waits for until `retry_at`; empty: nothing. A dependency, `workers "
        "of another version`, `AWS`, `timer` (its stage sleeps), `answer` (its stage "
        "asks a person), `batch` (batches answer its calls), `child job` (its stage "
        "maps) or `pause` (its job is paused)."
    )
    mapped = Decoded(
        mapping,
        "The last children that its stage has started: `stage`, `gen`, "
        "`code_version`, and `jobs`, their ids. A stage that starts a further one, and "
        "has asked for none of them, draws its rows anew.",
        kind="map",
    )
    child = OptionalText(
        "The child job that its stage waits for; empty: it waits for none."
    )
    question = OptionalText(
        "The question that its stage waits for; empty: it waits for none."
    )
    due_at = OptionalText(
        "Its time in the index of waits; empty: it is not in the index."
    )
    redispatch_at = OptionalText(
        "When the reconciler sends its message again; empty: no time is set."
    )
    breaker_since = OptionalText(
        "When an open circuit breaker deferred it first since its last progress or "
        "other wait; empty: none did."
    )
    # The order.
    order_key = OptionalText(
        "The hash of its order key; empty: it has none, and waits for no chunk."
    )
    blocked_by = OptionalNumber(
        "The chunk before it in its order key, until that has settled; else None."
    )
    followed_by = OptionalNumber(
        "The next chunk of its order key; None: it is the last one, or has no key."
    )
    is_skipped = Present(
        "Whether an operator discarded its dead letter, so that its key goes on; the "
        "value is the time.",
        "skipped_at",
    )
    # The counters; `docs/states.md` says what raises each.
    attempts = CheckedCount("The attempts so far, without those that were refunded.")
    receive_count = ShownNumber(
        "How often SQS delivered the message that led to the last claim."
    )
    replays = Count("How often it was redriven or retried.")
    releases = CheckedCount("How often a stopping worker released it.")
    deferrals = CheckedCount("How often it was deferred.")
    breaker_deferrals = CheckedCount("Deferrals among these for an open breaker.")
    budget_deferrals = CheckedCount(
        "Deferrals among these for an exhausted retry budget."
    )
    stage_deferrals = CheckedCount(
        "Deferrals among these because the worker's pipeline lacked the stage."
    )
    early_deferrals = CheckedCount(
        "Deferrals among these because earlier numbers of a stream were missing."
    )
    failed_probes = CheckedCount(
        "How many probes of open breakers failed in its claims."
    )
    outages = CheckedCount(
        "How often it was deferred because AWS did not answer or refused."
    )
    exhaustions = CheckedCount(
        "How often it was deferred because its worker lacked what a process needs."
    )
    recoveries = CheckedCount("How often it was claimed for recovery.")
    takeovers = CheckedCount(
        "How often its lease expired, and the next claim took it over."
    )
    redispatches = Count(
        "How often the reconciler sent its message again since its last claim."
    )
    # The calls.
    calls = Count("The calls that a dependency answered.")
    cached_calls = Count("The calls that the shared cache or an equal call answered.")
    calls_paid_again = Count(
        "The pure calls that were answered before, and that newer code made again "
        "with other arguments."
    )
    unstable_call = Decoded(
        mapping,
        "A call whose stored answers a claim did not find again, because its arguments "
        "differ in each run: stage, dependency, function, arguments, code version.",
        kind="map",
    )
    effects_in_doubt = Count(
        "The effects that were in doubt at its end, without "
        "those that an operator has resolved since."
    )
    calls_after_cancel = Count("The calls that ended after the cancel request.")
    call_usage = Decoded(
        CallUsage.read,
        "What the calls of its settled claims used, for each kind and model. The "
        "kinds: `paid`, `possibly_paid`, `unpriced`, `free`, `replayed`, `cached`, "
        "`saved_by_tier`. Each is a list of calls, tokens in, tokens out and "
        "billionths of a dollar.",
        kind="map",
    )
    batch_usage = Decoded(
        CallUsage.read,
        "What the answers of its batches cost, as `call_usage` has it: the collector "
        "counts them when they come.",
        kind="map",
    )
    claim_usage = Decoded(
        CallUsage.read,
        "What the calls of its present claim used until the last renewal of its lease, "
        "as `call_usage` has it; none while no worker holds it.",
        kind="map",
    )
    stages_usage = Decoded(
        mapping,
        "What the calls of a claim had used at the end of its last stage, as "
        "`call_usage` has it, by the fence of the claim; only if the journal had not "
        "been written by then.",
        kind="map",
    )
    packed_records = Decoded(
        raw,
        "How its last calls went that no page of the journal has, as compressed JSON: "
        "`piecework chunks calls` shows them.",
        "call_records",
        kind="bytes",
    )
    pivot_untried_fence = ShownNumber(
        "The claim that ended at the pivot before it started a call there: it waited, "
        "or its worker stopped."
    )
    # The end, and the way there.
    is_cancel_requested = Present(
        "Whether a cancel requests it to stop; the value is the time.",
        "cancel_requested_at",
    )
    compensate_requested = Present("Whether a cancel requests its compensation.")
    direction = OptionalText(
        "`compensating` after its compensation has started; `pivot` or `forward` if a "
        "cancel with compensation found it waiting at its pivot, or after it. Empty: "
        "it may still be cancelled."
    )
    has_direction = Present(
        "Whether its direction is decided, so that no further cancel counts.",
        "direction",
    )
    error_code = ShownText("The code of its last error; empty: it has none.")
    result_sha256 = OptionalText("The hash of its result; empty: it has none yet.")
    value = OptionalText(
        "Its result as JSON; empty: it has none, `null`, or a row of its own."
    )
    result_stage = OptionalText(
        "The stage that returned that value; empty: its last one, or it has a row."
    )
    ended_at = OptionalText("When it ended; empty: it has not ended.")
    ended_by = OptionalText(
        "The worker that ended it; empty: it has not ended, or no worker did."
    )
    cancelled_at_stage = OptionalText(
        "Of a cancelled chunk: where it stopped, such as `cancelled-at-stage-score`."
    )
    compensation = OptionalText(
        "The result of its compensation: `NOT_NEEDED`, `COMPENSATED`, `FAILED`, "
        "`PAST_PIVOT`, `PIVOT_UNKNOWN` or `ABANDONED`; empty: none."
    )
    stored_resume_at = OptionalText(
        "The stage at which a redrive or a retry continues; empty: at `stage`.",
        "resume_at",
    )
    replay_of = OptionalNumber("The generation of its last redriven dead letter.")
    origin_gen = OptionalNumber("The generation of its first redriven dead letter.")

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
        what = what_of(ref)
        for name in COUNTS & item.keys():
            records.read_int(item, name, what)
        status = records.read_status(item, ChunkStatus, what)
        gen = records.read_int(item, "gen", what, 1, keys.MAX_GENERATION)
        return cls(ref, status, gen, item.get("fence", 0), item)

    @property
    def what(self) -> str:
        """Its record in words, for messages."""
        return what_of(self.ref)

    @property
    def settled_usage(self) -> CallUsage:
        """What its calls used by settled claims, and by batches."""
        used: CallUsage = self.call_usage
        used.merge(self.batch_usage)
        return used

    @property
    def usage_so_far(self) -> CallUsage:
        """What its calls used: those of settled claims, and of the present one."""
        used = self.settled_usage
        if self.status is ChunkStatus.RUNNING:
            used.merge(self.claim_usage)
        return used

    def to_reopen(self) -> Chunk:
        """Return it with only the attributes that a reopening reads, to save memory."""
        read = {"stage", "resume_at", "blocked_by", "error_code", "history", "attempts"}
        read |= {"claimed_at", "ended_at", "ended_by", "gen"}
        names = read & self.item.keys()
        return replace(self, item={name: self.item[name] for name in names})

    @property
    def resume_at(self) -> str:
        """The stage at which it continues when it is reopened."""
        return self.stored_resume_at or self.stage

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
    def renewal_mark(self) -> tuple[int, int]:
        """Fence and renewals: a pair that changes while the lease's worker lives."""
        return self.fence, self.renewals

    @property
    def facts(self) -> dict[str, Any]:
        """Its attributes as a document, without keys, result and claim token."""
        shown = {n: v for n, v in self.item.items() if n not in HIDDEN}
        name = {"job": self.ref.job, "chunk": self.ref.chunk}
        return {**name, "label": self.label, **shown}
