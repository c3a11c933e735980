"""A stage in a child process maps: its rows go to the worker, pages come back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel

from piecework import Context
from piecework.domain.child import ChildStart
from piecework.domain.map_rows import MapRows
from piecework.domain.outcome import Mapped
from piecework.domain.protocols import (
    ChildEnd,
    RowFailure,
    StoredResult,
    WaitRequestedError,
)
from piecework.errors import UsageError
from piecework.pipelines import Pipeline, Stage
from piecework_worker.isolation import child_maps
from tests.unit.piecework.fakes import Clause
from tests.unit.workers.isolation.both_ends import bench


class Row(BaseModel):
    n: int


async def work(ctx: Context[Row]) -> int:
    return ctx.payload.n


child = Pipeline("child", payload=Row, stages=[Stage(work)])
ROWS = 500


async def spread(ctx: Context[Clause]) -> list[int]:
    found = await ctx.map(child, [Row(n=n) for n in range(ROWS)])
    failed = [each.row async for each in found.failures()]
    twice = [[each.value async for each in found] for _ in range(2)]
    assert twice[0] == twice[1]
    return [found.succeeded, *failed, sum(twice[0])]


@dataclass
class Fake:
    """The children of the worker's side: one child, which has ended or not."""

    ended: bool
    known: bool = True
    rows: list[int] = field(default_factory=list)

    def pipeline_of(self, name: str) -> Pipeline:
        if not self.known:
            message = f"no {name}"
            raise UsageError(message, code="pipeline.map.unknown")
        return child

    async def find(self, job: str, stage: str, rows: MapRows) -> ChildEnd:
        self.rows = [json.loads(row.payload)["n"] async for row in rows.inputs()]
        if not self.ended:
            start = ChildStart(job, "child", stage, rows.count)
            raise WaitRequestedError(Mapped(start))
        return ChildEnd("PARTIAL", ROWS - 1, self)

    async def results(self) -> AsyncIterator[StoredResult]:
        for n in range(1, ROWS):
            yield StoredResult(n, f"row {n}", str(n))

    async def failures(self) -> AsyncIterator[RowFailure]:
        yield RowFailure(0, "row 0", "DEAD", "tool.input.invalid", "no")


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_maps, "PAGE_BYTES", 256)


async def run(fake: Fake) -> Any:
    async with bench(spread) as at:
        at.ctx.caller.children = fake
        session = at.session()
        try:
            return await session.run(at.request())
        except WaitRequestedError as wait:
            return wait.wait
        finally:
            session.close()


async def test_all_rows_and_all_results_pass_the_channel_in_order() -> None:
    fake = Fake(ended=True)
    result = await run(fake)
    assert json.loads(result.value) == [ROWS - 1, 0, sum(range(1, ROWS))]
    assert fake.rows == list(range(ROWS))


async def test_a_child_that_has_not_ended_ends_the_run() -> None:
    assert isinstance(await run(Fake(ended=False)), Mapped)


async def test_a_pipeline_that_the_worker_lacks_is_refused() -> None:
    result = await run(Fake(ended=True, known=False))
    assert result.failure.code == "pipeline.map.unknown"
