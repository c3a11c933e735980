from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest.mock import AsyncMock

import pytest

from piecework.context import ChunkResult, Results
from piecework.dependency import Dependency
from piecework.domain.identity import named_call
from piecework.domain.protocols import MissingChunk, StoredResult
from piecework.errors import PermanentError, TransientError, UsageError
from piecework.pipelines import Pipeline, Stage
from tests.unit.piecework.fakes import Clause, Log, caller, context


async def extract(_: Any) -> str: ...  # type: ignore[empty-body]
async def count(_: Any) -> tuple[int, ...]: ...  # type: ignore[empty-body]
async def stranger(_: Any) -> str: ...  # type: ignore[empty-body]


PIPELINE = Pipeline(
    name="review", payload=Clause, stages=[Stage(extract), Stage(count)]
)


@dataclass
class JobResults:
    stored: list[StoredResult] = field(default_factory=list)
    missing: list[MissingChunk] = field(default_factory=list)
    written: dict[str, tuple[bytes, str]] = field(default_factory=dict)

    async def results(self) -> AsyncIterator[StoredResult]:
        for result in self.stored:
            yield result

    async def write(self, name: str, content: bytes, media_type: str) -> str:
        self.written[name] = (content, media_type)
        return f"at/{name}"


def join(job_results: JobResults, **facts: Any) -> Results:
    return Results(
        payload=None,
        pipeline=PIPELINE.name,
        stages=PIPELINE.names,
        tenant="acme",
        job="job",
        chunk=-1,
        attempt=1,
        caller=caller(**facts),
        log=Log(),  # type: ignore[arg-type]
        job_results=job_results,
        result_of=PIPELINE.stages[PIPELINE.result_index].run,
    )


def test_a_stage_reads_what_an_earlier_one_returned() -> None:
    ctx = context(PIPELINE, values={"extract": "text"})
    assert ctx.result(extract) == "text"


def test_a_stage_that_has_not_run_has_no_result() -> None:
    ctx = context(PIPELINE, stage="extract")
    with pytest.raises(UsageError, match="'extract' reads 'count'"):
        ctx.result(count)


def test_a_result_may_be_none() -> None:
    assert context(PIPELINE, values={"extract": None}).result(extract) is None


def test_a_stage_of_another_pipeline_has_no_result() -> None:
    with pytest.raises(UsageError, match="stranger is not a stage") as caught:
        context(PIPELINE).result(stranger)
    assert caught.value.code == "pipeline.declaration.invalid"


async def test_a_call_is_made_in_the_name_of_its_chunk_and_stage() -> None:
    seen: list[str] = []

    @named_call("ask")
    async def ask(word: str, *, times: int, idempotency_key: str) -> str:
        seen.append(idempotency_key)
        return word * times

    model = Dependency("model")
    for facts in ({}, {"chunk": 8}, {"stage": "count"}, {"job": "j"}, {"tenant": "t"}):
        ctx = context(PIPELINE, **({"caller": caller(), "stage": "extract"} | facts))
        assert await ctx.call(model, ask, "a", times=2) == "aa"
    assert len(set(seen)) == 5


def test_progress_reaches_the_watcher() -> None:
    signs: list[int] = []
    ctx = context(PIPELINE, caller=caller(progress=lambda: signs.append(1)))
    ctx.progress()
    assert signs == [1]


async def test_a_join_reads_results_as_the_result_stage_declares_them() -> None:
    signs: list[int] = []
    job_results = JobResults(
        [StoredResult(0, "a", "[1,2]"), StoredResult(2, "c", "[3]")]
    )
    ctx = join(job_results, progress=lambda: signs.append(1))
    found = [result async for result in ctx]
    assert found == [ChunkResult(0, "a", (1, 2)), ChunkResult(2, "c", (3,))]
    assert len(signs) == 2


async def test_a_result_of_another_type_stops_the_join() -> None:
    ctx = join(JobResults([StoredResult(0, "a", '"text"')]))
    with pytest.raises(PermanentError) as caught:
        [result async for result in ctx]
    assert caught.value.code == "runtime.value.unreadable"


def test_a_join_sees_the_missing_chunks() -> None:
    gone = MissingChunk(1, "b", "DEAD", "llm.content.filtered")
    assert join(JobResults(missing=[gone])).missing == (gone,)


async def test_an_artifact_is_saved_as_bytes_with_its_media_type() -> None:
    job_results = JobResults()
    ctx = join(job_results)
    assert await ctx.write("a.md", "\u00e9", media_type="text/markdown") == "at/a.md"
    await ctx.write("b.bin", b"\x00")
    assert job_results.written == {
        "a.md": ("\u00e9".encode(), "text/markdown"),
        "b.bin": (b"\x00", "application/octet-stream"),
    }


@pytest.mark.parametrize("name", ["../a", "a/b", ".a", "", "a b"])
async def test_an_artifact_may_not_name_a_path(name: str) -> None:
    job_results = JobResults()
    with pytest.raises(UsageError) as caught:
        await join(job_results).write(name, "text")
    assert caught.value.code == "pipeline.artifact.bad_name"
    assert job_results.written == {}


class Client:
    def __init__(self, account: str) -> None:
        self.account = account

    async def pay(self, cents: int, *, idempotency_key: str) -> str:
        return f"{self.account} {cents}"


async def send(account: str, cents: int, *, idempotency_key: str) -> str:
    return f"{account} {cents}"


def nested() -> Any:
    async def ask(*, idempotency_key: str) -> str:
        return idempotency_key

    return ask


@pytest.mark.parametrize(
    "nameless", [lambda **_: extract("a"), nested(), Client("eu").pay, AsyncMock()]
)
async def test_a_function_that_no_name_leads_to_is_not_called(nameless: Any) -> None:
    ctx = context(PIPELINE, stage="count")
    with pytest.raises(UsageError) as caught:
        await ctx.call(Dependency("model"), nameless)
    assert "pipeline.call.indistinct" == caught.value.code
    assert "named_call" in caught.value.next_step


async def test_a_partial_is_its_function_with_all_arguments() -> None:
    ctx = context(PIPELINE, stage="count")
    assert "eu 5" == await ctx.call(Dependency("model"), partial(send, "eu"), 5)
    assert "us 5" == await ctx.call(Dependency("model"), partial(send, "us"), 5)


async def test_two_functions_under_one_declared_name_are_not_one_call() -> None:
    ctx = context(PIPELINE, stage="count")
    declare = named_call("pay", version="1")
    await ctx.call(Dependency("bank"), declare(Client("eu").pay), 5)
    with pytest.raises(UsageError) as caught:
        await ctx.call(Dependency("bank"), declare(Client("us").pay), 5)
    assert "pipeline.call.indistinct" == caught.value.code


SENT: list[int] = []


async def add_tax(order: dict[str, int], *, idempotency_key: str) -> int:
    order["cents"] += 5
    SENT.append(order["cents"])
    if len(SENT) < 3:
        raise TransientError("not yet")
    return order["cents"]


async def test_each_attempt_gets_the_arguments_of_the_key() -> None:
    SENT.clear()
    ctx, order = context(PIPELINE, stage="count"), {"cents": 100}
    assert 105 == await ctx.call(Dependency("shop"), add_tax, order)
    assert [105, 105, 105] == SENT
    assert {"cents": 100} == order
