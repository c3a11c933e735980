"""The outcomes of a claim: each is written by its own method of `Settlements`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from piecework.domain.batch import Request
    from piecework.domain.child import ChildStart
    from piecework.domain.question import Question
    from piecework.errors import ErrorEnvelope


#: Deferrals for the retry budget that a chunk gets before each further one spends an
#: attempt. Without this limit and without a breaker, a call that always fails would be
#: deferred for ever.
MAX_BUDGET_DEFERRALS = 10
#: The longest wait in seconds of a chunk in the queue. A chunk that waits longer leaves
#: the queue, and the reconciler sends a new message when the chunk is due. SQS delays a
#: message for at most this time, and hides it for 12 hours from its receive. A shorter
#: wait ends on time even if the reconciler reads a large job rarely.
MAX_WAIT_IN_QUEUE_S = 900.0


def leaves_queue(wait_s: float) -> bool:
    """Return whether a chunk that waits so long has no message meanwhile."""
    return wait_s > MAX_WAIT_IN_QUEUE_S


#: `Deferred.blocked_on` when only workers of another version can run the chunk: a newer
#: one of Piecework, or one of the pipeline that is safe for what the chunk has done.
OTHER_WORKERS = "workers of another version"
#: `Deferred.blocked_on` when AWS does not answer this worker, or refuses it.
STORE = "AWS"
#: `Deferred.blocked_on` when its worker lacked memory, handles, threads or processes.
WORKER = "a worker with resources"
#: A chunk waits for this while its job is paused; it has no due time.
PAUSE = "pause"
#: A chunk waits for this while its stage sleeps, until its due time.
TIMER = "timer"
#: A chunk waits for this while its stage asks a person, until its due time.
ANSWER = "answer"
#: A chunk waits for this while its stage maps, until the child job has ended.
CHILD_JOB = "child job"
#: A chunk waits for this while a batch answers calls of its stage.
BATCH = "batch"
#: Waits that something ends, mostly long before their due time.
UNTIL_TOLD = frozenset({ANSWER, CHILD_JOB, BATCH})
#: The reason of a job whose pipeline a worker does not have, and of one that is pinned
#: to another code version than the worker's.
UNKNOWN_CODE = "runtime.pipeline.unknown"
PINNED_CODE = "runtime.code.pinned"
#: The code of a chunk whose stage this worker's pipeline lacks.
NO_STAGE_CODE = "runtime.stage.not_found"
#: The code of a chunk that this worker's version of its pipeline must not go on with.
CHANGED_CODE = "runtime.code.changed"
#: The code of a chunk that a stopped order key left without a result.
STOPPED_CODE = "runtime.order.stopped"


@dataclass(frozen=True, slots=True)
class Succeeded:
    """Every stage has completed.

    Attributes:
        value: The last stage's value as JSON; it is not checkpointed yet.
    """

    value: str


@dataclass(frozen=True, slots=True)
class Retry:
    """The chunk failed and spent an attempt: it is retried after `delay` seconds."""

    failure: ErrorEnvelope
    delay: float


@dataclass(frozen=True, slots=True)
class Deferred:
    """The chunk waits for a dependency, AWS or another worker: no attempt is spent.

    Attributes:
        delay: Seconds until the chunk may be claimed again.
        blocked_on: The unavailable dependency, `OTHER_WORKERS`, `STORE` or
            `WORKER`.
        pivot_untried: The pivot stage failed before anything in it was tried.
        has_progress: A dependency answered a call of the claim, so the chunk waits
            only since now.
        probe_failed: The claim made the probe of an open breaker, and it failed.
    """

    failure: ErrorEnvelope
    delay: float
    blocked_on: str
    pivot_untried: bool = False
    has_progress: bool = False
    probe_failed: bool = False


@dataclass(frozen=True, slots=True)
class Released:
    """The worker stops or cannot write: another worker continues, no attempt is spent.

    A chunk that was released too often spends its attempt.

    Attributes:
        pivot_untried: The pivot stage had made no call yet: its call waited.
    """

    pivot_untried: bool = False


@dataclass(frozen=True, slots=True)
class Paused:
    """The chunk's job is paused: no attempt is spent.

    The worker deletes the message if the job is still paused: a resume sends the next.

    Attributes:
        pivot_untried: The pivot stage was interrupted before anything in it was tried.
    """

    pivot_untried: bool = False


@dataclass(frozen=True, slots=True)
class Sleeping:
    """A stage sleeps: no attempt is spent, and the stage runs again at `until`.

    Attributes:
        until: In seconds since 1970.
        pivot_untried: The pivot stage slept before anything in it was tried.
    """

    until: float
    pivot_untried: bool = False


@dataclass(frozen=True, slots=True)
class Batching:
    """Calls of a stage wait for batches: no attempt is spent; the stage runs again.

    That is when a batch is over, or at `until`.

    Attributes:
        until: In seconds since 1970.
        requests: What is asked for anew.
        pivot_untried: The pivot stage waited before anything in it was tried.
    """

    until: float
    requests: Sequence[Request] = ()
    pivot_untried: bool = False


@dataclass(frozen=True, slots=True)
class Asking:
    """A stage asks a person: no attempt is spent, and the stage runs again later.

    That is when the question is answered, or its time is over.

    Attributes:
        pivot_untried: The pivot stage asked before anything in it was tried.
    """

    question: Question
    pivot_untried: bool = False


@dataclass(frozen=True, slots=True)
class Mapped:
    """A stage waits for a child job: no attempt is spent, and it runs again later.

    That is when the child has ended.

    Attributes:
        pivot_untried: The pivot stage mapped before anything in it was tried.
    """

    child: ChildStart
    pivot_untried: bool = False


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The chunk's job was cancelled.

    Attributes:
        stage: The stage that did not start, or was interrupted.
        compensation: The result of the compensation; None: nothing was compensated.
    """

    stage: str
    compensation: CompensationResult | None = None


class CompensationResult(StrEnum):
    """The result of compensating the stages of a chunk that ended without a result."""

    #: No stage needs compensation: none has one, or nothing of them happened.
    NOT_NEEDED = "NOT_NEEDED"
    #: Every stage was compensated.
    COMPENSATED = "COMPENSATED"
    #: At least one stage could not be compensated: an operator has to.
    FAILED = "FAILED"
    #: A cancel without compensation stopped the chunk: its effects remain.
    NOT_REQUESTED = "NOT_REQUESTED"
    #: The pivot was passed: compensation is not allowed.
    PAST_PIVOT = "PAST_PIVOT"
    #: The pivot may have been passed: an operator decides.
    PIVOT_UNKNOWN = "PIVOT_UNKNOWN"
    #: Compensation could not run: its recovery claims are spent, or the payload or a
    #: record cannot be read.
    ABANDONED = "ABANDONED"


@dataclass(frozen=True, slots=True)
class DeadLettered:
    """The chunk cannot succeed without an operator: a dead letter is written.

    Attributes:
        uncompensated_stages: The stages whose effects still exist.
        stages_without_effect: The stages that were not compensated, because each of
            their effects was refused, or none was sent.
    """

    failure: ErrorEnvelope
    compensation: CompensationResult
    uncompensated_stages: tuple[str, ...] = field(default=())
    stages_without_effect: tuple[str, ...] = field(default=())


Outcome: TypeAlias = (
    Succeeded
    | Retry
    | Deferred
    | Released
    | Paused
    | Sleeping
    | Batching
    | Asking
    | Mapped
    | Cancelled
    | DeadLettered
)
