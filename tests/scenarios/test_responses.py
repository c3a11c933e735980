"""Guarantee: a response that a job has paid for is shared with the tenant's others."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from piecework import Context, Dependency, Pipeline, Stage
from piecework.domain.states import JobStatus
from piecework_orchestrator.reading.job_documents import job_document
from tests.scenarios import conftest
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import QUICK, note

model = Dependency("model", retry=QUICK, layer="llm", cache_ttl_s=3600)


class Question(BaseModel):
    """A prompt, and how a stage must ask it."""

    prompt: str
    temperature: float = 0.0


async def complete(prompt: str, *, temperature: float, idempotency_key: str) -> str:
    """Be a model that is paid by the call."""
    note("paid", prompt, temperature, idempotency_key[:8])
    return prompt.upper()


async def ask(ctx: Context[Question]) -> str:
    """Ask the model."""
    asked = ctx.payload
    return await ctx.call(model, complete, asked.prompt, temperature=asked.temperature)


asking = Pipeline(name="asking", payload=Question, stages=[Stage(ask)])
elsewhere = Pipeline(name="elsewhere", payload=Question, stages=[Stage(ask)])


async def test_two_jobs_pay_for_an_equal_call_once(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(conftest.ALL, asking.name, asking)
    questions = [Question(prompt="hello"), Question(prompt="bye", temperature=0.7)]
    async with scenario.worker():
        await scenario.submit(asking, questions, "first")  # type: ignore[arg-type]
        await scenario.ended("first")
        again = [*questions, Question(prompt="hello", temperature=0.7)]
        await scenario.submit(asking, again, "second")  # type: ignore[arg-type]
        ended = await scenario.ended("second")

    shown = await job_document(scenario.rt, ended)
    first = (await scenario.chunks("second"))[0]
    assert ended.status is JobStatus.SUCCEEDED
    assert scenario.happened("paid") == 3
    none = {"lost_claims": 0, "paid_again": 0, "running": 0}
    assert {"paid": 1, "cached": 2, **none}.items() <= shown["calls"].items()
    assert (first.item["calls"], first.item["cached_calls"]) == (0, 1)


async def test_another_pipeline_pays_for_its_own_answer(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scenario.worker():
        for pipeline in (asking, elsewhere):
            monkeypatch.setitem(conftest.ALL, pipeline.name, pipeline)
            question = [Question(prompt="hello")]
            await scenario.submit(pipeline, question, pipeline.name)  # type: ignore[arg-type]
            await scenario.ended(pipeline.name)
    assert scenario.happened("paid") == 2
