"""Name the reason for which a WAITING or a blocked chunk waits."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from piecework.domain.chunk import Chunk
from piecework.domain.moments import iso, moment
from piecework.domain.outcome import (
    ANSWER,
    BATCH,
    CHILD_JOB,
    OTHER_WORKERS,
    PAUSE,
    STORE,
    TIMER,
    WORKER,
)
from piecework.domain.states import ChunkStatus
from piecework.resilience.breaker import OPEN_CODE, RATE_LIMIT_CODES
from piecework.resilience.lanes import NO_ROOM_CODE
from piecework.resilience.limits import DEPENDENCY_PAUSED_CODE, QUOTA_CODE
from piecework.resilience.retry import EARLY_CODE, IN_PROGRESS_CODE


class WaitReason(StrEnum):
    """The stable code of a wait."""

    RETRY = "retry"
    BREAKER = "breaker"
    #: The limits of a dependency allow no more calls.
    QUOTA = "quota"
    #: The cheap lane of a model has no room.
    ROOM = "room"
    #: A dependency refused calls with a 429 or a throttle.
    RATE_LIMIT = "rate_limit"
    #: An equal call of another chunk is in progress.
    EQUAL_CALL = "equal_call"
    #: This version of Piecework, or of its pipeline, must not run it.
    OTHER_VERSION = "other_version"
    AWS = "aws"
    #: Its worker lacked memory, handles, threads or processes.
    RESOURCES = "resources"
    #: Its dependency or its job is paused, or was when a worker gave the chunk back.
    PAUSED = "paused"
    #: An earlier chunk of its order key has not ended.
    ORDER = "order"
    #: A dead letter of an earlier chunk stops its order key.
    ORDER_STOPPED = "order_stopped"
    #: Its stage sleeps until a moment.
    TIMER = "timer"
    #: Batches answer calls of its stage.
    BATCH = "batch"
    #: Its stage asks a person.
    ANSWER = "answer"
    #: Its stage maps, and waits for the child job.
    CHILD = "child_job"
    #: Its time has come: it waits for a worker.
    WORKER = "worker"


#: The waits whose text has the time at which they end.
CLOCKED: Final = {
    WaitReason.RETRY,
    WaitReason.TIMER,
    WaitReason.BATCH,
    WaitReason.ANSWER,
}
#: A wait for another process than a dependency, by what the chunk is blocked on.
BY_BLOCKER: Final = {
    OTHER_WORKERS: WaitReason.OTHER_VERSION,
    STORE: WaitReason.AWS,
    WORKER: WaitReason.RESOURCES,
    TIMER: WaitReason.TIMER,
    BATCH: WaitReason.BATCH,
    ANSWER: WaitReason.ANSWER,
    CHILD_JOB: WaitReason.CHILD,
}
#: A wait for a dependency, by the code of the chunk's last error.
BY_CODE: Final = {
    OPEN_CODE: WaitReason.BREAKER,
    QUOTA_CODE: WaitReason.QUOTA,
    NO_ROOM_CODE: WaitReason.ROOM,
    DEPENDENCY_PAUSED_CODE: WaitReason.PAUSED,
    IN_PROGRESS_CODE: WaitReason.EQUAL_CALL,
    EARLY_CODE: WaitReason.EQUAL_CALL,
    **dict.fromkeys(RATE_LIMIT_CODES, WaitReason.RATE_LIMIT),
}


@dataclass(frozen=True, slots=True)
class Wait:
    """The wait of a chunk.

    Attributes:
        until: The time before which no worker claims it, ISO 8601; empty: it is due.
        blocked_on: The dependency, or the chunk before it in its order key, that
            blocks it; empty: none does.
        question: The name of the question that a person has to answer; empty: none.
        child: The child job that it waits for; empty: none.
        today: The day of the reader, ISO 8601.
    """

    reason: WaitReason
    until: str = ""
    blocked_on: str = ""
    question: str = ""
    child: str = ""
    today: str = ""

    @property
    def text(self) -> str:
        """The reason for people, such as `quota` or `retry 12:40`.

        A wait until another day has the day, too: `timer 11-25 12:40`.
        """
        clock = f" {self.until[11:16]}" if self.reason in CLOCKED else ""
        if clock and self.until[:10] != self.today:
            clock = f" {self.until[5:10]}{clock}"
        return (self.question or self.reason.value.replace("_", " ")) + clock

    @property
    def document(self) -> dict[str, Any]:
        """The wait as a document."""
        facts = {
            "reason": str(self.reason),
            "text": self.text,
            "until": self.until,
            "blocked_on": self.blocked_on,
            "question": self.question,
            "child": self.child,
        }
        return {name: value for name, value in facts.items() if value}


def wait_of(chunk: Chunk, now: float, stopped: Collection[str] = ()) -> Wait | None:
    """Return the wait of a chunk; None: it is neither WAITING nor blocked.

    `stopped`: the order keys that a dead letter stops.
    """
    if chunk.blocked_by is not None and not chunk.status.ended:
        is_stopped = chunk.order_key in stopped
        reason = WaitReason.ORDER_STOPPED if is_stopped else WaitReason.ORDER
        return Wait(reason, blocked_on=f"chunk {chunk.blocked_by}")
    if chunk.status is not ChunkStatus.WAITING:
        return None
    if chunk.blocked_on == PAUSE:
        return Wait(WaitReason.PAUSED)
    until = chunk.retry_at
    if not until or moment(until) <= now:
        return Wait(WaitReason.WORKER)
    blocked_on = chunk.blocked_on
    cause = BY_BLOCKER.get(blocked_on) or BY_CODE.get(chunk.error_code)
    reason, today = cause or WaitReason.RETRY, iso(now)[:10]
    return Wait(reason, until, blocked_on, chunk.question, chunk.child, today)
