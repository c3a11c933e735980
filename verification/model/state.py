"""Define the parts of a state, and the arguments of an action."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple


class St(IntEnum):
    """A chunk's status; the join is a chunk, too."""

    ABSENT, PENDING, RUNNING, WAITING, SUCCEEDED, DEAD, CANCELLED = range(7)


class Js(IntEnum):
    """A job's status. PARTIAL also stands for FAILED: both may be reopened."""

    (SUBMITTING, RUNNING, FINALIZING, SUCCEEDED, PARTIAL) = range(5)
    (CANCELLING, CANCELLED, REOPENING) = range(5, 8)


class Ledger(IntEnum):
    """The ledger's state of an effect."""

    NONE, INTENT, DONE, COMPENSATED = range(4)


class Direction(IntEnum):
    """The direction of a chunk, once it is decided: `direction`.

    FAILURE and CANCEL: it compensates. FORWARD: it may be past its pivot.
    """

    NONE, FAILURE, CANCEL, FORWARD = range(4)


class Pc(IntEnum):
    """The next step of a worker; SET_FAILURE and SET_CANCEL set the direction."""

    IDLE, CLAIM, STAGE, CALL, RECORD, COMPLETE = range(6)
    FAILED, SET_FAILURE, COMPENSATE, COMPENSATED, DEAD_LETTER = range(6, 11)
    RETRY, RELEASE, CANCEL, TALLY, SNAPSHOT, FINALIZE, DELETE = range(11, 18)
    AWAIT_ANSWER, SET_CANCEL = range(18, 20)


OPEN = (St.PENDING, St.WAITING)
ENDED = (St.SUCCEEDED, St.DEAD, St.CANCELLED)
JOB_ENDED = (Js.SUCCEEDED, Js.PARTIAL, Js.CANCELLED)
CANCELLABLE = (Js.SUBMITTING, Js.RUNNING, Js.REOPENING)

#: What a snapshot has: the bits of its chunks, combined by `or`.
HAS_OPEN, HAS_ABSENT, HAS_NO_RESULT = 1, 2, 4


class Effect(NamedTuple):
    """One stage's effect: its ledger row, and what the provider really did.

    Attributes:
        key_gen: The generation of the intent's idempotency key.
        keys: The generations whose key the provider has seen, as bits.
        present: How many times the effect is present at the provider.
        compensation_keys: The generations that the provider has compensated, as bits.
        compensated: The generation of the recorded compensation; 0: none.
        in_flight: The `key_gen` of an in-flight request; 0: none.
    """

    ledger: Ledger = Ledger.NONE
    key_gen: int = 0
    keys: int = 0
    present: int = 0
    compensation_keys: int = 0
    compensated: int = 0
    in_flight: int = 0


class Chunk(NamedTuple):
    """A chunk's item, its effects, and its messages.

    Attributes:
        owner: The worker with the current claim, from 1: its fence and token.
        lease: Whether the lease has not expired.
        started: Whether it was ever claimed, where a cancel depends on it.
        cancel: 1: a sweep has marked it; 2: and it must compensate.
        observed: 1: the reconciler saw no renewal for a lease; 2: but one since then.
        taken_over: Whether a takeover refunded an attempt; the model refunds one.
        results: The generations in which it succeeded, as bits.
        queue: For each generation, its messages + 3 * those in the dead-letter queue.
    """

    st: St = St.ABSENT
    gen: int = 1
    attempts: int = 0
    owner: int = 0
    lease: int = 0
    started: int = 0
    cancel: int = 0
    direction: Direction = Direction.NONE
    cursor: int = 0
    observed: int = 0
    recoveries: int = 0
    released: int = 0
    taken_over: int = 0
    results: int = 0
    queue: tuple[int, ...] = ()
    effects: tuple[Effect, ...] = ()


class Job(NamedTuple):
    """The job's item, and what slow processes have read of it.

    Attributes:
        submitter: 0: it has ended; else 1 + the number of messages that it has sent.
        tally: The chunks counted as ended, as bits.
        compensates: Whether its cancel compensates.
        deadline: 1: it has one; 2: it has passed; 3: it passed before this generation.
        expirer: The generation that a slow reconciler read past its deadline; 0: none.
        sweeper: The generation that a slow sweeper read as CANCELLING; 0: none.
        reopener: The generation that an operator reopens; 0: none.
        to_reopen: The chunks that it will reopen; `to_send`: those that it will send.
        ended_late: Whether the reconciler ended a reopening that took too long.
    """

    st: Js = Js.SUBMITTING
    gen: int = 1
    opened: int = 0
    submitter: int = 1
    tally: int = 0
    compensates: int = 0
    deadline: int = 0
    expirer: int = 0
    sweeper: int = 0
    reopener: int = 0
    to_reopen: int = 0
    to_send: int = 0
    ended_late: int = 0


class Worker(NamedTuple):
    """A worker. `stage` is its stage, or, while it finalizes a job, its own chunk.

    `fresh`: it entered the stage in this claim. `recovering`: it has a recovery claim.
    `key_gen`: the generation of its idempotency key, or of the job that it finalizes.
    """

    pc: Pc = Pc.IDLE
    target: int = 0
    gen: int = 0
    stage: int = 0
    fresh: int = 0
    recovering: int = 0
    key_gen: int = 0


IDLE = Worker()


class Config(NamedTuple):
    """What a run explores. The join's number is `chunks`.

    Attributes:
        compensate: Whether a cancel compensates.
        deadline: Whether the job has one.
        submitted: Whether the submit has ended.
        share: Its part of the states to explore is 1 / `share`.
        late_requests: Whether a request may be executed after its worker stopped.
    """

    name: str
    chunks: int = 2
    stages: int = 1
    pivot: int = 9
    effects: bool = False
    gens: int = 1
    attempts: int = 2
    cancel: bool = False
    compensate: bool = False
    deadline: bool = False
    submitted: bool = False
    share: int = 4
    late_requests: bool = False
    failures: bool = False
    releases: bool = False
    duplicates: bool = False
    loss: bool = True
    dead_letter_queue: bool = False
    workers: int = 2
    removed: frozenset[str] = frozenset()

    def has(self, guard: str) -> bool:
        """Return whether the protocol still has a guard."""
        return guard not in self.removed


class Step(NamedTuple):
    """The worker, the chunk and the job after an action."""

    label: str
    worker: Worker
    chunk: Chunk
    job: Job
    fault: bool = False
    broken: str = ""


def sent(chunk: Chunk, gen: int) -> Chunk:
    """Put a message into the queue, unless it has one; only SQS makes copies."""
    number = chunk.queue[gen - 1]
    return chunk if number % 3 else queued(chunk, gen, number + 1)


def deleted(chunk: Chunk, gen: int) -> Chunk:
    """Delete one copy of a message from the queue, if there is one."""
    number = chunk.queue[gen - 1]
    return queued(chunk, gen, number - 1) if number % 3 else chunk


def queued(chunk: Chunk, gen: int, number: int) -> Chunk:
    """Set the messages of a generation."""
    queue = (*chunk.queue[: gen - 1], number, *chunk.queue[gen:])
    return chunk._replace(queue=queue)


def release_expired(cfg: Config, chunk: Chunk) -> tuple[Chunk, str]:
    """Release an expired lease; return the chunk, and the property that it breaks."""
    refunded = not chunk.taken_over
    wrong = refunded and chunk.recoveries
    if wrong and cfg.has("takeover keeps a spent attempt"):
        refunded, wrong = False, False
    attempts = chunk.attempts - refunded
    broken = "only a counted attempt is refunded" if wrong else ""
    return without_owner(chunk, St.WAITING, attempts=attempts, taken_over=1), broken


def without_owner(chunk: Chunk, status: St, **facts: Any) -> Chunk:
    """Set the status of a chunk, and clear its owner."""
    return chunk._replace(st=status, owner=0, lease=0, observed=0, **facts)
