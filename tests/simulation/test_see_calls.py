"""Guarantee: of each call one sees how it went, and of a refused one what was said."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import Any

import pytest
from pydantic import BaseModel

from piecework import Context, Dependency, Effect, Pipeline, Stage, TransientError
from piecework.domain.kept_call import MOST_LETTERS
from piecework.llm import Model, ModelAnswer, ModelRequest
from piecework.resilience.retry import RetryPolicy
from piecework_orchestrator.reading.call_documents import (
    call_document,
    call_documents,
)
from tests.scenarios.pipelines import Item
from tests.simulation.test_new_code import deploy
from tests.unit.orchestrator.simulated import REF, Simulated, simulate

Document = dict[str, Any]

BUSY = "llm.http.503_unavailable"

service = Dependency("service", retry=RetryPolicy(attempts=3, base=1.0))
bank = Dependency("bank", effect=Effect.PROVIDER_IDEMPOTENT)
failures: deque[str] = deque()
said: deque[str] = deque()


@service.call
async def look(n: int) -> str:
    await asyncio.sleep(0.5)
    if failures:
        raise TransientError("busy", code=failures.popleft())
    return f"seen {n}"


@bank.call
async def pay(n: int, idempotency_key: str = "") -> str:
    await asyncio.sleep(0.2)
    return f"paid {n}"


async def say(request: ModelRequest) -> ModelAnswer:
    await asyncio.sleep(1.0)
    if said[0] == BUSY:
        raise TransientError("busy", code=said.popleft())
    return ModelAnswer(said.popleft(), tokens_in=1_000, tokens_out=50, usd=0.002)


class Score(BaseModel):
    points: int


judge = Model("judge", say, repairs=1)


async def score(ctx: Context[Item]) -> int:
    await look(ctx.payload.n)
    await pay(ctx.payload.n)
    found = await judge.ask("Score it.", "the text", returns=Score)
    return found.points


scoring = Pipeline("scoring", payload=Item, stages=[Stage(score)])


def calls_of(*answers: str, codes: str = "", **settings: Any) -> list[Document]:
    """Run a chunk whose model says this; return its calls, whole."""
    failures.extend(codes.split())
    said.extend(answers)

    async def act(sim: Simulated) -> list[Document]:
        await sim.submit(scoring, [Item(n=7)])
        await sim.ended()
        job = await sim.rt.jobs.read(REF)
        assert job is not None
        listed = await call_documents(sim.rt, job, 0)
        numbers = [call["call"] for call in listed]
        assert [*range(1, len(listed) + 1)] == numbers
        return [await call_document(sim.rt, job, 0, n) for n in numbers]

    try:
        return simulate(act, [scoring], **settings)
    finally:
        failures.clear()
        said.clear()


def test_each_call_says_how_long_it_took_and_what_it_used() -> None:
    looked, paid, asked = calls_of('{"points": 3}', codes="tool.http.timeout")

    assert ("score", "service", "made", 2) == tuple(
        looked[name] for name in ("stage", "dependency", "end", "attempts")
    )
    (failed,) = looked["failed_attempts"]
    assert "tool.http.timeout" == failed["code"]
    assert looked["took_s"] == pytest.approx(1.0 + failed["delay_s"], abs=0.01)
    assert ("bank", "made", "DONE") == (paid["dependency"], paid["end"], paid["effect"])
    assert "paid 7" == paid["answer"]
    assert (1_000, 50, 0.002) == (
        asked["tokens_in"],
        asked["tokens_out"],
        asked["usd"],
    )
    assert asked["asked_at"] > paid["asked_at"] > looked["asked_at"]
    assert not any(call["arguments_kept"] for call in (looked, paid, asked))
    assert "PIECEWORK_RECORD_CALLS=all" in asked["missing"]


def test_an_answer_that_was_mended_is_kept_with_its_repair() -> None:
    *_, first, repair = calls_of('{"points": "many"}', '{"points": 3}')

    assert ("made", "made") == (first["end"], repair["end"])
    assert repair["arguments_kept"]
    turns = repair["arguments"]["request"]["turns"]
    assert '{"points": "many"}' in json.dumps(turns[1]["text"]).replace("\\", "")
    assert "points" in turns[2]["text"]
    assert '{"points": 3}' == repair["answer"]["text"]


def test_the_answer_that_ended_a_chunk_is_kept_with_what_does_not_fit() -> None:
    *_, last = calls_of('{"points": "many"}', '{"points": "more"}')

    assert ("failed", "llm.output.invalid") == (last["end"], last["code"])
    (refused,) = last["refused"]
    assert {"points": "more"} == refused["answer"]
    assert ["points"] == [place["at"] for place in refused["places"]]
    assert "the text" in json.dumps(last["arguments"])


@pytest.mark.parametrize(("keeps", "kept"), [("all", 3), ("none", 0)])
def test_a_setting_decides_which_arguments_are_kept(keeps: str, kept: int) -> None:
    calls = calls_of('{"points": 3}', record_calls=keeps)

    assert kept == sum(call["arguments_kept"] for call in calls)
    if kept:
        assert {"n": 7} == calls[0]["arguments"]
        assert "seen 7" == calls[0]["answer"]
        assert not any(call["missing"] for call in calls)


def paying(amount: int, *, fails: bool = False) -> Pipeline:
    """Return a version of a pipeline that pays so much."""

    async def settle(_: Context[Item]) -> None:
        await pay(amount)
        if fails:
            message = "later"
            raise TransientError(message, code="tool.x.y", retry_after=5.0)

    return Pipeline("paying", payload=Item, stages=[Stage(settle)])


def test_a_call_that_was_held_back_and_never_sent_leaves_no_record() -> None:
    async def act(sim: Simulated) -> list[Document]:
        await sim.submit(first, [Item(n=7)])
        for code in ("tool.x.y", "runtime.code.changed"):
            async with asyncio.timeout(600):
                while True:
                    [chunk] = await sim.chunks()
                    if chunk.error_code == code:
                        break
                    await asyncio.sleep(0.1)
            if code == "tool.x.y":
                await deploy(sim, paying(2))
        job = await sim.rt.jobs.read(REF)
        assert job is not None
        return await call_documents(sim.rt, job, 0)

    first = paying(1, fails=True)
    listed = simulate(act, [first], max_attempts=9)

    assert ["made"] == [call["end"] for call in listed]


def test_a_long_answer_is_kept_up_to_its_limit() -> None:
    *_, last = calls_of("no", "x" * (MOST_LETTERS + 9))

    (refused,) = last["refused"]
    assert refused["answer"].endswith("(9 characters more)")


def test_a_call_that_failed_before_the_chunk_succeeded_keeps_no_arguments() -> None:
    first, *_ = calls_of(
        '{"points": 3}',
        codes="tool.http.timeout tool.http.timeout tool.http.timeout",
        max_attempts=2,
    )

    assert ("failed", "tool.http.timeout") == (first["end"], first["code"])
    assert not first["arguments_kept"]


def test_an_answer_that_a_later_claim_replayed_was_made_once() -> None:
    calls = calls_of(*[BUSY] * 4, '{"points": 3}', max_attempts=2)

    looked, paid, failed, asked = calls
    assert [[2], [2]] == [call["replayed_by"] for call in (looked, paid)]
    assert (1, "made", "seen 7") == (looked["claim"], looked["end"], looked["answer"])
    assert (1, "failed", 4) == (failed["claim"], failed["end"], failed["attempts"])
    assert (2, "made") == (asked["claim"], asked["end"])
