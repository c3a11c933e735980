from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from piecework.domain.claim import MAX_RECOVERIES, Claim
from piecework.domain.model import Chunk
from piecework.domain.outcome import (
    Cancelled,
    Compensation,
    DeadLettered,
    Released,
    Retry,
)
from piecework.domain.protocols import ClaimLostError
from piecework.errors import ErrorEnvelope, PermanentError
from piecework.errors.codes import ErrorClass
from piecework.pipeline import Pipeline, Stage
from piecework.settings import Settings
from piecework_worker import run
from piecework_worker.lease import InterruptReason, Lease
from piecework_worker.run import last_failure, outcome_of_interrupt
from tests.unit.piecework.fakes import (
    Clause,
    Lowest,
    checkpoints_of,
    context,
    envelope,
    limits,
)
from tests.unit.piecework.store.tables import REF

DID: list[str] = []


async def first(_: Any) -> None:
    DID.append("first")


async def second(_: Any) -> None:
    DID.append("second")


async def undo(_: Any) -> None:
    DID.append("undo")


PIPELINE = Pipeline(
    name="review", payload=Clause, stages=[Stage(first, compensate=undo), Stage(second)]
)


def task(
    *,
    error_history: Any = (),
    gen: int = 1,
    fence: int = 3,
    reached_stage: str = "second",
    **facts: Any,
) -> Any:
    item = {"status": "RUNNING", "gen": gen, "fence": fence, "attempts": 3, **facts}
    item.setdefault("stage", reached_stage)
    chunk = Chunk.read(REF, item)
    is_recovery = "recoveries" in facts
    claim = Claim(REF, gen, fence, "token", "worker", chunk, is_recovery)
    kept = checkpoints_of(PIPELINE, reached_stage=reached_stage)
    if reached_stage == "second":
        kept.completed = {"first": "null"}
    return SimpleNamespace(
        claim=claim,
        pipeline=PIPELINE,
        ctx=context(PIPELINE, attempt=claim.attempt, stage=""),
        checkpoints=kept,
        limits=limits(),
        error_history=list(error_history),
    )


def ended(gen: int = 1, attempt: int = 3, **facts: Any) -> dict[str, Any]:
    error = envelope(stage="first", **facts).model_dump_json()
    return {"gen": gen, "attempt": attempt, "error": error}


def lost(failure: ErrorEnvelope) -> bool:
    return failure.code == "runtime.worker.lost"


# ── what ended the last attempt ──────────────────────────────────────────────


def test_what_is_on_record_ended_the_last_attempt() -> None:
    failure = last_failure(task(error_history=[ended(attempt=2), ended()]))
    assert (failure.code, failure.stage) == ("runtime.stage.permanent", "first")


def test_an_attempt_without_a_record_ended_with_its_worker() -> None:
    failure = last_failure(task(error_history=[ended(attempt=2)]))
    assert lost(failure)
    assert (failure.stage, failure.attempt) == ("second", 3)
    assert lost(last_failure(task()))


def test_an_error_of_an_earlier_generation_is_not_of_this_attempt() -> None:
    assert lost(last_failure(task(gen=2, error_history=[ended(gen=1)])))
    assert not lost(
        last_failure(task(gen=2, error_history=[ended(gen=1), ended(gen=2)]))
    )


# ── ends from outside ────────────────────────────────────────────────────────


def end(reason: InterruptReason | None, one: Any = None) -> Any:
    one = task() if one is None else one
    settings = Settings(stall_timeout_s=100.0, max_runtime_s=500.0)
    services: Any = SimpleNamespace(rt=SimpleNamespace(settings=settings))
    return outcome_of_interrupt(
        Lease(one.claim, None, 60.0, 0.0, 0.0, reason), one, services
    )


@pytest.mark.parametrize("reason", [InterruptReason.LOST, None])
def test_a_lost_claim_writes_nothing(reason: InterruptReason | None) -> None:
    with pytest.raises(ClaimLostError):
        end(reason)


def test_a_stop_releases_the_chunk() -> None:
    assert end(InterruptReason.STOPPING) == Released()


def test_a_cancel_names_the_interrupted_stage() -> None:
    one = task()
    one.ctx.stage = "second"
    outcome = end(InterruptReason.CANCEL, one)
    assert isinstance(outcome, Cancelled)
    assert outcome.stage == "second"


@pytest.mark.parametrize(
    ("reason", "code", "said"),
    [
        (InterruptReason.STALLED, "runtime.stage.stalled", "100 s"),
        (InterruptReason.TIMEOUT, "runtime.stage.timeout", "500 s"),
    ],
)
def test_a_timed_out_chunk_is_retried_even_without_attempts(
    reason: InterruptReason, code: str, said: str
) -> None:
    outcome = end(reason)
    assert isinstance(outcome, Retry)
    assert outcome.failure.code == code
    assert outcome.failure.error_class is ErrorClass.TRANSIENT
    assert said in outcome.failure.message
    assert outcome.delay == 16.0


# ── winding up ───────────────────────────────────────────────────────────────


@pytest.fixture(autouse=True)
def nothing_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async def load(*_: Any) -> None: ...

    monkeypatch.setattr(run, "load_state", load)
    DID.clear()


async def ran(one: Any) -> Any:
    return await run.run_from_checkpoint(one, None, None)  # type: ignore[arg-type]


async def test_a_chunk_without_attempts_is_compensated_and_dead_lettered() -> None:
    outcome = await ran(task(recoveries=1))
    assert isinstance(outcome, DeadLettered)
    assert outcome.compensation is Compensation.COMPENSATED
    assert lost(outcome.failure)
    assert DID == ["undo"]


async def test_a_recovery_continues_the_compensation_of_the_last_one() -> None:
    one = task(recoveries=2)
    one.checkpoints.failure = envelope(stage="second", code="llm.content.filtered")
    outcome = await ran(one)
    assert isinstance(outcome, DeadLettered)
    assert outcome.failure.code == "llm.content.filtered"
    assert DID == ["undo"]


@pytest.mark.parametrize("on_its_way_back", [True, False])
async def test_a_recovery_that_kills_its_workers_is_abandoned(
    on_its_way_back: bool,  # noqa: FBT001
) -> None:
    one = task(recoveries=MAX_RECOVERIES + 1)
    if on_its_way_back:
        one.checkpoints.failure = envelope(code="llm.content.filtered")
    outcome = await ran(one)
    assert isinstance(outcome, DeadLettered)
    assert outcome.compensation is Compensation.ABANDONED
    assert lost(outcome.failure) is not on_its_way_back
    assert DID == []


async def test_the_last_allowed_recovery_runs() -> None:
    outcome = await ran(task(recoveries=MAX_RECOVERIES))
    assert isinstance(outcome, DeadLettered)
    assert outcome.compensation is Compensation.COMPENSATED


# ── what cannot be read ──────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("facts", "compensation"),
    [
        ({"fence": 1}, Compensation.NOT_NEEDED),
        ({"reached_stage": "first"}, Compensation.NOT_NEEDED),
        ({}, Compensation.ABANDONED),
    ],
)
async def test_an_unreadable_chunk_is_dead_lettered_as_abandoned_if_started(
    monkeypatch: pytest.MonkeyPatch, facts: Any, compensation: Compensation
) -> None:
    async def load(*_: Any) -> None:
        message = "not what was submitted"
        raise PermanentError(message, code="runtime.payload.corrupt")

    monkeypatch.setattr(run, "load_state", load)
    outcome = await ran(task(**facts))
    assert isinstance(outcome, DeadLettered)
    assert outcome.compensation is compensation
    assert outcome.failure.code == "runtime.payload.corrupt"


async def test_what_cannot_be_read_for_now_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def load(*_: Any) -> None:
        raise ConnectionResetError

    monkeypatch.setattr(run, "load_state", load)
    one = task()
    one.ctx.attempt = 2
    one.limits.rng.__class__ = Lowest
    assert isinstance(await ran(one), Retry)
    one.ctx.attempt = 3
    assert isinstance(await ran(one), DeadLettered)
