"""What the parts of a claim ask about it, while its work runs.

Lease, checkpoints, ledger and journal each know one part. What needs several of them is
decided here: the lease asks whether a cancel may interrupt the work. The caller asks
whether its effects are completed, and how long a call may wait.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from piecework.calls.call import Call, CallCounts
from piecework.calls.in_flight import EffectDrain
from piecework.calls.pause_gate import PauseGate
from piecework.calls.usage import AnswerSource, ClaimUsage
from piecework.dependency import Usage
from piecework.domain.effect import Effect
from piecework.domain.protocols import CancelRequest
from piecework.pipelines import Pipeline
from piecework.saga.stage import next_stage
from piecework.settings import Settings
from piecework.store.checkpoints import ChunkCheckpoints
from piecework.store.effects import EffectLedger
from piecework.store.journal import CallJournal
from piecework_worker.lease import Lease

#: The share of `max_runtime_s` after which no call of a claim waits for quota.
QUOTA_SHARE = 0.75
#: Seconds that a call may wait even after that: a start takes a write of the record.
#: Without them a long stage would be deferred before its first call for ever.
LEAST_WAIT_S = 5.0


@dataclass(slots=True)
class ClaimState:
    """The state of one claim.

    Attributes:
        pipeline: The chunk's pipeline; for a join, a pipeline with the join as its
            stage.
        usage: What the calls of the claim used so far.
        counts: The calls of the claim.
        drain: The effects in flight.
        gate: Keeps the calls of the claim from starting while its job is paused.
        loaded: Whether the payload and the records of earlier claims are loaded.
        possibly_paid: The pure calls of this claim that a lost one may have paid for.
    """

    lease: Lease
    pipeline: Pipeline
    settings: Settings
    checkpoints: ChunkCheckpoints
    ledger: EffectLedger
    journal: CallJournal
    usage: ClaimUsage
    gate: PauseGate
    counts: CallCounts = field(default_factory=CallCounts)
    drain: EffectDrain = field(default_factory=EffectDrain)
    loaded: bool = False
    possibly_paid: int = 0

    @property
    def stage_index(self) -> int:
        """The position of the present stage; past the pivot once that is complete."""
        index = next_stage(self.pipeline, self.checkpoints)
        if index is None or self.pipeline.pivot_name in self.checkpoints.completed:
            return len(self.pipeline.stages)
        return index

    @property
    def cancel(self) -> CancelRequest | None:
        """The cancel request that the lease, a checkpoint or an intent has seen."""
        return self.lease.cancel or self.checkpoints.cancel or self.ledger.cancel

    @property
    def may_be_interrupted(self) -> bool:
        """Whether a cancel may interrupt the work now.

        Before the state is loaded, a compensation has nothing to work with.
        """
        if not self.loaded or self.checkpoints.failure is not None:
            return False
        return self._is_before_pivot or self._waits_at_pivot

    @property
    def leaves_doubt(self) -> bool:
        """Whether an interrupt would leave the effect of a call in doubt."""
        return self.ledger.leaves_doubt

    @property
    def _is_before_pivot(self) -> bool:
        return self.stage_index < self.pipeline.pivot_index

    @property
    def _waits_at_pivot(self) -> bool:
        """Whether an effect of the pivot waits, and none has an intent.

        A pivot without such a call may act in a way that the ledger does not know.
        """
        at_pivot = self.stage_index == self.pipeline.pivot_index
        return at_pivot and bool(self.drain.tasks) and self.ledger.pivot_is_untouched

    def completes_effects(self) -> bool:
        """Return whether an effect is completed although its stage is cut off.

        At its pivot a chunk is interrupted only before the effect has an intent.
        """
        return self.lease.will_compensate and self._is_before_pivot

    def has_no_time_to_write(self) -> bool:
        """Return whether another claim may own the chunk by now, or soon.

        Past its deadline there may be no time for a write.
        """
        lease = self.lease
        return lease.is_lost() or (lease.interrupted and not lease.reason)

    def latest_start(self) -> float:
        """Return the loop time until which a call may wait for quota.

        A claim that has waited until its time is nearly over could not make the call.
        """
        now, settings = asyncio.get_running_loop().time(), self.settings
        until = self.lease.started_at + settings.max_runtime_s * QUOTA_SHARE
        return min(max(until, now + LEAST_WAIT_S), now + settings.quota_wait_s)

    def note_usage(self, call: Call, answered: AnswerSource, usage: Usage) -> None:
        """Add the usage of an answer to that of the claim."""
        also = self._lost_payers(call) if answered == "paid" else 0
        self.usage.note(call, answered, usage, also=also)
        if answered == "cut_off" and not self.lease.interrupted:
            self.journal.note_possibly_paid()

    def _lost_payers(self, call: Call) -> int:
        """Return how many lost claims of the chunk may have paid for a call.

        An effect has an intent of that claim then. The journal may lack the last
        answers of a pure call, and what was in flight: at most as much as a worker
        makes at once.
        """
        chunk = self.lease.claim.chunk
        compensates = not self.counts.forward
        if not chunk.lost_at or not (compensates or call.scope.stage == chunk.lost_at):
            return 0
        if call.dependency.effect is not Effect.PURE:
            return int(self.ledger.began_earlier(call.key))
        lacked = self.journal.lacked_by(chunk.lost_fences)
        most = lacked + self.settings.max_calls_in_flight
        if call.after >= lacked or self.possibly_paid >= most:
            return 0
        self.possibly_paid += 1
        return max(1, self.checkpoints.lost_in_stage)
