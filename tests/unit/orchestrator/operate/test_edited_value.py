"""A field of an edited value that nothing reads is refused, not dropped."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from piecework import Context, Pipeline, Stage
from piecework.domain.job import Job
from piecework.domain.refs import JobRef
from piecework.domain.rows import Row, StageRow
from piecework.errors import UsageError
from piecework.store.checkpoints import Work
from piecework_orchestrator.operate.run_again import Plan, RunAgain, require_known


class Price(BaseModel):
    amount: int
    currency: str = "EUR"


async def price(ctx: Context[Price]) -> Price:
    return ctx.payload


TOY = Pipeline("toy", payload=Price, stages=[Stage(price)])


def test_the_type_of_the_stage_knows_its_fields() -> None:
    RunAgain("price", '{"amount": 1, "currency": "USD"}', pipeline=TOY).check()
    with pytest.raises(UsageError) as refused:
        RunAgain("price", '{"amount": 1, "curency": "USD"}', pipeline=TOY).check()
    assert refused.value.code == "redrive.field.unknown"
    assert "'curency' (did you mean 'currency'?)" in refused.value.message


class Bucket:
    """A bucket with no large value."""

    async def get_value(self, row: Row, prefix: str) -> str:
        return str(row.item["value"])


async def known(stored: Any, value: Any) -> None:
    """Compare a new value with the stored one."""
    item = {"stage": "price", "finished_at": "", "value": json.dumps(stored)}
    plan = Plan(Work({}, None), [StageRow(item)], [], [])
    ref = JobRef("t", "j")
    facts = {"status": "PARTIAL", "gen": 1, "chunks": 1, "pipeline": "toy"}
    rt: Any = SimpleNamespace(objects=Bucket())
    wanted = RunAgain("price", json.dumps(value))
    await require_known(rt, Job.read(ref, facts), plan, wanted)


@pytest.mark.parametrize(
    ("stored", "value"),
    [({"amount": 1}, {"amount": 2}), ("text", {"any": 1}), ({"a": 1}, "text")],
)
async def test_the_stored_value_knows_its_fields(stored: Any, value: Any) -> None:
    await known(stored, value)


async def test_a_field_that_was_not_stored_is_refused() -> None:
    with pytest.raises(UsageError) as refused:
        await known({"amount": 1}, {"amuont": 2})
    assert refused.value.code == "redrive.field.unknown"
    assert (
        "the stored value of stage 'price' has no such field" in refused.value.message
    )
