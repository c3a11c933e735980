"""Guarantee: `jobs explain` names an argument that is drawn anew in each run."""

from __future__ import annotations

from itertools import count

import pytest

from piecework import Context, Dependency, Pipeline, Stage
from piecework.domain.states import JobStatus
from piecework.errors import TransientError
from piecework.explain.causes import find
from piecework.explain.situation import read_situation
from tests.scenarios import conftest
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import QUICK, Item, note

model = Dependency("model", retry=QUICK, layer="llm")
times = count()


async def complete(text: str, at: int) -> str:
    """Be a model that is paid by the call."""
    note("paid", text, at)
    return text


async def ask(ctx: Context[Item]) -> str:
    """Ask with the time, and fail after the first attempt."""
    answer = await ctx.call(model, complete, "hello", at=next(times))
    if ctx.attempt == 1:
        message = "The stage fails once."
        raise TransientError(message, code="tool.http.503_unavailable")
    return answer


drawing_anew = Pipeline(name="drawing-anew", payload=Item, stages=[Stage(ask)])


async def test_an_argument_that_differs_in_each_run_is_a_finding(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setitem(conftest.ALL, drawing_anew.name, drawing_anew)
    async with scenario.worker():
        await scenario.submit(drawing_anew, [Item(n=0)])
        ended = await scenario.ended()

    found = find(await read_situation(scenario.rt, ended))
    told = {finding.kind.code: finding.message for finding in found}
    assert ended.status is JobStatus.SUCCEEDED
    assert 2 == scenario.happened("paid")
    assert told["call.key.unstable"] == (
        "Stage ask was repeated, and none of its stored calls of "
        "tests.scenarios.test_unstable_keys.complete (model) was asked for again: "
        "argument at differs in each run."
    )
    assert 1 == capsys.readouterr().out.count("call.key_unstable")
