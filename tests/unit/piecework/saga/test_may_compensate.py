from __future__ import annotations

from typing import Any

import pytest

from piecework.pipelines import Pipeline, Stage
from piecework.saga.compensation import may_compensate
from tests.unit.piecework.fakes import Clause


async def book(_: Any) -> None: ...


async def pay(_: Any) -> None: ...


async def write(_: Any) -> None: ...


@pytest.mark.parametrize(
    ("stage", "may"),
    [("book", True), ("pay", False), ("write", False), ("join", True)],
)
def test_no_chunk_is_compensated_from_its_pivot_on(stage: str, *, may: bool) -> None:
    stages = [Stage(book), Stage(pay, pivot=True), Stage(write)]
    pipeline = Pipeline(name="trip", payload=Clause, stages=stages)
    assert may is may_compensate(pipeline, stage)


def test_without_a_pivot_every_stage_may_be_compensated() -> None:
    pipeline = Pipeline(name="trip", payload=Clause, stages=[Stage(book)])
    assert may_compensate(pipeline, "book")
