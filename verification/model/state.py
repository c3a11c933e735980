"""Define the parts of a state, and the arguments of an action."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class St(IntEnum):
    """A chunk's status; the join is a chunk, too."""

    ABSENT, PENDING, RUNNING, WAITING, SUCCEEDED, DEAD, CANCELLED = range(7)


class Js(IntEnum):
    """A job's status. PARTIAL also stands for FAILED: both may be redriven."""

    (SUBMITTING, RUNNING, FINALIZING, SUCCEEDED, PARTIAL) = range(5)
    (CANCELLING, CANCELLED, REOPENING) = range(5, 8)


class Led(IntEnum):
    """The ledger's state of an effect."""

    NONE, INTENT, DONE, UNDONE = range(4)


class Way(IntEnum):
    """The direction of a chunk, once it is decided: `direction`.

    BACK: it failed; WOUND: a cancel compensates it; ONWARDS: it may be past its pivot.
    """

    NONE, BACK, WOUND, ONWARDS = range(4)


class Pc(IntEnum):
    """The position of a worker: its next step."""

    IDLE, CLAIM, STAGE, CALL, RECORD, COMPLETE = range(6)
    FAILED, TURN, UNDO, UNDID, BURY, PARK, RELEASE, STOP = range(6, 14)
    TALLY, LOOK, FINALIZE, DELETE, LANDING, WIND = range(14, 20)


OPEN = (St.PENDING, St.WAITING)
ENDED = (St.SUCCEEDED, St.DEAD, St.CANCELLED)
JOB_ENDED = (Js.SUCCEEDED, Js.PARTIAL, Js.CANCELLED)
CANCELLABLE = (Js.SUBMITTING, Js.RUNNING, Js.REOPENING)

#: What the snapshot sees of a chunk, as bits that are combined over all chunks.
SEES_OPEN, SEES_ABSENT, SEES_NO_RESULT = 1, 2, 4


class Effect(NamedTuple):
    """One stage's effect: its ledger row, and what the provider really did.

    Attributes:
        keys: The epochs whose key the provider has seen, as bits.
        stands: How many times the effect stands with the provider now.
        undo_keys: The generations whose compensation it has carried out, as bits.
        undone: The generation in which the compensation is on record; 0: none.
        flying: The epoch of a request that is still on its way; 0: none.
    """

    led: Led = Led.NONE
    epoch: int = 0
    keys: int = 0
    stands: int = 0
    undo_keys: int = 0
    undone: int = 0
    flying: int = 0


class Chunk(NamedTuple):
    """A chunk's item, its effects, and the messages that speak for it.

    Attributes:
        own: The worker whose claim is the last one, from 1: its fence and token.
        alive: Whether the lease has not run out.
        begun: Whether it was ever claimed, where a cancel asks for that.
        asked: 1: a cancel asks for it; 2: and for what it did to be undone.
        mark: 1: the reconciler saw it unchanged for a lease; 2: and it moved since.
        taken_over: Whether a takeover refunded an attempt; the model refunds one.
        results: The generations in which it was completed, as bits.
        queue: For each generation, its messages + 3 * those in the dead-letter queue.
    """

    st: St = St.ABSENT
    gen: int = 1
    attempts: int = 0
    own: int = 0
    alive: int = 0
    begun: int = 0
    asked: int = 0
    way: Way = Way.NONE
    cursor: int = 0
    mark: int = 0
    recoveries: int = 0
    released: int = 0
    taken_over: int = 0
    results: int = 0
    queue: tuple[int, ...] = ()
    effects: tuple[Effect, ...] = ()


class Job(NamedTuple):
    """The job's item, and what submitter, sweeper and operator have in their heads.

    Attributes:
        submitter: 0: gone; else 1 + the number of messages that it has sent.
        tally: The chunks counted as ended, as bits.
        undoes: Whether its cancel undoes what the chunks have done.
        late: 1: it has a deadline; 2: which has passed; 3: before this life of it.
        expirer: The generation that a slow reconciler saw past its deadline; 0: none.
        sweeper: The generation that a slow sweeper read as CANCELLING; 0: none.
        resumer: The generation that an operator is reopening; 0: none.
        todo: The chunks it looked at and will reopen; `send`: those it will send.
        let_run: Whether a resume that took too long was ended by the reconciler.
    """

    st: Js = Js.SUBMITTING
    gen: int = 1
    opened: int = 0
    submitter: int = 1
    tally: int = 0
    undoes: int = 0
    late: int = 0
    expirer: int = 0
    sweeper: int = 0
    resumer: int = 0
    todo: int = 0
    send: int = 0
    let_run: int = 0


class Worker(NamedTuple):
    """A worker. `stage` is its stage, or, while it finishes a job, its own chunk.

    `fresh`: it entered the stage in this claim.
    """

    pc: Pc = Pc.IDLE
    target: int = 0
    gen: int = 0
    stage: int = 0
    fresh: int = 0
    winding: int = 0
    epoch: int = 0


IDLE = Worker()


class Config(NamedTuple):
    """What a run explores. The join's number is `chunks`.

    Attributes:
        undo: Whether a cancel compensates.
        deadline: Whether the job has one.
        sent: Whether its submit lies behind it.
        share: It may have one part in so many of the states that are asked for.
        flying: Whether a request may be carried out after its worker was cut off.
    """

    name: str
    chunks: int = 2
    stages: int = 1
    pivot: int = 9
    effects: bool = False
    gens: int = 1
    attempts: int = 2
    cancel: bool = False
    undo: bool = False
    deadline: bool = False
    sent: bool = False
    share: int = 4
    flying: bool = False
    failures: bool = False
    releases: bool = False
    duplicates: bool = False
    loss: bool = True
    letters: bool = False
    workers: int = 2
    off: frozenset[str] = frozenset()

    def has(self, guard: str) -> bool:
        """Return whether the protocol still has a guard."""
        return guard not in self.off


class Step(NamedTuple):
    """The worker, the chunk and the job after an action."""

    label: str
    worker: Worker
    chunk: Chunk
    job: Job
    fault: bool = False
    broken: str = ""


def sent(chunk: Chunk, gen: int) -> Chunk:
    """Put a message into the queue; a second copy is left to SQS's duplicates."""
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


def lease_released(cfg: Config, chunk: Chunk) -> tuple[Chunk, str]:
    """Release an expired lease; return the chunk, and the property that it breaks."""
    given = not chunk.taken_over
    robbed = given and chunk.recoveries
    if robbed and cfg.has("takeover keeps a spent attempt"):
        given, robbed = False, False
    attempts = chunk.attempts - given
    free = chunk._replace(st=St.WAITING, own=0, alive=0, mark=0, attempts=attempts)
    broken = "no attempt is handed back that was not taken" if robbed else ""
    return free._replace(taken_over=1), broken


def ended(chunk: Chunk, status: St) -> Chunk:
    """Release a chunk in its final state."""
    return chunk._replace(st=status, own=0, alive=0, mark=0)
