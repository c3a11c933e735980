"""Guarantee: a worker says at its start what could be better in the order of stages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.scenarios.command_line import end, start
from tests.scenarios.conftest import Scenario

MODULE = """
from pydantic import BaseModel
from piecework import Context, Pipeline, Stage

class Order(BaseModel):
    n: int

async def ship(ctx: Context[Order]) -> None: ...
async def charge(ctx: Context[Order]) -> None: ...

orders = Pipeline("orders", payload=Order, stages=[
    Stage(ship, reversibility="impossible"), Stage(charge, pivot=True),
])
"""


async def test_a_worker_gives_advice_on_the_order_in_one_event(
    machine: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "orders_of_a_scenario.py").write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    modules = ("orders_of_a_scenario", "tests.scenarios.pipelines")
    asked = [word for module in modules for word in ("--pipelines", module)]

    worker = await start("worker", *asked)
    assert worker.stderr is not None
    said = [json.loads(await worker.stderr.readline()) for _ in range(2)]
    worker.terminate()

    assert 0 == (await end(worker)).exit_code
    assert ["worker.started", "pipeline.lint_warning"] == [
        line["event"] for line in said
    ]
    assert [
        (
            "orders: 'ship' cannot be reversed, and runs before the pivot: "
            "move it after 'charge', the pivot."
        ),
        (
            "booking: 'send_number' numbers its calls of 'account': "
            "add `ordered_by=`, so that no chunk waits for an earlier number."
        ),
    ] == said[1]["advice"]
