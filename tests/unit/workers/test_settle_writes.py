"""Which write ends a claim, and with what: one for each way out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from piecework.domain.claim import Claim
from piecework.domain.outcome import (
    NEWER_WORKERS,
    Cancelled,
    Compensation,
    Deferred,
    Retry,
    Succeeded,
)
from piecework.pipeline import Pipeline
from piecework.store.results import INLINE_BYTES
from piecework_worker.run import RunResult
from piecework_worker.settle import settle, write
from tests.unit.piecework.fakes import Log, envelope
from tests.unit.piecework.store.tables import claim
from tests.unit.workers.test_settle import EARLY, JOB, LATE, task

LATER = claim(gen=2)
LARGE = f'"{"x" * INLINE_BYTES}"'


class Ends:
    """Notes which write was asked for, and with what."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        async def end(*_: Any, **facts: Any) -> bool:
            self.asked.append((name, facts))
            return True

        return end


class WorkerServices:
    """Has only a worker's writes, and records the deferrals."""

    def __init__(self) -> None:
        self.settlements = Ends()
        self.deferrals: list[Deferred] = []

    async def note_blocked(self, _: Any, deferred: Deferred) -> None:
        self.deferrals.append(deferred)


async def written(here: Any, outcome: Any) -> tuple[str, dict[str, Any]]:
    """Settle an outcome; return the write that was used, and its arguments."""
    services: Any = WorkerServices()
    assert (True, None) == await write(RunResult(here, outcome), JOB, services)
    [asked] = services.settlements.asked
    return asked  # type: ignore[no-any-return]


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
    log: Any = Log()
    assert await settle(RunResult(task(), outcome), JOB, services, log) == 9.0
    assert [by] == [name for name, _ in services.settlements.asked]
    assert ([outcome] if by == "defer" else []) == services.deferrals


@pytest.mark.parametrize(
    ("compensation", "stage"), [(None, None), (Compensation.COMPENSATED, "first")]
)
async def test_only_a_compensated_chunk_resumes_at_another_stage(
    compensation: Compensation | None, stage: str | None
) -> None:
    here = task(completed={"first": "1"}, compensated={"first": None})
    by, facts = await written(here, Cancelled("second", compensation))
    assert (by, facts["resume_at"]) == ("cancel", stage)


@pytest.mark.parametrize(
    ("pipeline", "held", "value", "on_item"),
    [
        (LATE, claim(), '"two"', True),
        (EARLY, claim(), '"two"', False),
        (LATE, LATER, '"two"', False),
        (LATE, claim(), "null", False),
        (LATE, claim(), LARGE, False),
    ],
)
async def test_a_small_result_lies_on_its_chunk_and_any_other_last_value_beside_it(
    pipeline: Pipeline, held: Claim, value: str, *, on_item: bool
) -> None:
    async def value_actions(index: int, last_value: str) -> list[Any]:
        return [(index, last_value)]

    here = task(pipeline, held)
    here.checkpoints = SimpleNamespace(
        completed={"first": '"one"'}, value_actions=value_actions
    )
    by, facts = await written(here, Succeeded(value))
    assert by == "succeed"
    assert (value if on_item else None) == facts.get("value")
    assert ([] if on_item else [(1, value)]) == facts.get("also", [])
