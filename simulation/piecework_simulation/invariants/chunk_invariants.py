"""Record the writes of one chunk, and check the chunk's invariants at each write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from piecework.aws.endpoint import RESOLUTION_S
from piecework.domain.claim import MAX_RECOVERIES
from piecework.domain.moments import moment
from piecework.domain.outcome import (
    ANSWER,
    BATCH,
    CHILD_JOB,
    PAUSE,
    TIMER,
    leaves_queue,
)
from piecework.domain.states import ChunkStatus
from piecework_simulation.coverage import ENDED, count_returns

if TYPE_CHECKING:
    from piecework_simulation.engine.world import World

Item = dict[str, Any]

#: Seconds by which a reconciler's observation of a lease may be shorter than the lease.
#: Its request takes that long to arrive.
REQUEST_MARGIN_S = 0.5
#: Seconds by which the end of a lease may be believed early. A date of AWS corrects
#: each of the two clocks to one second.
END_MARGIN_S = 2 * RESOLUTION_S
#: Seconds by which a process may see a wait as longer than it is.
CLOCK_MARGIN_S = 60.0
#: Seconds by which a claim may be early. The times in AWS's answers do not correct a
#: wrong clock completely.
DUE_MARGIN_S = 5.0
#: The attributes that an ended chunk keeps until a retry.
FINAL = ("gen", "fence", "claim_token", "result_sha256", "ended_at", "error_code")


@dataclass(slots=True)
class ChunkInvariants:
    """The recorded history of one chunk, with its checks.

    Attributes:
        item: The chunk as last written.
        tokens: The claim token of each owner, by generation and fence.
        created_at: When it was created.
        ended: Pairs of times: when the chunk ended, and when it was reopened.
        left_queue: Pairs of times: when it began a wait, and when the next write
            changed that. The reconciler sends the next message for such a wait.
        completed_stages: The stages that it has completed in this generation.
        first_fence: The last claim before this generation.
        renewed_at: The true time of the last write of its lease.
        renewal_sent_at: The time at which that write was sent.
        compensations: The generation in which the compensation of each generation
            began. An operator lets a failed one run again in a later generation.
        by_hand: Whether an operator has recorded what a compensation has left.
    """

    name: str
    world: World
    report_violation: Callable[[str], None]
    item: Item = field(default_factory=dict)
    tokens: dict[tuple[int, int], str] = field(default_factory=dict)
    created_at: float = 0.0
    ended: list[tuple[float, float]] = field(default_factory=list)
    left_queue: list[tuple[float, float]] = field(default_factory=list)
    renewed_at: float = 0.0
    renewal_sent_at: float = 0.0
    completed_stages: set[str] = field(default_factory=set)
    first_fence: int = 0
    compensations: dict[int, int] = field(default_factory=dict)
    by_hand: bool = False

    def check_write(self, old: Item | None, new: Item) -> None:
        """Check a write; `old` is the previous item, if there was one."""
        if old is None or new["gen"] > old["gen"]:
            self.check_creation(old, new)
        else:
            self.check_change(old, new)
            known = old.get("compensation"), new.get("compensation")
            self.by_hand |= old["status"] in ENDED and known[0] != known[1]
        self.record_times(old, new)
        self.item = new

    def check_creation(self, old: Item | None, new: Item) -> None:
        """Check the creation of a chunk, or of a new generation of it."""
        if old is None:
            self.created_at = self.world.now()
        if new["status"] != ChunkStatus.PENDING or new["attempts"]:
            self.report_violation(f"I4: {self.name} was created as {new['status']}")
        if old is not None and old["status"] not in ENDED:
            self.report_violation(f"I4: {self.name} began a generation before its end")
        self.completed_stages.clear()
        self.first_fence = new["fence"]
        began = new["gen"]
        if old is not None and "direction" in new:
            began = self.compensations[old["gen"]]
        self.compensations[new["gen"]] = began

    def check_change(self, old: Item, new: Item) -> None:
        """Check a write within one generation."""
        if new["gen"] < old["gen"] or new["fence"] < old["fence"]:
            self.report_violation(f"I2: {self.name} lost a gen or fence")
        if old["status"] in ENDED and new["status"] != old["status"]:
            self.report_violation(
                f"I4: {self.name} left {old['status']} for {new['status']}"
            )
        if old["status"] in ENDED and any(old.get(n) != new.get(n) for n in FINAL):
            self.report_violation(f"I4: {self.name} was written to after its end")
        if new["fence"] > old["fence"]:
            self.check_claim(old, new)
        elif old["status"] == ChunkStatus.RUNNING:
            self.check_owner(old, new)
            self.check_progress(old, new)
        limit = self.world.settings.max_attempts
        if new["attempts"] > limit:
            self.report_violation(
                f"I10: {self.name} used {new['attempts']} of {limit} attempts"
            )
        if not self.is_counted(old, new):
            self.report_violation(
                f"I10: {self.name} changed its counts without a reason"
            )
        settings = self.world.settings
        # Each release of a recovery claim, and each death in one, is one more.
        recoveries = MAX_RECOVERIES + settings.max_releases + 2
        if new.get("recoveries", 0) > recoveries:
            self.report_violation(f"I10: {self.name} was recovered too often")
        if new.get("takeovers", 0) > settings.max_takeovers + limit + recoveries:
            self.report_violation(f"I10: {self.name} was taken over too often")

    def is_counted(self, old: Item, new: Item) -> bool:
        """Return whether a write counts as it must.

        A claim counts as one attempt, or as one recovery. A deferral returns it. A
        release may return it, and a takeover an attempt, up to a limit. No other write
        counts.
        """
        begun, recovered, released, taken_over = (
            int(new.get(name, 0)) - int(old.get(name, 0))
            for name in ("attempts", "recoveries", "releases", "takeovers")
        )
        deferred = count_returns(old, new) - released
        if new["fence"] > old["fence"]:
            return (begun, recovered) in {(1, 0), (0, 1)}
        rests = new["status"] == ChunkStatus.WAITING and is_at_rest(new)
        if deferred or (rests and not is_at_rest(old)):
            return deferred == (not rests) and (begun, recovered) in {(-1, 0), (0, -1)}
        if taken_over:
            may_return = int(new["takeovers"]) <= self.world.settings.max_takeovers
            returned = {(0, 0), (-1, 0)} if may_return else {(0, 0)}
            return taken_over == 1 and (begun, recovered) in returned
        most = self.world.settings.max_releases
        if released == 1 and int(new["releases"]) <= most:
            return (begun, recovered) in {(0, 0), (-1, 0), (0, -1)}
        return (begun, recovered) == (0, 0)

    def check_claim(self, old: Item, new: Item) -> None:
        """Check a claim."""
        if new["fence"] != old["fence"] + 1 or new["status"] != ChunkStatus.RUNNING:
            self.report_violation(f"I2: {self.name} skipped a fence")
        mark = (new["gen"], new["fence"])
        if new["claim_token"] in self.tokens.values():
            self.report_violation(f"I2: {self.name} was claimed twice by one token")
        if self.tokens.setdefault(mark, new["claim_token"]) != new["claim_token"]:
            self.report_violation(
                f"I2: {self.name} has two owners at fence {new['fence']}"
            )
        if "cancel_requested_at" in old and "direction" not in old:
            self.report_violation(f"I11: {self.name} was claimed after its cancel")
        if old["status"] in ENDED:
            self.report_violation(f"I4: {self.name} was claimed after its end")
        if old["status"] == ChunkStatus.RUNNING:
            self.report_violation(f"L3: {self.name} was claimed while it had an owner")
        if "retry_at" in old and (
            moment(old["retry_at"]) > self.world.now() + DUE_MARGIN_S
        ):
            self.report_violation(f"L3: {self.name} was claimed before it was due")

    def is_earlier(self, entry: Item) -> bool:
        """Return whether an entry of a stage is of an earlier generation."""
        return int(entry["fence"]) <= self.first_fence

    def check_owner(self, old: Item, new: Item) -> None:
        """Check that only its owner writes to a chunk that is claimed."""
        sender = self.world.sender
        owner = old.get("claimed_by")
        is_request = {"cancel_requested_at", "compensate_requested"} >= {
            k for k in {*old, *new} if old.get(k) != new.get(k)
        }
        if sender is None or is_request or sender.name == owner:
            return
        now, lease_s = self.world.now(), self.world.settings.lease_s
        expired = now >= min(
            moment(old["claim_expires_at"]) - END_MARGIN_S,
            self.renewed_at + lease_s - REQUEST_MARGIN_S,
        )
        if new["status"] == ChunkStatus.RUNNING or not expired:
            self.report_violation(
                f"I3: {sender.name} wrote to {self.name}, owned by {owner}"
            )

    def check_progress(self, old: Item, new: Item) -> None:
        """Check that a write within a claim does not revert an earlier one."""
        named = new.get("stages", {})
        for stage, entry in old.get("stages", {}).items():
            again = named.get(stage, {}).get("fence", 0) > entry["fence"]
            if named.get(stage) != entry and not (again and self.is_earlier(entry)):
                self.report_violation(f"I3: {self.name} lost the value of {stage}")
        renewed = new.get("claim_expires_at") not in {None, old["claim_expires_at"]}
        if renewed and self.world.sent_at < self.renewal_sent_at:
            self.report_violation(f"L3: the lease of {self.name} was shortened")
        if new["stage"] != old["stage"]:
            self.completed_stages.add(old["stage"])
            if new["stage"] in self.completed_stages:
                self.report_violation(f"I3: {self.name} returned to {new['stage']}")

    def record_times(self, old: Item | None, new: Item) -> None:
        """Record the time of a lease write, and of the end of a generation."""
        now = self.world.now()
        expires = new.get("claim_expires_at")
        if expires is not None and (old or {}).get("claim_expires_at") != expires:
            self.renewed_at, self.renewal_sent_at = now, self.world.sent_at
        was_ended = old is not None and old["status"] in ENDED
        if new["status"] in ENDED and not was_ended:
            self.ended.append((now, float("inf")))
        elif was_ended and new["status"] not in ENDED:
            since, _ = self.ended[-1]
            self.ended[-1] = (since, now)
        if self.left_queue and self.left_queue[-1][1] == float("inf"):
            self.left_queue[-1] = (self.left_queue[-1][0], now)
        if has_no_message(new, now):
            self.left_queue.append((now, float("inf")))

    def had_ended(self, since: float, until: float) -> bool:
        """Return whether the chunk was ended at some time between two times."""
        return any(end <= until and since <= again for end, again in self.ended)

    def had_left_queue(self, since: float, until: float) -> bool:
        """Return whether the chunk had no message at some time between two times."""
        return any(begun <= until and since <= end for begun, end in self.left_queue)


def is_at_rest(item: Item) -> bool:
    """Return whether a worker gave the chunk back for a pause, a sleep or a person."""
    return item.get("blocked_on") in {PAUSE, TIMER, ANSWER, BATCH, CHILD_JOB}


def has_no_message(item: Item, now: float) -> bool:
    """Return whether the reconciler sends the next message of a chunk."""
    waits = item["status"] in {ChunkStatus.PENDING, ChunkStatus.WAITING}
    if not waits or "retry_at" not in item or "redispatch_at" not in item:
        return False
    return leaves_queue(moment(item["retry_at"]) - now + CLOCK_MARGIN_S)
