"""A pipeline with nothing to it but its stages."""

from __future__ import annotations

from typing import Any

from piecework.pipelines import Pipeline, Stage
from tests.unit.piecework.fakes import Clause


async def first(_: Any) -> str: ...  # type: ignore[empty-body]
async def second(_: Any) -> str: ...  # type: ignore[empty-body]
async def third(_: Any) -> str: ...  # type: ignore[empty-body]


PIPELINE = Pipeline(
    name="review",
    payload=Clause,
    stages=[Stage(first), Stage(second), Stage(third)],
    result=second,
)
