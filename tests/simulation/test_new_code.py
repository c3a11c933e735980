"""A new version of a pipeline goes on with the chunks of the one before.

True workers on the simulated AWS. Version 1 runs until a stage waits. Then its workers
are killed, and version 2 goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from pydantic import BaseModel

from piecework import (
    Context,
    Dependency,
    Effect,
    PermanentError,
    Pipeline,
    Results,
    Stage,
    TransientError,
)
from piecework.domain.chunk import Chunk
from piecework.domain.dead_letter import DeadLetterRow
from piecework.store.results import stored_results
from piecework_orchestrator.dead_letters.redrive import redrive
from tests.unit.orchestrator.simulated import Simulated, redrive_of, simulate

RETRY_S = 30.0

shop = Dependency("shop", effect=Effect.PROVIDER_IDEMPOTENT)


class Item(BaseModel):
    n: int = 0


async def reserve(name: str, *, idempotency_key: str) -> str:
    """Answer a call."""
    del idempotency_key
    return name


@dataclass(frozen=True)
class Version:
    """A version of the pipeline: its stages by letters, and what some of them do.

    Attributes:
        stages: The order of the stages.
        waits: Those that fail once, and are tried again half a minute later.
        refuses: Those that fail for good.
        undo: Those with a compensation.
        calls: Those that make a call with an effect.
        none: Those that return None.
        result, pivot: The stage that is it; empty: the last one, or none.
    """

    stages: str
    waits: str = ""
    refuses: str = ""
    undo: str = ""
    calls: str = ""
    none: str = ""
    result: str = ""
    pivot: str = ""


@dataclass
class Deployment:
    """What the versions of the pipeline did."""

    did: list[str] = field(default_factory=list)
    #: The values that each stage saw when it ran last.
    seen: dict[str, dict[str, Any]] = field(default_factory=dict)

    def pipeline(self, version: Version) -> Pipeline:
        """Return a version of the pipeline."""
        stages = [self.stage(name, version) for name in version.stages]
        results = {stage.name: stage.run for stage in stages}
        return Pipeline(
            "shop",
            payload=Item,
            stages=stages,
            result=results.get(version.result),
        )

    def stage(self, name: str, version: Version) -> Stage:
        """Return a stage."""

        async def run(ctx: Context[Item]) -> str | None:
            self.did.append(name)
            self.seen[name] = dict(ctx.values)
            if name in version.calls:
                await ctx.call(shop, reserve, name)
            if name in version.waits and self.did.count(name) == 1:
                message = "later"
                raise TransientError(message, code="tool.x.y", retry_after=RETRY_S)
            if name in version.refuses:
                message = "no"
                raise PermanentError(message, code="tool.x.no")
            return None if name in version.none else name.upper()

        async def undo(ctx: Context[Item]) -> None:
            del ctx
            self.did.append(f"-{name}")

        compensate = undo if name in version.undo else None
        pivot = name == version.pivot
        return Stage(run, compensate=compensate, name=name, pivot=pivot)


@dataclass
class End:
    """The end of the job: its chunk, its result, and its dead letter."""

    chunk: Chunk
    result: str
    letters: list[DeadLetterRow]

    @property
    def facts(self) -> tuple[str, str]:
        """The status of the chunk and the result of its compensation."""
        return str(self.chunk.status), self.chunk.compensation


async def deploy(at: Simulated, pipeline: Pipeline) -> None:
    """Replace the workers by those of another version."""
    for process in list(at.fleet.workers):
        at.world.kill(process)
    at.fleet.pipelines[pipeline.name] = pipeline
    at.fleet.worker(reconcile=True)


async def waits(at: Simulated, stage: str) -> None:
    """Wait until the chunk waits at a stage."""
    while True:
        [chunk] = await at.chunks()
        if (chunk.status, chunk.stage) == ("WAITING", stage):
            return
        await asyncio.sleep(RETRY_S / 10)


async def end_of(at: Simulated) -> End:
    """Return the end of the job."""
    await at.ended()
    [chunk] = await at.chunks()
    result = "none"
    if chunk.status == "SUCCEEDED":
        ((_, row),) = await stored_results(at.rt.table, chunk.ref.pk, [chunk])
        result = "null" if row is None else await at.rt.objects.get_value(row, "")
    return End(chunk, result, await at.letters())


def test_a_join_runs_again_in_a_later_generation() -> None:
    """What it returned before is not that of all chunks."""
    counted: list[int] = []

    async def count(results: Results[str]) -> int:
        counted.append(len([one.value async for one in results]))
        return counted[-1]

    shop_of, broken = Deployment(), Version("ab", refuses="b")
    pipeline = replace(shop_of.pipeline(broken), join=count)
    mended = replace(shop_of.pipeline(replace(broken, refuses="")), join=count)

    async def act(at: Simulated) -> End:
        await at.submit(pipeline, [Item()])
        await at.ended()
        await deploy(at, mended)
        await redrive(at.rt, redrive_of(await at.letters()))
        return await end_of(at)

    simulate(act, [pipeline])

    assert [0, 1] == counted


def run(*versions: Version, then: Callable[[Simulated], Any] | None = None) -> Any:
    """Run version after version; return what they did, and the end of the job."""
    shop_of = Deployment()
    first, *others = (shop_of.pipeline(version) for version in versions)

    async def act(at: Simulated) -> End:
        await at.submit(first, [Item()])
        for version, pipeline in zip(versions, others, strict=False):
            await waits(at, version.waits)
            await deploy(at, pipeline)
        if then is not None:
            await at.ended()
            await then(at)
        return await end_of(at)

    return shop_of, simulate(act, [first], max_attempts=9)


OLD = Version("abc", waits="b")


@pytest.mark.parametrize(
    ("old", "new", "did", "result"),
    [
        # Nothing changed, and what stands before the chunk's place changed.
        (OLD, OLD, "a b b c", "C"),
        (OLD, Version("bac"), "a b b c", "C"),
        (OLD, Version("xabc"), "a b x b c", "C"),
        (OLD, Version("axbc"), "a b x b c", "C"),
        (OLD, Version("bc"), "a b b c", "C"),
        (OLD, Version("abcz"), "a b b c z", "Z"),
        (Version("abc", waits="c"), Version("cab"), "a b c c", "B"),
        (Version("abc", waits="c"), Version("xcab"), "a b c x c", "B"),
        (Version("abc", waits="c", none="ab"), Version("axbc"), "a b c x c", "C"),
        (Version("abc", waits="b", calls="a"), Version("bac"), "a b b c", "C"),
        # The place of the result changed.
        (Version("abc", waits="c"), Version("abc", result="b"), "a b c c", "B"),
        (Version("abc", waits="c"), Version("abc", result="a"), "a b c c", "A"),
        (Version("abc", waits="b", result="a"), Version("abc"), "a b b c", "C"),
        (
            Version("abc", waits="b", result="a"),
            Version("abc", result="b"),
            "a b b c",
            "B",
        ),
        (
            Version("abc", waits="c", result="b", none="b"),
            Version("xabc", result="a"),
            "a b c x c",
            "A",
        ),
        (
            Version("abc", waits="b", result="a", none="a"),
            Version("xabc", none="c"),
            "a b x b c",
            "null",
        ),
        (
            Version("abc", waits="b", result="a"),
            Version("bca", none="c"),
            "a b b c",
            "A",
        ),
    ],
)
def test_each_stage_runs_once_whatever_the_order_is_now(
    old: Version, new: Version, did: str, result: str
) -> None:
    shop_of, end = run(old, new)

    assert did.split() == shop_of.did
    assert ("SUCCEEDED", f'"{result}"') == (end.chunk.status, end.result) or (
        result == end.result == "null"
    )


@pytest.mark.parametrize("result", ["", "a", "b", "c"])
@pytest.mark.parametrize("before", ["", "a", "b"])
def test_a_stage_sees_each_value_wherever_the_result_is(
    before: str, result: str
) -> None:
    """The third version finds rows of both versions before it."""
    versions = [
        Version("abcd", waits="b", result=before),
        Version("abcd", waits="c", result=result),
        Version("abcd"),
    ]

    shop_of, end = run(*versions)

    assert ["a", "b", "b", "c", "c", "d"] == shop_of.did
    assert {"a": "A", "b": "B", "c": "C"} == shop_of.seen["d"]
    assert '"D"' == end.result


@pytest.mark.parametrize(
    ("old", "new", "facts", "left", "undone"),
    [
        # The stage that reserved is gone: nothing can compensate it.
        (
            Version("abc", waits="b", undo="a"),
            Version("bc", refuses="c"),
            "FAILED",
            ["a"],
            [],
        ),
        (
            Version("abc", waits="b", calls="a"),
            Version("bc", refuses="c"),
            "FAILED",
            ["a"],
            [],
        ),
        (
            Version("abc", waits="b", undo="a"),
            Version("bc", refuses="c", undo="b"),
            "FAILED",
            ["a"],
            ["-b"],
        ),
        (Version("abc", waits="b"), Version("bc", refuses="c"), "NOT_NEEDED", [], []),
        # A stage that never ran is not compensated.
        (
            Version("abc", waits="b", undo="a"),
            Version("axbc", refuses="x", undo="ab"),
            "COMPENSATED",
            [],
            ["-a"],
        ),
        (
            Version("abc", waits="b", undo="a"),
            Version("bac", refuses="b", undo="a"),
            "COMPENSATED",
            [],
            ["-a"],
        ),
    ],
)
def test_what_ran_is_compensated_or_said_to_be_left(
    old: Version, new: Version, facts: str, left: list[str], undone: list[str]
) -> None:
    shop_of, end = run(old, new)

    assert ("DEAD", facts) == end.facts
    assert left == end.letters[0].uncompensated_stages
    assert undone == [name for name in shop_of.did if name.startswith("-")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # A stage that has acted has another name.
        (
            Version("abc", waits="b", calls="a"),
            Version("xbc", calls="x"),
        ),
        (
            Version("abc", waits="b", undo="a"),
            Version("xbc", undo="x"),
        ),
        # What came before the pivot would be compensated after it.
        (
            Version("abc", waits="c", pivot="b", undo="a"),
            Version("axbc", refuses="x", pivot="b", undo="a"),
        ),
        (
            Version("abc", waits="c", pivot="b", undo="a"),
            Version("abc", refuses="c", undo="a"),
        ),
    ],
)
def test_an_unsafe_change_stops_the_chunk_until_the_old_version_is_back(
    old: Version, new: Version
) -> None:
    shop_of = Deployment()
    first, second = shop_of.pipeline(old), shop_of.pipeline(new)
    stopped: list[Chunk] = []

    async def act(at: Simulated) -> End:
        await at.submit(first, [Item()])
        await waits(at, old.waits)
        await deploy(at, second)
        while not stopped:
            await asyncio.sleep(RETRY_S / 10)
            [chunk] = await at.chunks()
            stopped.extend(
                [chunk] if chunk.blocked_on == "workers of another version" else []
            )
        await deploy(at, first)
        return await end_of(at)

    end = simulate(act, [first], max_attempts=9)

    done = "abc"[: "abc".index(old.waits) + 1]
    assert [*done, *"abc"[len(done) - 1 :]] == shop_of.did
    assert "runtime.code.changed" == stopped[0].error_code
    assert 1 == stopped[0].attempts
    assert "SUCCEEDED" == end.chunk.status


def test_a_chunk_that_no_safe_version_takes_is_dead_and_says_why() -> None:
    old, new = Version("abc", waits="b", undo="a"), Version("xbc", undo="x")

    shop_of, end = run(old, new)

    assert ["a", "b"] == shop_of.did
    assert ("DEAD", "ABANDONED") == end.facts
    assert "runtime.code.changed" == end.letters[0].error_code
    assert "'x' may be it" in end.letters[0].error
    assert ["a"] == end.letters[0].uncompensated_stages


@pytest.mark.parametrize(
    ("old", "new", "did"),
    [
        ("abcd", "abcd", "a b c d -b b c d"),
        ("abcd", "bacd", "a b c d -b b c d"),
        ("abcd", "axbcd", "a b c d -b x b c d"),
        ("abcd", "acbd", "a b c d -b c b d"),
    ],
)
def test_a_redrive_runs_again_what_completed_after_a_compensated_stage(
    old: str, new: str, did: str
) -> None:
    broken = Version(old, undo="b", refuses="d")
    shop_of = Deployment()
    pipeline = shop_of.pipeline(broken)

    async def act(at: Simulated) -> End:
        await at.submit(pipeline, [Item()])
        await at.ended()
        await deploy(at, shop_of.pipeline(replace(broken, stages=new, refuses="")))
        await redrive(at.rt, redrive_of(await at.letters()))
        return await end_of(at)

    end = simulate(act, [pipeline])

    assert did.split() == shop_of.did
    assert "SUCCEEDED" == end.chunk.status


def test_a_rollback_stops_a_chunk_whose_call_had_moved_to_a_later_stage() -> None:
    """Version 2 has completed the first stage without the call, and is gone."""
    acts: list[str] = []

    async def pay(ctx: Context[Item]) -> str:
        acts.append("pay")
        return await ctx.call(shop, reserve, "pay")

    async def no_pay(ctx: Context[Item]) -> str:
        del ctx
        return ""

    async def wait(ctx: Context[Item]) -> str:
        if ctx.attempt == 1:
            message = "later"
            raise TransientError(message, code="tool.x.y", retry_after=RETRY_S)
        return ""

    first = Pipeline("shop", payload=Item, stages=[Stage(pay), Stage(wait)])
    moved = [Stage(no_pay, name="pay"), Stage(wait), Stage(pay, name="late")]
    second = replace(first, stages=moved)

    async def act(at: Simulated) -> End:
        await deploy(at, second)
        await at.submit(first, [Item()])
        await waits(at, "wait")
        await deploy(at, first)
        return await end_of(at)

    end = simulate(act, [first], max_attempts=9)

    assert [] == acts
    assert "runtime.code.changed" == end.chunk.error_code
