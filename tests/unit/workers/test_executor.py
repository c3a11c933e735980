"""One work item of a chunk: a refused worker costs the chunk nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from piecework.aws.queue import Message
from piecework.domain.chunk import Chunk
from piecework.domain.claim import (
    AlreadyEnded,
    AttemptsExhausted,
    Busy,
    CancelPending,
    LeaseExpired,
    NotDue,
    NotFound,
    Refusal,
)
from piecework.domain.outcome import Cancelled, Succeeded
from piecework.domain.protocols import ClaimLostError
from piecework.domain.states import JobStatus
from piecework.settings import Settings
from piecework.store.table import Refused, Written
from piecework.store.takeovers import Takeovers
from piecework_worker import executor, refusals
from piecework_worker.exclusive_claims import ExclusiveClaims
from piecework_worker.executor import (
    execute,
)
from piecework_worker.refusals import LEFT_S, handle_refusal
from piecework_worker.work_item import MessageAction, WorkItem
from tests.unit.piecework.fakes import NOW, Log, Lowest
from tests.unit.piecework.store.tables import REF, claim

TURN = WorkItem(REF, 2, 3, "receipt")
JOB: Any = SimpleNamespace(
    queue="",
    ref=REF.of,
    pipeline="review",
    gen=2,
    status=JobStatus.RUNNING,
    stopped_code="",
    tolerated_chunks=0,
    has_ladder=False,
    is_ordered=False,
)


@dataclass
class World:
    """Services whose claims return the given answers."""

    answers: list[Any] = field(default_factory=list)
    said: list[tuple[Any, ...]] = field(default_factory=list)
    pipelines: dict[str, Any] = field(default_factory=lambda: {"review": "pipeline"})
    log: Any = field(default_factory=Log)
    rng: Random = field(default_factory=Lowest)
    settings: Settings = field(default_factory=Settings)
    unknown_in_a_row: int = 0
    job: Any = None
    exclusive: ExclusiveClaims = field(default_factory=ExclusiveClaims)

    rt = property(lambda self: self)
    work = claims = lease_renewer = table = cancelled_groups = jobs = rt

    @property
    def takeovers(self) -> Takeovers:
        return Takeovers(cast("Any", self), self.settings, self.clock)

    def clock(self) -> float:
        return NOW

    async def acquire(self, *_: Any, gen: int, receive_count: int, **known: int) -> Any:
        self.said.append(("acquire", gen, receive_count, *known.values()))
        return self.answers.pop(0)

    async def acquire_for_recovery(
        self, *_: Any, gen: int, receive_count: int, last: int
    ) -> Any:
        self.said.append(("acquire spent", gen, receive_count, last))
        return self.answers.pop(0)

    async def hide(self, receipts: list[str], seconds: float) -> None:
        self.said.append(("hide", *receipts, seconds))

    async def send(self, messages: list[Message], *, to: str, delay_s: float) -> None:
        self.said.append(("send", *messages, delay_s))

    async def fresh(self, _: Any) -> Any:
        return self.job

    async def note_unknown_pipeline(self, job: Any) -> None:
        self.said.append(("unknown", job.pipeline))

    def item_write(self, *_: Any, **__: Any) -> None: ...

    async def update(self, *_: Any, **__: Any) -> Any:
        return self.answers.pop(0)

    @contextmanager
    def maintain(self, *_: Any) -> Iterator[Any]:
        yield SimpleNamespace(reason=None)


def world(*answers: Any) -> Any:
    return World(list(answers))


def chunk(gen: int, **facts: Any) -> Chunk:
    return Chunk.read(REF, {"status": "SUCCEEDED", "gen": gen, **facts})


@pytest.fixture
def came_to(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Set the run's outcome and the delay until the next attempt."""

    def tell(outcome: Any, wait: float | None, calls_after_cancel: Any = None) -> None:
        chunk_run = SimpleNamespace(
            calls_after_cancel=calls_after_cancel, outcome=outcome
        )

        async def run_claim(*_: Any) -> None: ...

        async def settle(*_: Any) -> float | None:
            if outcome is None:
                raise ClaimLostError
            return wait

        monkeypatch.setattr(executor, "build_run", lambda *_: chunk_run)
        monkeypatch.setattr(executor, "run_claim", run_claim)
        monkeypatch.setattr(executor, "settle", settle)

    return tell


@pytest.mark.parametrize(("written", "events"), [(Written({}), 1), (Refused(None), 0)])
async def test_an_expired_lease_is_released_before_the_next_claim(
    written: Any, events: int
) -> None:
    """Another process may be faster: then this one does not tell of it."""
    lost = chunk(2, status="RUNNING", fence=4, claimed_by="w0", takeovers=1)
    noted = [Written({})] * events  # on the report of the lost worker
    here = world(LeaseExpired(lost), written, *noted, AlreadyEnded(chunk(2)))
    await execute(TURN, JOB, here)
    assert [("acquire", 2, 3), ("acquire", 2, 3, 4)] == here.said
    told = [facts for name, facts in here.log.said if name == "chunk.lease_expired"]
    assert [{"chunk": REF.chunk, "claimed_by": "w0", "takeovers": 2}] * events == told


KEEP, DELETE = MessageAction.KEEP, MessageAction.DELETE


@pytest.mark.parametrize(
    ("answer", "end", "hidden_s", "reason"),
    [
        (AlreadyEnded(chunk(2)), MessageAction.ACK_ENDED, None, "ended"),
        (AlreadyEnded(chunk(3)), DELETE, None, "superseded"),
        # A dead letter stops its order key: the chunk behind it is not started.
        (
            AlreadyEnded(chunk(2, status="DEAD", followed_by=9)),
            MessageAction.ACK_ENDED,
            None,
            "ended",
        ),
        (Busy(7.0), KEEP, 7.0, "busy"),
        (Busy(1_000.0), KEEP, 1_000.0, "busy"),
        (NotDue(900.0), KEEP, 900.0, "not due"),
        (NotDue(900.5), DELETE, None, "not due"),
        (CancelPending(chunk(2, compensate_requested=True)), KEEP, 0.0, "cancelled"),
        (NotFound(), MessageAction.QUARANTINE, None, "not found"),
        (AttemptsExhausted(4), KEEP, LEFT_S, "attempts spent"),
    ],
)
async def test_a_refused_worker_handles_its_message_by_the_refusal(
    answer: Refusal, end: MessageAction, hidden_s: float | None, reason: str
) -> None:
    here = world()
    assert end is await handle_refusal(answer, TURN, JOB, here)
    assert here.said == ([] if hidden_s is None else [("hide", "receipt", hidden_s)])
    (event,) = here.log.said
    hidden = {} if hidden_s is None else {"delay_s": hidden_s}
    logged = {"reason": reason, "receive_count": 3, **hidden}
    if reason == "not due" and hidden_s is None:
        logged["delay_s"] = 900.5
    assert event == ("chunk.claim_refused", logged)


async def test_a_message_of_a_deleted_job_is_not_put_into_quarantine() -> None:
    here = world()
    here.job = SimpleNamespace(status=JobStatus.DELETED)
    assert DELETE is await handle_refusal(NotFound(), TURN, JOB, here)
    assert "job deleted" == here.log.said[0][1]["reason"]


@pytest.mark.parametrize(
    ("wins", "end"), [(True, MessageAction.ACK_CANCELLED), (False, KEEP)]
)
async def test_a_refused_worker_cancels_an_unclaimed_chunk(
    monkeypatch: pytest.MonkeyPatch, end: MessageAction, *, wins: bool
) -> None:
    here, cancelled = world(), []

    async def cancel(_: Any, found: Chunk, now: float) -> bool:
        cancelled.append((found.gen, now))
        return wins

    monkeypatch.setattr(refusals, "cancel_unclaimed", cancel)
    assert await handle_refusal(CancelPending(chunk(2)), TURN, JOB, here) is end
    assert cancelled == [(2, NOW)]
    assert here.said == ([] if wins else [("hide", "receipt", 0.0)])


async def test_a_refused_worker_leaves_compensation_to_workers_with_the_pipeline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(refusals, "cancel_unclaimed", None)
    here, found = world(), chunk(2, compensate_requested=True)
    assert (
        await handle_refusal(CancelPending(found), TURN, JOB, here)
        is MessageAction.KEEP
    )
    assert here.said == [("hide", "receipt", 0.0)]


@pytest.mark.parametrize("compensate_requested", [True, False])
async def test_a_chunk_to_compensate_gets_its_direction_and_its_claim_at_once(
    came_to: Any, monkeypatch: pytest.MonkeyPatch, *, compensate_requested: bool
) -> None:
    turned: list[Any] = []

    async def turn(found: Chunk, *_: Any) -> None:
        turned.append(found)

    async def cancel(*_: Any) -> None: ...

    came_to(Succeeded("1"), None)
    monkeypatch.setattr(executor, "set_unclaimed_direction", turn)
    monkeypatch.setattr(refusals, "cancel_unclaimed", cancel)
    facts = {"compensate_requested": True} if compensate_requested else {}
    here = world(CancelPending(chunk(2, fence=4, **facts)), claim(gen=2))
    end = await execute(TURN, JOB, here)
    assert end is (MessageAction.ACK if compensate_requested else MessageAction.KEEP)
    assert len(turned) == compensate_requested
    assert (("acquire", 2, 3, 4) in here.said) is compensate_requested


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        ("first", "job.cancel.requested"),
        ("gone", "job.cancel.requested"),
        ("pivot", "pivot"),
        ("last", "forward"),
    ],
)
async def test_the_direction_of_a_cancelled_chunk_follows_from_its_stage(
    monkeypatch: pytest.MonkeyPatch, stage: str, expected: str
) -> None:
    said: list[Any] = []

    async def turn(_: Any, found: Chunk, failure: Any, otherwise: str) -> bool:
        said.append((found.item["stage"], failure.code if failure else otherwise))
        return True

    monkeypatch.setattr(executor, "set_direction", turn)
    names = [SimpleNamespace(name=name) for name in ("first", "pivot", "last")]
    pipeline: Any = SimpleNamespace(stages=names, pivot_index=1, pivot_name="pivot")
    await executor.set_unclaimed_direction(chunk(2, stage=stage), pipeline, world())
    assert said == [(stage, expected)]


async def test_a_pipeline_that_is_not_here_is_left_to_others() -> None:
    here = world()
    here.pipelines = {}
    assert await execute(TURN, JOB, here) is MessageAction.KEEP
    assert here.said == [("unknown", "review"), ("hide", "receipt", 1.0)]
    assert 1 == here.unknown_in_a_row


async def test_a_message_of_an_earlier_generation_of_its_job_makes_no_request() -> None:
    here = world()
    assert await execute(WorkItem(REF, 1, 3, "receipt"), JOB, here) is DELETE
    assert here.said == []
    assert [("chunk.claim_refused", {"reason": "superseded", "receive_count": 3})] == (
        here.log.said
    )


async def test_a_chunk_without_attempts_is_claimed_once_more_for_recovery(
    came_to: Any,
) -> None:
    came_to(Succeeded("1"), None)
    here = world(AttemptsExhausted(4), claim(gen=2))
    assert await execute(TURN, JOB, here) is MessageAction.ACK
    assert here.said == [("acquire", 2, 3), ("acquire spent", 2, 3, 4)]


async def test_a_refused_claim_does_no_work() -> None:
    here = world(Busy(7.0))
    assert await execute(TURN, JOB, here) is MessageAction.KEEP
    assert here.said == [("acquire", 2, 3), ("hide", "receipt", 7.0)]


@pytest.mark.parametrize(
    ("outcome", "wait", "late", "end", "done"),
    [
        (Succeeded("1"), None, None, MessageAction.ACK, []),
        (Succeeded("1"), None, 2, MessageAction.ACK_CANCELLED, []),
        (Cancelled("first"), None, 0, MessageAction.ACK_CANCELLED, []),
        (Succeeded("1"), 0.0, None, MessageAction.KEEP, [("hide", "receipt", 0.0)]),
        (Succeeded("1"), 5.0, 0, MessageAction.KEEP, [("hide", "receipt", 5.0)]),
        (Succeeded("1"), 900.0, 0, MessageAction.KEEP, [("hide", "receipt", 900.0)]),
        (Succeeded("1"), 900.1, 0, MessageAction.DELETE, []),
        (None, None, None, MessageAction.KEEP, []),
    ],
)
async def test_a_work_item_ends_by_its_outcome(
    came_to: Any,
    outcome: Any,
    wait: float | None,
    late: Any,
    end: MessageAction,
    done: Any,
) -> None:
    came_to(outcome, wait, late)
    here = world(claim(gen=2))
    assert end is await execute(TURN, JOB, here)
    assert done == here.said[1:]


@pytest.mark.parametrize("wait", [5.0, 900.0, 900.1])
async def test_a_work_item_without_a_message_sends_one_for_a_retry_that_is_near(
    came_to: Any, wait: float
) -> None:
    came_to(Succeeded("1"), wait)
    here = world(claim(gen=2))
    await execute(WorkItem(REF, 2), JOB, here)
    sent = [("send", Message.about(REF, 2), wait)] if wait <= 900.0 else []
    assert here.said[1:] == sent
