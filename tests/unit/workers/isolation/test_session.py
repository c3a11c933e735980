from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from piecework.context import Context
from piecework.dependency import Dependency
from piecework.domain.effect import Effect
from piecework.domain.identity import named_call
from piecework.domain.outcome import Sleeping
from piecework.domain.protocols import ClaimLostError, WaitRequestedError
from piecework.errors import PermanentError, StoreError, TransientError
from piecework.resilience.retry import RetryPolicy
from piecework.saga import stage as stage_run
from tests.unit.piecework.fakes import NOW, Clause, Diary, caller, context
from tests.unit.workers.isolation.both_ends import bench, pipeline_of

MODEL = Dependency("model", retry=RetryPolicy(attempts=3, base=0.01), layer="llm")
FAX = Dependency("fax", effect=Effect.NON_IDEMPOTENT)
BANK = Dependency("bank", effect=Effect.PROVIDER_IDEMPOTENT)
ONE_TRY = Dependency(
    "till", effect=Effect.PROVIDER_IDEMPOTENT, retry=RetryPolicy(attempts=1)
)

SAW: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    SAW.clear()


class BusyError(Exception):
    """An error that only the child knows."""


async def ask(n: int, *, idempotency_key: str, often: int = 0) -> int:
    SAW.append(idempotency_key)
    await asyncio.sleep(0)
    if len(SAW) <= often:
        raise TransientError("busy", code="llm.http.429_rate_limited")
    return n * 2


async def fail(*, idempotency_key: str) -> None:
    raise BusyError(idempotency_key[:1])


async def hang(*, idempotency_key: str) -> str:
    SAW.append(f"begun {len(idempotency_key)}")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        SAW.append("cut off")
        raise
    return ""


async def first(_: Context[Clause]) -> list[int]:
    return [1]


async def reads(ctx: Context[Clause]) -> str:
    SAW.append((ctx.tenant, ctx.job, ctx.chunk, ctx.attempt, ctx.stage))
    ctx.progress()
    await asyncio.sleep(0)
    return f"{ctx.payload.text} {ctx.result(first)}"


async def calls(ctx: Context[Clause]) -> int:
    both = await asyncio.gather(
        ctx.call(MODEL, ask, 2, often=2), ctx.call(MODEL, ask, 2, often=2)
    )
    return sum(both)


async def catches(ctx: Context[Clause]) -> str:
    try:
        await ctx.call(MODEL, fail)
    except BusyError as error:
        return f"caught {error}"
    return "not raised"


async def faxes(ctx: Context[Clause]) -> str:
    return await ctx.call(FAX, hang)


async def pays(ctx: Context[Clause]) -> str:
    return await ctx.call(BANK, hang)


async def test_a_stage_sees_what_it_would_see_in_the_worker() -> None:
    signs: list[str] = []
    async with bench(first, reads, progress=lambda: signs.append("alive")) as b:
        ended = await b.run(values={"first": "[1]"})

    assert '"text [1]"' == ended.value
    assert [("acme", "job", 7, 1, "reads")] == SAW
    assert ["alive"] == signs


async def test_a_call_has_the_same_key_and_journal_as_in_the_worker() -> None:
    here, there = Diary(), Diary()
    pipeline = pipeline_of(calls)
    ctx = context(pipeline, caller=caller(here), stage="calls")
    value = await stage_run.run_in_process(pipeline.stages[0], ctx)
    keys = list(SAW)
    SAW.clear()
    async with bench(calls, journal=there) as b:
        ended = await b.run()

    assert (value, "8") == (ended.value, "8")
    assert keys == SAW
    assert 3 == len(keys)
    assert here.calls == there.calls
    assert 2 == b.ctx.caller.counts.retried


async def test_the_error_of_a_function_reaches_the_stage_as_it_is() -> None:
    async with bench(catches) as b:
        ended = await b.run()

    assert ended.value.startswith('"caught ')


async def test_a_stage_failure_is_classified_as_in_the_worker() -> None:
    async def refuses(_: Context[Clause]) -> None:
        raise PermanentError("no such clause", code="tool.stock.none")

    async with bench(refuses) as b:
        ended = await b.run()

    assert ended.failure is not None
    assert "tool.stock.none" == ended.failure.code
    assert "no such clause" == ended.failure.message
    assert not ended.outage


async def test_exhausted_memory_has_its_own_code() -> None:
    async def eats(_: Context[Clause]) -> None:
        raise MemoryError

    async with bench(eats) as b:
        ended = await b.run()

    assert ended.failure is not None
    assert "runtime.stage.out_of_memory" == ended.failure.code


async def test_a_call_in_a_thread_of_the_child_is_refused() -> None:
    def on_own_loop(ctx: Context[Clause]) -> int:
        return asyncio.run(ctx.call(MODEL, ask, 2))

    async with bench(on_own_loop) as b:
        ended = await b.run()

    assert ended.failure is not None
    assert "pipeline.call.in_thread" == ended.failure.code
    assert [] == SAW


async def test_an_outage_of_our_own_tables_is_no_failure_of_the_stage() -> None:
    class Out(Diary):
        async def begin(self, *_: Any) -> Any:
            raise StoreError("no table", code="aws.service.unavailable")

    async with bench(faxes, journal=Out()) as b:
        ended = await b.run()

    assert ended.outage
    assert [] == SAW


class InDoubt(Diary):
    """An earlier claim has begun every effect."""

    def may_have_happened(self, key: str) -> bool:
        self.effects.setdefault(key)
        return True

    async def mark_unknown(self, key: str, schema: str) -> None:
        del key
        self.said.append(schema)


@pytest.mark.parametrize("now", [FAX, MODEL], ids=["an effect", "declared pure now"])
async def test_an_unknown_effect_reaches_the_stage_by_its_code(now: Dependency) -> None:
    async def looks_at_it(ctx: Context[Clause]) -> str:
        try:
            return await ctx.call(now, hang)
        except PermanentError as error:
            return error.code

    diary = InDoubt()
    async with bench(looks_at_it, journal=diary) as b:
        ended = await b.run()

    assert '"runtime.effect.unknown"' == ended.value
    assert '{"type": "string"}' == diary.said[-1]
    assert [] == SAW


async def test_a_call_that_times_out_is_cancelled_in_the_child() -> None:
    slow = Dependency("slow", timeout=0.01, retry=RetryPolicy(attempts=1))

    async def waits(ctx: Context[Clause]) -> str:
        try:
            return await ctx.call(slow, hang)
        except TimeoutError:
            return "too long"

    async with bench(waits) as b:
        ended = await b.run()

    assert '"too long"' == ended.value
    assert ["begun 64", "cut off"] == SAW


async def test_a_call_that_the_stage_cancels_is_cancelled_in_the_child() -> None:
    async def gives_up(ctx: Context[Clause]) -> str:
        try:
            async with asyncio.timeout(0.01):
                return await ctx.call(MODEL, hang)
        except TimeoutError:
            return "gave up"

    async with bench(gives_up) as b:
        ended = await b.run()
        await b.ctx.caller.wait_for_calls()

    assert '"gave up"' == ended.value
    assert ["begun 64", "cut off"] == SAW


async def test_a_call_cancelled_twice_does_not_run_into_the_next_stage() -> None:
    slow = Dependency("slow", timeout=0.01, retry=RetryPolicy(attempts=1))

    @named_call("tidies_up")
    async def tidies_up(*, idempotency_key: str) -> None:
        try:
            await hang(idempotency_key=idempotency_key)
        finally:
            await asyncio.sleep(60)

    async def gives_up(ctx: Context[Clause]) -> str:
        try:
            async with asyncio.timeout(0.03):
                await ctx.call(slow, tidies_up)
        except TimeoutError:
            return "gave up"
        return ""

    async with bench(gives_up) as b:
        ended = await b.run()

    assert '"gave up"' == ended.value
    assert {} == b.child.inside.calls.attempts


async def test_a_loop_that_cuts_off_all_its_tasks_at_once_comes_to_its_end() -> None:
    async with bench(faxes) as b:
        session = b.session()
        running = asyncio.create_task(session.run(b.request()))
        await seen("begun 64")
        assert session.reading is not None
        for task in (running, session.reading, *session.calls.values()):
            task.cancel()

        _, late = await asyncio.wait([running], timeout=1)
        session.attempts.abandon_all(
            "is not waited for"
        )  # a task that still waits may go now
        assert not late


async def test_an_answer_can_be_looked_up() -> None:
    @named_call("found")
    async def found(*, idempotency_key: str) -> str:
        return f"found {len(idempotency_key)}"

    shop = Dependency("shop", effect=Effect.LOOKUP, lookup=found)

    async def asks(ctx: Context[Clause]) -> str:
        return await ctx.call(shop, hang)

    async with bench(asks, journal=InDoubt()) as b:
        ended = await b.run()

    assert '"found 64"' == ended.value
    assert [] == SAW


async def test_a_lost_claim_ends_the_stage_and_its_process() -> None:
    class Lost(Diary):
        async def begin(self, *_: Any) -> Any:
            raise ClaimLostError

    async with bench(faxes, journal=Lost()) as b:
        with pytest.raises(ClaimLostError):
            await b.run()

    assert b.child.killed
    assert [] == SAW


async def test_a_wait_lets_the_calls_beside_it_end() -> None:
    async def asks_and_sleeps(ctx: Context[Clause]) -> None:
        await asyncio.gather(ctx.call(MODEL, ask, 2), ctx.sleep(hours=1))

    there = Diary()
    async with bench(asks_and_sleeps, journal=there) as b:
        with pytest.raises(WaitRequestedError):
            await b.run()

    assert b.child.killed
    assert "4" in there.calls.values()


async def test_a_sleep_ends_by_the_clock_of_the_worker() -> None:
    async def sleeps(ctx: Context[Clause]) -> None:
        await ctx.sleep(hours=1)

    async with bench(sleeps) as b:
        with pytest.raises(WaitRequestedError) as asked:
            await b.run(clock_offset_s=NOW - time.time())

    assert asked.value.wait == Sleeping(pytest.approx(NOW + 3600, abs=60))


async def seen(what: str) -> None:
    async with asyncio.timeout(5):
        while what not in SAW:  # noqa: ASYNC110 -- one loop, and nothing to wait for
            await asyncio.sleep(0)


async def test_a_child_that_dies_during_a_call_leaves_an_unknown_effect() -> None:
    diary = Diary()
    async with bench(faxes, journal=diary) as b:
        running = asyncio.create_task(b.run())
        await seen("begun 64")
        b.child.inside.channel.close()
        with pytest.raises(TransientError, match="killed by SIGKILL") as caught:
            await running

    assert "runtime.stage.killed" == caught.value.code
    assert ["begin"] == diary.said
    assert [None] == list(diary.effects.values())


async def test_an_effect_of_a_dead_child_may_execute_until_its_timeout() -> None:
    async with bench(pays) as b:
        running = asyncio.create_task(b.run())
        await seen("begun 64")
        b.child.inside.channel.close()
        with pytest.raises(TransientError):
            await running

    assert b.ctx.caller.in_flight.clear_at > asyncio.get_running_loop().time() + 20


@pytest.mark.parametrize(
    ("error", "may_still_execute"),
    [
        (TransientError("busy"), False),
        (ConnectionResetError(), True),
        (asyncio.CancelledError(), True),
    ],
)
async def test_what_a_function_says_of_a_request_counts_as_in_the_worker(
    error: BaseException, may_still_execute: Any
) -> None:
    @named_call("breaks")
    async def breaks(*, idempotency_key: str) -> None:
        del idempotency_key
        raise error

    async def tries(ctx: Context[Clause]) -> None:
        await ctx.call(ONE_TRY, breaks)

    async with bench(tries) as b:
        await b.run()

    assert may_still_execute is (b.ctx.caller.in_flight.clear_at > 0)


async def test_a_cancelled_stage_is_killed_and_its_intent_remains() -> None:
    diary = Diary()
    async with bench(faxes, journal=diary) as b:
        running = asyncio.create_task(b.run())
        await seen("begun 64")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    assert b.child.killed
    assert ["begin"] == diary.said


async def test_an_effect_is_drained_although_its_stage_is_cancelled() -> None:
    go = asyncio.Event()

    @named_call("lands")
    async def lands(*, idempotency_key: str) -> str:
        SAW.append("begun 64")
        await go.wait()
        SAW.append(f"landed {len(idempotency_key)}")
        return "done"

    @named_call("ask_slowly")
    async def ask_slowly() -> None:
        SAW.append("asked")
        try:
            await asyncio.Event().wait()
        finally:
            SAW.append("answer cut off")

    async def sends(ctx: Context[Clause]) -> str:
        try:
            await asyncio.gather(ctx.call(BANK, lands), ctx.call(MODEL, ask_slowly))
        except asyncio.CancelledError:
            SAW.append("stage cut off")
            raise
        return ""

    async with bench(sends, drains_effects=lambda: True) as b:
        session = b.session()
        running = asyncio.create_task(session.run(b.request()))
        await seen("begun 64")
        await seen("asked")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        left = bool(session.attempts)
        go.set()
        await b.ctx.caller.wait_for_calls()
        await session.attempts.wait_until_idle()
        await seen("stage cut off")
        session.close()

    assert left
    assert not b.child.killed
    ends = {"landed 64", "answer cut off", "stage cut off"}
    assert {"begun 64", "asked"} | ends == set(SAW)


async def test_leftover_tasks_of_a_stage_can_make_no_call() -> None:
    async def late(ctx: Context[Clause]) -> None:
        await asyncio.sleep(0.01)
        try:
            await ctx.call(MODEL, ask, 1)
        except RuntimeError as error:
            SAW.append(str(error))

    tasks: list[asyncio.Task[None]] = []

    async def leaves(ctx: Context[Clause]) -> None:
        tasks.append(asyncio.create_task(late(ctx)))

    async with bench(leaves) as b:
        await b.run()
        await tasks[0]

    assert ["ask is called after the end of its stage."] == SAW
