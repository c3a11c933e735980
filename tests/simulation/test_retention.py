"""Rows that DynamoDB deletes by their time: none that a job still needs.

Each story is a job of some days: its chunks succeed, fail, wait and lose workers. It is
redriven, retried, paused or cancelled on drawn days, and kept by open dead letters. A
reconciler looks about once a day. DynamoDB deletes expired rows up to days late, and
every row that it deletes is judged at that moment.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from piecework import Context, Dependency, PermanentError, Pipeline, Stage, named_call
from piecework.aws.queue import Message
from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.moments import moment
from piecework.domain.refs import JobRef
from piecework.domain.retention import DAY_S, SPARE_DAYS
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.errors import PieceworkError
from piecework.jobs import renewal
from piecework.reconciler import expiry
from piecework.reconciler import jobs as reconciler_jobs
from piecework.reconciler.loop import Reconciler
from piecework.store.dead_letters import Closing
from piecework.store.serialization import from_item
from piecework_orchestrator.dead_letters.redrive import discard, redrive
from piecework_orchestrator.operate.cancel import cancel
from piecework_orchestrator.operate.pause import pause, resume
from piecework_orchestrator.operate.retry import RetryRequest, retry
from piecework_simulation.aws.dynamodb import Change
from tests.simulation.life import Item, end_workers
from tests.unit.orchestrator.simulated import REF, Simulated, redrive_of, simulate

STORIES = 60
HOUR_S = 3600.0
#: Chunks: more than a partition has, so that a renewal has two.
CHUNKS = 5
LARGE = keys.PARTITION_SIZE + 3
desk = Dependency("desk", breaker=None)
HOWS = ("", "", "odd", "large")
EACH_DAY = ("", "", "redrive", "retry", "fix", "break", "pause", "resume", "cancel")


@dataclass(slots=True)
class Service:
    """A provider that counts the calls of each chunk."""

    broken: bool = True
    paid: Counter[int] = field(default_factory=Counter)

    def pipeline(self) -> Pipeline:
        counted = named_call("pay")(self.pay)

        async def work(ctx: Context[Item]) -> str:
            await ctx.call(desk, counted, ctx.payload.n)
            await asyncio.sleep(1.0)  # its answer is on a page by then
            if self.broken and ctx.payload.how == "odd":
                raise PermanentError("odd", code="tool.shop.broken")
            return "large" * 4000 if ctx.payload.how == "large" else "done"

        return Pipeline("p", payload=Item, stages=[Stage(work)])

    async def pay(self, n: int, *, idempotency_key: str) -> int:
        del idempotency_key
        self.paid[n] += 1
        return n


@dataclass(slots=True)
class Judge:
    """Judges each row that DynamoDB deletes by its time."""

    at: Simulated
    pages: int = 0
    wrong: list[str] = field(default_factory=list)

    def item(self, pk: str, sk: str) -> dict[str, Any]:
        table = self.at.rt.table.name
        partition = self.at.world.dynamodb._tables[table].get(pk)  # no request
        found = None if partition is None else partition.items.get(sk)
        return from_item(found) if found else {}

    def judge(self, change: Change) -> None:
        owner = keys.job_of_pk(change.pk)
        if owner is None:
            return
        job = Job.read(JobRef(*owner), self.item(JobRef(*owner).pk, keys.META_SK))
        if not job.status.gone:
            self.pages += 1
            if not self.is_page_of_a_result(change):
                self.wrong.append(f"{change.sk} of a job that is {job.status}")

    def is_page_of_a_result(self, change: Change) -> bool:
        name = change.sk.split("#")
        if name[0] != "WORK" or f"{name[2]}#" != keys.CALLS_ROWS:
            return False
        chunk = REF.chunk(int(name[1]))
        item = self.item(chunk.pk, chunk.sk)
        if not item:
            return False
        found = Chunk.read(chunk, item)
        return found.status is ChunkStatus.SUCCEEDED and not found.lost_fences


class Quiet:
    """A logger that says nothing."""

    def __getattr__(self, _: str) -> Any:
        return lambda *_, **__: None


async def looks(at: Simulated, number: int = 3) -> None:
    """Let a reconciler look; each pass goes on where the one before stopped."""
    for _ in range(number):
        await Reconciler(at.rt, Quiet()).run_pass()


async def acts(at: Simulated, what: str, service: Service) -> None:
    """Do what an operator does; an act that the state refuses changes nothing."""
    told = {"actor": "me", "reason": "why"}
    with suppress(PieceworkError):
        match what:
            case "fix" | "break":
                service.broken = what == "break"
            case "redrive":
                await redrive(at.rt, redrive_of(await at.letters()))
            case "retry":
                await retry(at.rt, RetryRequest(REF, "me", "why"))
            case "pause":
                await pause(at.rt, REF, **told)
            case "resume":
                await resume(at.rt, REF, **told)
            case "cancel":
                await cancel(at.rt, REF, **told)
            case "discard":
                await discard(at.rt, REF, await at.letters(), Closing("me", "why"))


async def works(at: Simulated, seconds: float) -> None:
    """Let a worker run for a while; then it is killed, and its lease ends."""
    at.fleet.worker(reconcile=True)
    await asyncio.sleep(seconds)
    end_workers(at)
    await asyncio.sleep(1.0)


async def job_of(at: Simulated) -> Job:
    found = await at.rt.jobs.read(REF)
    assert found is not None
    return found


def story(seed: int) -> Counter[str]:
    """Run a job for days; return what was seen."""
    rng, service, seen = Random(seed), Service(), Counter[str]()
    kills = rng.random() < 0.5
    number = LARGE if seed % 20 == 0 else CHUNKS
    items = [Item(n=n, how=rng.choice(HOWS)) for n in range(number)]

    async def act(at: Simulated) -> None:
        judge = Judge(at)
        at.world.dynamodb.on_expired = judge.judge
        await at.submit(pipeline, items)
        await works(at, rng.uniform(0.0, 8.0) if kills else 300.0)
        for _ in range(rng.randint(2, 45)):
            await asyncio.sleep(rng.uniform(0.3, 1.5) * DAY_S)
            until = (await job_of(at)).rows_until
            assert not judge.wrong
            await looks(at)
            seen["renewed"] += (await job_of(at)).rows_until > until
            await acts(at, rng.choice(EACH_DAY), service)
            if rng.random() < 0.3:
                await works(at, rng.uniform(1.0, 8.0) if kills else 300.0)
        seen["pages of results expired"] += judge.pages
        await ends(at)
        assert not judge.wrong
        assert kills or max(service.paid.values()) == 1, "a stored answer vanished"

    async def ends(at: Simulated) -> None:
        """Bring the job to its deletion, and look whether all of it goes."""
        for what in ("fix", "resume", "redrive", "retry"):
            await acts(at, what, service)
        await works(at, 1200.0)
        await acts(at, "discard", service)
        while not (job := await job_of(at)).status.gone:
            assert job.status.ended, job.status
            await asyncio.sleep(0.7 * DAY_S)
            await looks(at)
        await looks(at)
        stone = await job_of(at)
        assert stone.status is JobStatus.DELETED
        seen["deleted"] += 1
        for days in (0.6, (moment(stone.rows_until) - at.rt.clock()) / DAY_S + 4):
            await at.rt.work.send([Message.about(REF.chunk(0), 1)], to="")
            await works(at, 120.0)
            assert await at.rt.work.default.depth() == 0, "a late copy stays"
            await asyncio.sleep(days * DAY_S)
            await looks(at)
        assert await rows_left(at) == {keys.META_SK}

    pipeline = service.pipeline()
    days = rng.choice([1, 2, 5, 30])
    settings = {"job_retention_days": days, "max_chunks": 3, "lease_s": 30.0}
    simulate(act, [pipeline], workers=0, seed=seed, **settings)
    return seen


async def rows_left(at: Simulated) -> set[str]:
    """Return the sort keys of the job's rows in both tables."""
    rows = [row async for row in at.rt.table.scan()]
    rows += [row async for row in at.rt.dead_letters.scan()]
    return {row["sk"] for row in rows if row["pk"].startswith(REF.pk)}


def test_no_row_vanishes_that_a_job_needs_and_all_go_after_its_deletion() -> None:
    seen = sum((story(seed) for seed in range(STORIES)), Counter[str]())
    assert seen["deleted"] == STORIES
    assert seen["renewed"] > STORIES / 2
    assert seen["pages of results expired"] > 0


def test_a_story_fails_without_the_renewal(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object) -> bool:
        return True

    monkeypatch.setattr(expiry, "renew_rows", never)
    monkeypatch.setattr(reconciler_jobs, "renew_rows", never)

    def stories() -> None:
        for seed in range(STORIES):
            story(seed)

    with pytest.raises(AssertionError):
        stories()


def slow_claim() -> None:
    """Let a claim begin before a renewal, and write a page after its first sweep."""
    slow = Dependency("slow", breaker=None, timeout=3 * HOUR_S)

    @named_call("wait")
    async def wait(n: int, *, idempotency_key: str) -> int:
        del idempotency_key
        await asyncio.sleep(2 * HOUR_S)
        return n

    async def work(ctx: Context[Item]) -> None:
        await ctx.call(slow, wait, ctx.payload.n)
        raise PermanentError("odd", code="tool.shop.broken")

    stage = Stage(work, timeout=4 * HOUR_S)
    pipeline = Pipeline("p", payload=Item, stages=[stage])

    async def act(at: Simulated) -> None:
        await at.submit(pipeline, [Item(n=1)])
        job = await job_of(at)
        until_renewal = moment(job.renew_at) - at.rt.clock()
        await asyncio.sleep(until_renewal - HOUR_S)
        at.fleet.worker(reconcile=True)
        await asyncio.sleep(DAY_S)
        end_workers(at)
        assert (await job_of(at)).rows_until > job.rows_until
        (letter,) = await at.letters()
        await asyncio.sleep((SPARE_DAYS + 3) * DAY_S)
        assert await pages_of(at, letter.chunk) == 1, "the redrive would pay again"

    long = {"stall_timeout_s": 3 * HOUR_S, "max_runtime_s": 4 * HOUR_S}
    more = {"job_retention_days": 5, "reconcile_s": 60.0}
    simulate(act, [pipeline], workers=0, **long, **more)


async def pages_of(at: Simulated, chunk: int) -> int:
    pages = keys.calls_prefix(chunk)
    return len([row async for row in at.rt.table.query(REF.pk, pages)])


def test_the_second_sweep_renews_what_a_claim_wrote_after_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow_claim()
    monkeypatch.setattr(renewal, "SWEEPS", 1)
    with pytest.raises(AssertionError):
        slow_claim()
