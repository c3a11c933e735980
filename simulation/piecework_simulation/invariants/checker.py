"""Check the invariants at every write to the tables.

`docs/hazards.md` numbers the invariants. The checker reads what was written, and by
which process. It uses none of the code's own conclusions.

Chunks, jobs and effects are in one class, because the checks of one read the others.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import filterfalse
from typing import TYPE_CHECKING, Any

from piecework.dependency import TAKEN
from piecework.domain import keys
from piecework.domain.moments import moment
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.store.cancellation import COMPENSATING
from piecework.store.serialization import from_item
from piecework_simulation.aws.dynamodb import Change
from piecework_simulation.coverage import (
    ENDED,
    OPEN,
    chunk_transitions,
    job_transitions,
)
from piecework_simulation.invariants.acts import ActInvariants
from piecework_simulation.invariants.batches import BatchInvariants
from piecework_simulation.invariants.budgets import BudgetInvariants
from piecework_simulation.invariants.children import ChildInvariants
from piecework_simulation.invariants.chunk_invariants import ChunkInvariants
from piecework_simulation.invariants.dead_letters import DeadLetterInvariants
from piecework_simulation.invariants.lanes import LaneInvariants
from piecework_simulation.invariants.order import order_violations
from piecework_simulation.invariants.ownership import (
    foreign_writes,
    oversized,
    undeserved_death,
)
from piecework_simulation.invariants.pauses import PauseInvariants
from piecework_simulation.invariants.pivots import PivotInvariants
from piecework_simulation.invariants.questions import QuestionInvariants
from piecework_simulation.invariants.quotas import QuotaInvariants
from piecework_simulation.invariants.streams import StreamInvariants

if TYPE_CHECKING:
    from piecework_simulation.engine.world import World
    from piecework_simulation.provider import ChunkKey, OutgoingCall, Provider

Item = dict[str, Any]
#: The states of a job that last as long as its chunks wait.
WAITS = {JobStatus.RUNNING, JobStatus.FINALIZING} | {s for s in JobStatus if s.ended}


@dataclass(slots=True)
class Invariants:
    """The invariants of one world.

    Attributes:
        suspects: Whether a chunk was suspect at the last claim of a process.
        compensates_again: Whether the current generation of a chunk only compensates.
    """

    world: World
    provider: Provider | None = None
    violations: list[str] = field(default_factory=list)
    transitions: Counter[str] = field(default_factory=Counter)
    jobs: dict[str, Item] = field(default_factory=dict)
    #: The jobs that were SUCCEEDED at some time.
    succeeded: set[str] = field(default_factory=set)
    chunks: dict[str, dict[int, ChunkInvariants]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    #: When the last pause of each job ended; infinite: it is paused.
    paused_until: dict[str, float] = field(default_factory=dict)
    suspects: dict[tuple[str, ChunkKey], bool] = field(default_factory=dict)
    compensates_again: dict[ChunkKey, bool] = field(default_factory=dict)
    acts: ActInvariants = field(init=False)
    letters: DeadLetterInvariants = field(init=False)
    quotas: QuotaInvariants = field(init=False)
    lanes: LaneInvariants = field(init=False)
    pivots: PivotInvariants = field(init=False)
    pauses: PauseInvariants = field(init=False)
    budgets: BudgetInvariants = field(init=False)
    questions: QuestionInvariants = field(init=False)
    streams: StreamInvariants = field(init=False)
    children: ChildInvariants = field(init=False)
    batches: BatchInvariants = field(init=False)

    def __post_init__(self) -> None:
        """Create the checks of what is not a chunk, a job or a breaker."""
        self.questions = QuestionInvariants(
            self.world, self.report_violation, self.transitions
        )
        self.acts = ActInvariants(self.report_violation)
        self.batches = BatchInvariants(self.report_violation)
        self.children = ChildInvariants(
            self.report_violation, self.jobs, self.chunks, self.transitions
        )
        self.streams = StreamInvariants(self.report_violation, self.world.now)
        self.budgets = BudgetInvariants(self.world, self.report_violation)
        self.pauses = PauseInvariants(self.world, self.report_violation)
        self.quotas = QuotaInvariants(self.world, self.report_violation)
        self.lanes = LaneInvariants(self.world, self.report_violation)
        self.pivots = PivotInvariants(self.report_violation)
        self.letters = DeadLetterInvariants(self.report_violation)

    def report_violation(self, text: str) -> None:
        """Record a violated invariant."""
        self.violations.append(text)
        self.world.note(None, f"VIOLATION {text}", None)

    def codes(self) -> Counter[str]:
        """Count the dead chunks by error code."""
        items = (b.item for checkers in self.chunks.values() for b in checkers.values())
        return Counter(
            i.get("error_code", "none") for i in items if i["status"] == "DEAD"
        )

    def check_write(  # noqa: C901, PLR0912 -- a branch a kind of row
        self, changes: Sequence[Change]
    ) -> None:
        """Check the writes of one request."""
        metas, asked = [], []
        tenant = self.world.sender.tenant if self.world.sender else ""
        for change in filterfalse(self.is_deletion, changes):
            for text in (*foreign_writes(change, tenant), *oversized(change)):
                self.report_violation(text)
            if change.table != self.world.settings.checkpoints_table:
                self.letters.check_write(change)
                continue
            if change.sk.startswith(keys.CHUNK_PREFIX) or change.sk == "JOIN":
                self.check_chunk(change)
            elif change.sk == keys.META_SK:
                metas.append(change)
            elif change.sk == keys.BUDGET_SK:
                self.budgets.check_write(change)
            elif self.batches.concerns(change):
                self.batches.check_write(change)
                asked.append(change)
            elif self.questions.concerns(change):
                self.questions.check_write(change)
            elif self.streams.concerns(change):
                self.streams.check_write(change)
            elif "#EFFECT#" in change.sk:
                self.check_effect(change)
            elif change.pk == keys.BREAKERS_PK:
                self.check_breaker(change)
        for change in asked:
            self.batches.check_claims(change, self.chunk_beside(change))
        for change in metas:
            self.check_job(change)

    def chunk_beside(self, change: Change) -> Item | None:
        """Return the chunk of a row beside it, as last written; None: it has none."""
        if not change.sk.startswith(keys.WORK_PREFIX):
            return None
        job_pk, number = change.pk.partition("#G#")[0], int(change.sk.split("#")[1])
        checker = self.chunks[job_pk].get(number)
        return checker.item if checker else None

    def is_deletion(self, change: Change) -> bool:
        """Return whether a write deletes a row of a job that is being deleted."""
        job = self.jobs.get(change.pk.partition("#G#")[0])
        gone = job is not None and JobStatus(job["status"]).gone
        return change.new is None and gone

    def check_breaker(self, change: Change) -> None:
        """Check a write to a breaker, or to the limits of a dependency."""
        if change.sk.startswith(keys.LIMITS_PREFIX):
            self.quotas.check_write(change)
            return
        if change.new is None or change.sk.startswith(keys.BUDGET_PREFIX):
            return
        old = from_item(change.old) if change.old else None
        for text in breaker_violations(old, from_item(change.new)):
            self.report_violation(f"breaker {change.sk} {text}")

    # ── chunks ──────────────────────────────────────────────────────────────

    def check_chunk(self, change: Change) -> None:
        """Check a write to a chunk."""
        if change.new is None:
            self.report_violation(f"I1: {change.pk} {change.sk} was deleted")
            return
        new = from_item(change.new)
        job_pk = change.pk.partition("#G#")[0]
        checker = self.chunk_checker(job_pk, new)
        # Every write passes here, so the recorded item is the one that this write
        # replaced.
        old = checker.item if change.old else None
        if self.world.traced:
            was = old["status"] if old else "-"
            facts = f"{was} -> {new['status']} gen={new['gen']} fence={new['fence']}"
            self.world.note(self.world.sender, f"  {checker.name} {facts}", None)
        transitions = chunk_transitions(old, new)
        self.transitions.update(transitions)
        if not transitions:
            self.report_violation(f"I4: {checker.name} moved {old} -> {new}")
        if job_pk not in self.jobs:
            self.report_violation(f"I14: {checker.name} has no job")
        checker.check_write(old, new)
        self.children.check_chunk(job_pk, old, new)
        if old is not None and new["fence"] > old["fence"] and self.world.sender:
            claim = self.world.sender.name, self.chunk_name(job_pk, new["chunk"])
            self.suspects[claim] = new.get("takeovers", 0) > 0
        if old is not None and new["gen"] > old["gen"]:
            again = new.get("direction") == COMPENSATING
            self.compensates_again[self.chunk_name(job_pk, new["chunk"])] = again
        self.pivots.check_chunk(job_pk, new)
        beside = self.chunks[job_pk].values()
        for text in order_violations(checker.name, old, new, beside):
            self.report_violation(text)
        if new["status"] == ChunkStatus.DEAD and "C7" in transitions:
            self.check_death(job_pk, new)

    def check_death(self, job_pk: str, new: Item) -> None:
        """Check that a chunk does not die of what another chunk or AWS did.

        A generation that only compensates ends with the death of the one before.
        """
        name = self.chunk_name(job_pk, new["chunk"])
        if self.compensates_again.get(name):
            return
        guilty = self.provider is not None and name in self.provider.input_faults
        settings = self.world.settings
        if cause := undeserved_death(new, settings, guilty=guilty):
            self.report_violation(f"I16: {new['job']}/{new['chunk']} died of {cause}")

    def chunk_name(self, job_pk: str, chunk: int) -> ChunkKey:
        """Return the tenant, the job and the number of a chunk."""
        tenant, _, job = job_pk.removeprefix("T#").partition("#J#")
        return tenant, job, chunk

    def claimed_as_suspect(self, process: str, name: ChunkKey) -> bool:
        """Return whether a chunk had lost a claim when a process claimed it last.

        A process that was frozen goes on with the claim that it has lost. It cannot
        know that the chunk is suspect since then.
        """
        return self.suspects.get((process, name), False)

    def next_due_at(self) -> float:
        """Return the time at which the first open chunk is due; 0: one is now."""
        due = [
            0.0 if self.children.is_over(pk, checker.item) else due_at(checker.item)
            for pk, meta in self.jobs.items()
            if not JobStatus(meta["status"]).ended
            for checker in self.chunks[pk].values()
            if checker.item["status"] not in ENDED
            and not waits_for_another(checker.item, self.chunks[pk])
        ]
        waits = all(meta["status"] in WAITS for meta in self.jobs.values())
        if not due:
            due = [0.0] * (not self.batches.open)
        return min([*due, self.batches.next_pass_at()]) if waits else 0.0

    def chunk_checker(self, job_pk: str, new: Item) -> ChunkInvariants:
        """Return the invariants of one chunk."""
        checkers, chunk = self.chunks[job_pk], new["chunk"]
        if chunk not in checkers:
            name = f"{new['job']}/{chunk}"
            checkers[chunk] = ChunkInvariants(name, self.world, self.report_violation)
        return checkers[chunk]

    # ── jobs ────────────────────────────────────────────────────────────────

    def check_job(self, change: Change) -> None:
        """Check a write to a job."""
        if change.new is None:
            self.report_violation(f"I1: job {change.pk} was deleted")
            return
        old = self.jobs.get(change.pk)
        new = from_item(change.new)
        self.jobs[change.pk] = new
        self.children.check_job(change.pk, old, new)
        self.pauses.check_job(change.pk, new)
        self.budgets.check_job(change.pk, new)
        was = old["status"] if old else None
        if was == new["status"]:
            return
        if new["status"] == JobStatus.SUCCEEDED:
            self.succeeded.add(change.pk)
        if new["status"] == JobStatus.PAUSED:
            self.paused_until[change.pk] = math.inf
        elif was == JobStatus.PAUSED:
            self.paused_until[change.pk] = self.world.now()
        if self.world.traced:
            facts = f"{was} -> {new['status']} gen={new['gen']}"
            self.world.note(self.world.sender, f"  job {new['job']} {facts}", None)
        transitions = job_transitions(old, new)
        self.transitions.update(transitions)
        if not transitions:
            self.report_violation(
                f"I4: job {new['job']} moved {was} -> {new['status']}"
            )
        self.check_job_and_chunks(new, self.chunks[change.pk])

    def check_job_and_chunks(
        self, new: Item, checkers: Mapping[int, ChunkInvariants]
    ) -> None:
        """Check that a job's new status agrees with those of its chunks."""
        status = new["status"]
        states = {
            n: b.item["status"] for n, b in checkers.items() if n != keys.JOIN_CHUNK
        }
        open_ = [n for n, state in states.items() if state not in ENDED]
        if status in {JobStatus.FINALIZING, JobStatus.CANCELLED} and open_:
            self.report_violation(
                f"I12: job {new['job']} is {status}, and {open_} are open"
            )
        written = len(states)
        if status == JobStatus.RUNNING and written != new["chunks"]:
            self.report_violation(f"I1: job {new['job']} runs with {written} chunks")
        failed = [n for n, state in states.items() if state != ChunkStatus.SUCCEEDED]
        if status == JobStatus.SUCCEEDED and (
            len(failed) > new.get("tolerated_chunks", 0)
            or checkers[keys.JOIN_CHUNK].item["status"] != ChunkStatus.SUCCEEDED
        ):
            self.report_violation(f"I12: job {new['job']} succeeded without all chunks")

    def continues(self, name: ChunkKey, gen: int, other: int) -> bool:
        """Return whether two generations of a chunk have the same compensation."""
        tenant, job, number = name
        began = self.chunks[keys.job_pk(tenant, job)][number].compensations
        return began.get(gen) == began.get(other)

    # ── calls, effects and messages ────────────────────────────────────────────

    def check_start(
        self, call: OutgoingCall, args: Sequence[Any], *, is_lookup: bool = False
    ) -> None:
        """Check the start of a call, or of a lookup."""
        scope = call.scope
        job_pk = keys.job_pk(scope.tenant, scope.job)
        checker = self.chunks[job_pk].get(scope.chunk)
        self.pauses.check_start(job_pk, checker.item if checker else None)
        self.quotas.check_start(call.dependency, args, is_lookup=is_lookup)
        self.streams.check_start(scope.tenant, call.operation)
        self.lanes.check_start(call, None if is_lookup else TAKEN.get())

    def check_answer(self, call: OutgoingCall, value: Any) -> None:
        """Check an answer that reaches its worker."""
        scope = call.scope
        job_pk = keys.job_pk(scope.tenant, scope.job)
        checker = self.chunks[job_pk].get(scope.chunk)
        owner = checker.item.get("claimed_by", "") if checker else ""
        self.budgets.check_answer(call, owner, value)

    def check_effect(self, change: Change) -> None:
        """Copy an effect's ledger state to the provider's records, and check it."""
        if change.new is None or self.provider is None:
            return
        row = from_item(change.new)
        job_pk, number = change.pk.partition("#G#")[0], int(change.sk.split("#")[1])
        if checker := self.chunks[job_pk].get(number):
            job = self.jobs.get(job_pk, {})
            self.pivots.check_effect(job, job_pk, checker.item, row)
        state = row.get("state")
        key = row.get("effect_key", "")
        if state == "INTENT":
            meta = self.jobs.get(change.pk.partition("#G#")[0], {})
            if meta.get("status") == JobStatus.CANCELLED:
                self.report_violation(
                    f"I11: {key[:12]} began after its job was cancelled"
                )
            self.provider.intended.add(keys.provider_key(key, row["gen"]))
        elif state == "COMPENSATED":
            was = from_item(change.old) if change.old else {}
            if was.get("state") == "REFUSED":
                self.report_violation(f"I8: {key[:12]} was refused, and is COMPENSATED")
            self.provider.mark_compensated(key)
        elif state == "DONE":
            name = self.provider.numbered.get(key, key)
            entry = self.provider.records.get(name)
            sent = keys.provider_key(key, row["gen"])
            # A number may have been executed for another chunk.
            known = entry is not None and (name != key or sent in entry.answers)
            if not known:
                self.report_violation(f"I7: {key[:12]} is DONE without an execution")

    def check_deleted_message(self, url: str, body: str, received_at: float) -> None:
        """Check that a message was deleted only if its chunk does not need it.

        A chunk that has ended needs none. Nor does a chunk that waits long, if its
        record says when it is due. A sweep ends a chunk of a cancelled job. A resume of
        a paused job sends another message. A message that came before the join asked
        for a notification.
        """
        from piecework.aws.queue import Message

        try:
            message = Message.model_validate_json(body)
        except ValueError:
            return
        queue = self.world.work_queue_of(url)
        if queue is None:
            return  # reconcilers resend a dead message before they delete it
        checker = self.chunks[message.ref.of.pk].get(message.chunk)
        if checker is None or checker.item["gen"] > message.gen:
            return
        now = self.world.now()
        meta = self.jobs.get(message.ref.of.pk, {})
        gone = meta.get("status") == JobStatus.DELETED  # its tombstone has no queue
        if not gone and queue != meta.get("queue", ""):
            self.report_violation(f"I27: {checker.name} had a message in {queue!r}")
        # A resume sends the messages of a paused job again, and none before it.
        resent = self.paused_until.get(message.ref.of.pk, 0.0) >= received_at
        needless = resent or checker.had_ended(received_at, now)
        needless = needless or received_at < checker.created_at
        needless = needless or is_swept(meta, checker.item)
        if not (needless or checker.had_left_queue(received_at, now)):
            self.report_violation(f"I9: a message of {checker.name} was lost")


def is_swept(job: Mapping[str, Any], chunk: Mapping[str, Any]) -> bool:
    """Return whether the sweep of a cancel ends a chunk: it needs no message."""
    return job.get("status") == JobStatus.CANCELLING and "direction" not in chunk


def waits_for_another(item: Item, chunks: Mapping[int, ChunkInvariants]) -> bool:
    """Return whether a chunk is behind one of its order key that is not at its end."""
    # Without the attribute: the number of the join, which waits for no chunk.
    before = chunks.get(item["blocked_by"]) if "blocked_by" in item else None
    is_behind = before is not None and before.item["status"] not in ENDED
    return is_behind and "cancel_requested_at" not in item


def due_at(item: Item) -> float:
    """Return the time from which a chunk may be claimed; 0: now."""
    waits = item["status"] in OPEN and "cancel_requested_at" not in item
    return moment(item["retry_at"]) if waits and "retry_at" in item else 0.0


# ── check the writes to the row of a fleet-wide circuit breaker ───────────────


def breaker_violations(old: Item | None, new: Item) -> Iterator[str]:
    """Yield the rules that a write to a breaker's row violates, as sentence endings."""
    was, now = (old or {}).get("breaker_state", "closed"), new["breaker_state"]
    gen, next_gen = (old or {}).get("gen", 0), new["gen"]
    probed = "probe_token" in (old or {})
    if next_gen not in {gen, gen + 1}:
        yield f"moved from generation {gen} to {next_gen}"
    if was != now and next_gen == gen:
        yield f"moved from {was} to {now} within a generation"
    if was == now == "closed" and next_gen > gen:
        yield "was closed while already closed"
    if was == "open" and next_gen > gen and not probed:
        yield f"moved from open to {now} without a probe"
    token = (old or {}).get("probe_token")
    if next_gen == gen and token and token != new.get("probe_token", token):
        lost = old is not None and old["probe_until"] < new["probe_until"]
        if not lost:
            yield "has two probes"
    if next_gen > gen and "probe_token" in new:
        yield "began a generation with a probe"
    if (now == "open") is not ("open_until" in new):
        yield f"is {now} with open_until {new.get('open_until')}"
