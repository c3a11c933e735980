"""Each outcome has one write and one event."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from piecework.domain.claim import Claim
from piecework.domain.outcome import (
    NEWER_WORKERS,
    Cancelled,
    CompensationResult,
    DeadLettered,
    Deferred,
    Released,
    Retry,
    Succeeded,
)
from piecework.errors import StoreError
from piecework.pipelines import Pipeline
from piecework.store.results import INLINE_BYTES
from piecework_worker.settle import DEFERRED_FROM, SETTLE_ATTEMPTS, settle, write
from tests.unit.piecework.fakes import envelope
from tests.unit.piecework.store.tables import claim
from tests.unit.virtual import run_virtually
from tests.unit.workers.runs import chunk_run as claimed_run
from tests.unit.workers.test_settle import EARLY, JOB, LATE, chunk_run

LATER = claim(gen=2)
LARGE = f'"{"x" * INLINE_BYTES}"'


class Settlements:
    """Notes which write was asked for, and with what."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        async def end(*_: Any, **facts: Any) -> bool:
            self.asked.append((name, facts))
            return True

        return end


@dataclass
class Failing:
    """Fails at each write, as long as any worker could have patience."""

    code: str
    tries: int = 0

    async def defer(self, *_: Any, **__: Any) -> bool:
        self.tries += 1
        if self.tries < 3 * SETTLE_ATTEMPTS:
            raise StoreError("no", code=self.code)
        return True

    release = defer


class WorkerServices:
    """Has only a worker's writes, and records the deferrals."""

    def __init__(self) -> None:
        self.settlements = Settlements()
        self.deferrals: list[Deferred] = []
        self.dead_letters = SimpleNamespace(row=lambda *_, **__: {})

    async def note_blocked(self, _: Any, deferred: Deferred) -> None:
        self.deferrals.append(deferred)


async def written(run: Any) -> tuple[str, dict[str, Any]]:
    """Settle a run; return the write that was used, and its arguments."""
    services: Any = WorkerServices()
    assert await write(run, JOB, services)
    [asked] = services.settlements.asked
    return asked  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("outcome", "verb", "event"),
    [
        (Succeeded("1"), "succeed", "chunk.succeeded"),
        (Retry(envelope(), 9.0), "schedule_retry", "chunk.retry_scheduled"),
        (Deferred(envelope(), 9.0, "model"), "defer", "chunk.deferred"),
        (Released(), "release", "chunk.released"),
        (Cancelled("first"), "cancel", "chunk.cancelled"),
        (
            DeadLettered(envelope(stage="first"), CompensationResult.NOT_NEEDED),
            "dead_letter",
            "chunk.dead_lettered",
        ),
    ],
)
async def test_each_outcome_has_one_verb_and_one_event(
    outcome: Any, verb: str, event: str
) -> None:
    services: Any = WorkerServices()
    run = chunk_run(outcome, completed={"first": "1"})
    await settle(run, JOB, services)
    assert [verb] == [name for name, _ in services.settlements.asked]
    assert [event] == run.ctx.log.names()


@pytest.mark.parametrize(
    ("code", "tries"),
    [("aws.service.unavailable", SETTLE_ATTEMPTS), ("aws.request.invalid", 1)],
)
def test_an_outage_is_waited_for_so_often_and_a_refused_request_never(
    code: str, tries: int
) -> None:
    services: Any = WorkerServices()
    services.settlements = Failing(code)
    services.rt = SimpleNamespace(rng=Random(1))
    with pytest.raises(StoreError):
        run_virtually(settle(claimed_run(fence=1), JOB, services))
    assert services.settlements.tries == tries


def test_a_refused_deferral_may_follow_an_applied_success() -> None:
    class Unanswered:
        succeed = AsyncMock(side_effect=[*[StoreError("no")] * DEFERRED_FROM, True])
        defer = AsyncMock(return_value=False)

    services: Any = WorkerServices()
    services.settlements, services.rt = Unanswered(), SimpleNamespace(rng=Random(1))
    run = claimed_run(fence=1)
    run.outcome, run.ctx.caller.in_flight.acquired_at = Succeeded("1"), 0.0
    run_virtually(settle(run, JOB, services))
    assert (run.outcome, run.journal.patient) == (Succeeded("1"), False)


@pytest.mark.parametrize(
    ("outcome", "by"),
    [
        (Deferred(envelope(), 9.0, NEWER_WORKERS), "defer"),
        (Retry(envelope(), 9.0), "schedule_retry"),
    ],
)
async def test_only_a_deferral_is_noted_on_the_job(
    outcome: Deferred | Retry, by: str
) -> None:
    services: Any = WorkerServices()
    assert await settle(chunk_run(outcome), JOB, services) == 9.0
    assert [by] == [name for name, _ in services.settlements.asked]
    assert ([outcome] if by == "defer" else []) == services.deferrals


@pytest.mark.parametrize(
    ("compensation", "stage"), [(None, None), (CompensationResult.COMPENSATED, "first")]
)
async def test_only_a_compensated_chunk_resumes_at_another_stage(
    compensation: CompensationResult | None, stage: str | None
) -> None:
    outcome = Cancelled("second", compensation)
    run = chunk_run(outcome, completed={"first": "1"}, compensated={"first": None})
    by, facts = await written(run)
    assert (by, facts["resume_at"]) == ("cancel", stage)


@pytest.mark.parametrize(
    ("pipeline", "owned", "value", "on_item"),
    [
        (LATE, claim(), '"two"', True),
        (EARLY, claim(), '"two"', False),
        (LATE, LATER, '"two"', False),
        (LATE, claim(), "null", False),
        (LATE, claim(), LARGE, False),
    ],
)
async def test_a_small_result_lies_on_its_chunk_and_any_other_last_value_beside_it(
    pipeline: Pipeline, owned: Claim, value: str, *, on_item: bool
) -> None:
    async def value_writes(index: int, last_value: str) -> list[Any]:
        return [(index, last_value)]

    run = chunk_run(Succeeded(value), pipeline, owned)
    run.checkpoints = SimpleNamespace(
        completed={"first": '"one"'}, value_writes=value_writes
    )
    by, facts = await written(run)
    assert by == "succeed"
    assert (value if on_item else None) == facts.get("value")
    assert ([] if on_item else [(1, value)]) == facts.get("also", [])


async def test_a_dead_letter_is_counted_in_the_generation_of_its_claim() -> None:
    services: Any = WorkerServices()
    counting = SimpleNamespace(counting_failure=lambda ref, gen: (ref, gen))
    services.rt = SimpleNamespace(transitions=counting)
    cached = SimpleNamespace(**{**vars(JOB), "tolerated_chunks": 1})
    outcome = DeadLettered(envelope(stage="first"), CompensationResult.NOT_NEEDED)
    assert await write(chunk_run(outcome, owned=LATER), cached, services)  # type: ignore[arg-type]
    [(_, facts)] = services.settlements.asked
    assert facts["also"] == [(JOB.ref, LATER.gen)]
