"""The exercises: each stops a job, and names the finding that must come first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any, Final, TypeAlias

from piecework.context import Context
from piecework.domain.keys import tenant_limit
from piecework.domain.outcome import OTHER_WORKERS, STORE, WORKER
from piecework.domain.pause import Pause, PauseCode
from piecework.pipelines import Stage
from piecework.resilience.limits import Limits
from piecework.store.limits import Quotas
from piecework_simulation.engine.network import Exchange
from verification.drill.fleet import (
    OTHER,
    REF,
    Fleet,
    final,
    many,
    orders,
    unrelated,
)

Act: TypeAlias = Callable[[Fleet], Awaitable[None]]
#: Seconds after which chunks wait for what their orders say.
SETTLED_S: Final = 30.0
#: Seconds after a kill at which a lease has missed its renewal, and has not expired.
MISSED_S: Final = 40.0
#: Seconds after which a lease tells it, and the report is not late yet.
UNRENEWED_S: Final = 22.0
#: Seconds after which a dead worker has missed its report, however idle it was.
SILENT_S: Final = 90.0
#: Seconds after which a reconciler has given back the chunks of a dead worker.
GIVEN_BACK_S: Final = 150.0
#: Seconds after which a stage without progress has stalled, and runs again.
STALLED_S: Final = 400.0
#: How many chunks the larger and the smaller cause of a pair has.
MORE, FEWER = 6, 2


@dataclass(frozen=True, slots=True)
class Exercise:
    """A job that is stopped.

    Attributes:
        first: The code of the finding that must come first.
        also: A code that must be among the others; empty: any.
    """

    name: str
    act: Act
    first: str
    also: str = ""


# ── a single cause ────────────────────────────────────────────────────────────


async def runs(fleet: Fleet, *hows: str) -> None:
    """Let a worker run a job until its chunks wait for what their orders say."""
    fleet.worker(reconcile=False)
    await fleet.submit(*hows)
    await asyncio.sleep(SETTLED_S)


async def no_worker(fleet: Fleet) -> None:
    """Submit a job while no worker runs."""
    await fleet.submit("quick", "quick")
    await asyncio.sleep(SETTLED_S)


async def idle_worker_died(fleet: Fleet) -> None:
    """Kill the only worker while it is idle, and submit at once."""
    fleet.worker()
    await asyncio.sleep(1.0)
    fleet.kill()
    await fleet.submit("quick")
    await asyncio.sleep(MISSED_S)


async def other_pipeline(fleet: Fleet) -> None:
    """Let only a worker of another pipeline run."""
    fleet.worker(unrelated)
    await fleet.submit("quick", "quick")
    await asyncio.sleep(SETTLED_S)


async def other_queue(fleet: Fleet) -> None:
    """Let only a worker run that receives from another queue."""
    fleet.worker(queues=["slow"])
    await fleet.submit("quick", "quick")
    await asyncio.sleep(SETTLED_S)


async def other_version(fleet: Fleet) -> None:
    """Let only a worker run whose code version is not that of a pinned job."""
    fleet.worker(version="v2")
    await fleet.submit("quick", "quick", pin=True)
    await asyncio.sleep(SETTLED_S)


async def again(ctx: Context[Any]) -> int:
    """Run after the stages of the submit."""
    return int(ctx.payload.n)


async def longer(fleet: Fleet) -> None:
    """Let a worker run whose pipeline has one more stage than at the submit."""
    fleet.worker(replace(orders, stages=[*orders.stages, Stage(again)]))
    await fleet.submit("quick", "slow")
    await asyncio.sleep(SETTLED_S)


async def busy(fleet: Fleet) -> None:
    """Fill the only worker with another job."""
    fleet.worker(max_chunks=2, reconcile=False)
    await fleet.submit("slow", "slow", ref=OTHER)
    await asyncio.sleep(SETTLED_S)
    await fleet.submit("quick", "quick")
    await asyncio.sleep(SETTLED_S)


async def capped(fleet: Fleet) -> None:
    """Let another job use the cap of the tenant."""
    name = tenant_limit(REF.tenant)
    quotas = Quotas(fleet.rt.table, "operator", fleet.rt.clock, fleet.rt.rng)
    await quotas.set_limits(name, Limits(concurrent=2))
    fleet.worker(reconcile=False)
    await fleet.submit("slow", "slow", ref=OTHER)
    await asyncio.sleep(SETTLED_S)
    await fleet.submit("quick", "quick")
    await asyncio.sleep(SILENT_S)


async def worker_died(fleet: Fleet, *more: str) -> None:
    """Kill one of two workers in the middle of its chunks."""
    died = fleet.worker(max_chunks=32, reconcile=False)
    await fleet.submit(*many(slow=MORE), *more)
    await asyncio.sleep(SETTLED_S)
    fleet.kill(died)
    fleet.worker(reconcile=False)
    await asyncio.sleep(MISSED_S)


async def full_worker_died(fleet: Fleet) -> None:
    """Kill the only worker, which has no free slot for the next chunk."""
    died = fleet.worker(max_chunks=2, reconcile=False)
    await fleet.submit("slow", "slow", "quick")
    await asyncio.sleep(SETTLED_S)
    fleet.kill(died)
    await asyncio.sleep(UNRENEWED_S)


async def busy_worker_died(fleet: Fleet) -> None:
    """Kill the only worker while another job fills it, and replace it by a stranger.

    Its chunks are given back, so it is not busy any more: it is not there.
    """
    died = fleet.worker(max_chunks=2, reconcile=False)
    await fleet.submit("slow", "slow", ref=OTHER)
    await asyncio.sleep(SETTLED_S)
    fleet.kill(died)
    fleet.worker(unrelated)
    await fleet.submit("quick", "quick")
    await asyncio.sleep(GIVEN_BACK_S)


async def workers_of_several(fleet: Fleet) -> None:
    """Let workers of two pipelines share the default queue."""
    fleet.worker(unrelated, reconcile=False)
    fleet.worker(reconcile=False)
    await fleet.submit("slow", "slow")
    await asyncio.sleep(SETTLED_S)


async def submit_died(fleet: Fleet, *, worker: bool) -> None:
    """Kill a submit after it has created the job."""
    world = fleet.world

    def kill_submit(what: str, exchange: Exchange) -> None:
        if what == "applied" and exchange.operation == "transact_write_items":
            world.kill(exchange.client.process)
            world.on_exchange = lambda *_: None

    world.on_exchange = kill_submit
    if worker:
        fleet.worker(reconcile=False)
    with suppress(AssertionError):
        await fleet.submit(*many(quick=8))
    await asyncio.sleep(SETTLED_S + 15.0)


async def message_lost(fleet: Fleet) -> None:
    """Lose the message of a chunk while a worker is idle."""
    await fleet.submit("quick")
    rt = fleet.rt
    received = await rt.work.receive(10, of="", wait_s=0, hide_s=0)
    await rt.work.delete([each.receipt for each in received])
    fleet.worker(reconcile=False)
    await asyncio.sleep(SILENT_S)


async def ends(fleet: Fleet, *hows: str) -> None:
    """Let a job end, or come to its join."""
    fleet.worker()
    await fleet.submit(*hows)
    await asyncio.sleep(SETTLED_S)


async def cancelled(fleet: Fleet) -> None:
    """Cancel a job whose chunk has reached its pivot."""
    fleet.worker(final)
    await fleet.submit("slow", pipeline=final)
    await asyncio.sleep(SETTLED_S)
    await fleet.driver.cancel((await fleet.job()).ref, mortal=False)
    await asyncio.sleep(1.0)


async def paused(fleet: Fleet) -> None:
    """Pause a job between the retries of its chunks."""
    await runs(fleet, *many(retry=MORE))
    await fleet.driver.pause((await fleet.job()).ref, mortal=False)
    await asyncio.sleep(SETTLED_S)


async def pipeline_paused(fleet: Fleet) -> None:
    """Pause the pipeline of a job between the retries of its chunks."""
    await runs(fleet, *many(retry=MORE))
    await fleet.driver.pause_pipeline((await fleet.job()).ref, mortal=False)
    await asyncio.sleep(SETTLED_S)


async def in_order(fleet: Fleet, *hows: str) -> None:
    """Let a worker run a job whose chunks have one order key."""
    fleet.worker(reconcile=False)
    pipeline = replace(orders, ordered_by=lambda _: "one")
    await fleet.submit(*hows, pipeline=pipeline)
    await asyncio.sleep(SETTLED_S)


async def budget_spent(fleet: Fleet, until: str = "") -> None:
    """Pause a job as a worker does whose calls do not fit into the budget."""
    await fleet.submit("slow", "slow")
    pause = Pause(PauseCode.BUDGET, "all is spent", "w1", until=until, unit="usd")
    assert await fleet.rt.transitions.pause(await fleet.job(), pause)


async def deferred(
    fleet: Fleet, blocked_on: str, code: str, *, paused: bool = False
) -> None:
    """Defer chunks as a worker does in the rare cases that need other processes."""
    if paused:
        quotas = Quotas(fleet.rt.table, "operator", fleet.rt.clock, fleet.rt.rng)
        await quotas.pause("bank", "dear")
    await fleet.submit("quick", "quick")
    await fleet.defer(blocked_on, code, 0, 1)
    fleet.worker()
    await asyncio.sleep(SETTLED_S)


async def stalled(fleet: Fleet) -> None:
    """Let the chunks of a job stall, and run again."""
    await runs(fleet, "slow", "slow")
    await asyncio.sleep(STALLED_S)


NEWER: Final = (OTHER_WORKERS, "runtime.record.schema_too_new")
CHANGED: Final = (OTHER_WORKERS, "runtime.code.changed")
PAUSED: Final = ("bank", "runtime.dependency.paused")
EQUAL: Final = ("bank", "idempotency.key.in_progress")
AWS: Final = (STORE, "aws.access.denied")
SHORT: Final = (WORKER, "runtime.worker.exhausted")

SINGLE: Final = (
    Exercise("healthy", lambda fleet: runs(fleet, "slow", "slow"), "job.progressing"),
    Exercise("stalled", stalled, "job.progressing", "retry.running"),
    Exercise("no worker", no_worker, "workers.none"),
    Exercise("idle worker died", idle_worker_died, "workers.none"),
    Exercise("other pipeline", other_pipeline, "workers.pipeline_missing"),
    Exercise("other version", other_version, "workers.version_missing"),
    Exercise("longer", longer, "job.progressing", "version.changed"),
    Exercise("other queue", other_queue, "workers.queue_missing"),
    Exercise("busy", busy, "workers.busy"),
    Exercise("tenant capped", capped, "tenant.capped"),
    Exercise("worker died", worker_died, "lease.expiring"),
    Exercise("full worker died", full_worker_died, "workers.none", "lease.expiring"),
    Exercise("busy worker died", busy_worker_died, "workers.pipeline_missing"),
    Exercise("workers of several", workers_of_several, "job.progressing"),
    Exercise("message lost", message_lost, "chunks.unclaimed"),
    Exercise(
        "submit died",
        lambda fleet: submit_died(fleet, worker=True),
        "submit.unfinished",
    ),
    Exercise("sleep", lambda fleet: runs(fleet, *many(sleep=MORE)), "timer.waiting"),
    Exercise(
        "no worker, ask", lambda fleet: killed(fleet, *many(ask=MORE)), "answer.waiting"
    ),
    Exercise("ask", lambda fleet: runs(fleet, *many(ask=MORE)), "answer.waiting"),
    Exercise("newer", lambda fleet: deferred(fleet, *NEWER), "version.newer_needed"),
    Exercise("changed", lambda fleet: deferred(fleet, *CHANGED), "version.safe_needed"),
    Exercise("equal call", lambda fleet: deferred(fleet, *EQUAL), "call.in_progress"),
    Exercise("AWS", lambda fleet: deferred(fleet, *AWS), "aws.unavailable"),
    Exercise("no handles", lambda fleet: deferred(fleet, *SHORT), "worker.exhausted"),
    Exercise(
        "dependency paused",
        lambda fleet: deferred(fleet, *PAUSED, paused=True),
        "dependency.paused",
    ),
    Exercise(
        "dependency resumed", lambda fleet: deferred(fleet, *PAUSED), "retry.waiting"
    ),
    Exercise("paused", paused, "job.paused", "retry.waiting"),
    Exercise("pipeline paused", pipeline_paused, "pipeline.paused", "retry.waiting"),
    Exercise(
        "key stopped",
        lambda fleet: in_order(fleet, "refused", *many(quick=MORE)),
        "order.stopped",
        "dead_letters.open",
    ),
    Exercise(
        "key waits",
        lambda fleet: in_order(fleet, "retry", *many(quick=MORE)),
        "retry.waiting",
        "order.waiting",
    ),
    Exercise("budget spent", budget_spent, "job.budget_spent"),
    Exercise(
        "daily budget spent",
        lambda fleet: budget_spent(fleet, "2999-01-01T00:00:00.000Z"),
        "tenant.budget_spent",
    ),
    Exercise("cancelled", cancelled, "cancel.unfinished"),
    Exercise("lane", lambda fleet: runs(fleet, "lane", "lane"), "lane.full"),
    Exercise("ended", lambda fleet: ends(fleet, "quick"), "job.ended"),
    Exercise(
        "in doubt",
        lambda fleet: ends(fleet, "quick", "doubt"),
        "effects.in_doubt",
        "job.ended",
    ),
    Exercise(
        "dead letters",
        lambda fleet: ends(fleet, "quick", "refused"),
        "dead_letters.left",
        "job.ended",
    ),
    Exercise(
        "join waits", lambda fleet: ends(fleet, "quick", "join retry"), "join.waiting"
    ),
    Exercise(
        "join failed",
        lambda fleet: ends(fleet, "quick", "join refused"),
        "join.failed",
        "dead_letters.left",
    ),
)

# ── pairs of causes ───────────────────────────────────────────────────────────

#: What the stage of a chunk does, and the finding about it.
CAUSES: Final = {
    "breaker": "breaker.open",
    "limit": "limit.reached",
    "retry": "retry.waiting",
    "slow": "job.progressing",
}


def orders_of(how: str, number: int) -> list[str]:
    """Return orders of which so many chunks wait: a limit lets one call start."""
    return [how] * (number + (how == "limit"))


def pairs_of_waits() -> Iterator[Exercise]:
    """Yield a job with two waits: the one with more chunks comes first."""
    for one, other in permutations(CAUSES, 2):
        hows = (*orders_of(one, MORE), *orders_of(other, FEWER))
        act: Any = lambda fleet, hows=hows: runs(fleet, *hows)  # noqa: E731
        yield Exercise(f"{one}, {other}", act, CAUSES[one], CAUSES[other])


async def killed(fleet: Fleet, *hows: str) -> None:
    """Kill the only worker of a job whose chunks wait."""
    await runs(fleet, *hows)
    fleet.kill()
    await asyncio.sleep(SILENT_S)


async def killed_and_replaced(fleet: Fleet, *hows: str) -> None:
    """Kill the only worker, and start one of another pipeline."""
    await killed(fleet, *hows)
    fleet.worker(unrelated)
    await asyncio.sleep(1.0)


async def crowded_out(fleet: Fleet, how: str) -> None:
    """Fill a worker with another job, and kill the one that runs this job."""
    fleet.worker(max_chunks=1)
    await fleet.submit("slow", ref=OTHER)
    await asyncio.sleep(SETTLED_S)
    died = fleet.worker(max_chunks=32, reconcile=False)
    await fleet.submit(*orders_of(how, MORE), "slow", "slow")
    await asyncio.sleep(SETTLED_S)
    fleet.kill(died)
    await asyncio.sleep(GIVEN_BACK_S)


def pairs() -> Iterator[Exercise]:
    """Yield the pairs of causes."""
    yield from pairs_of_waits()
    for how, code in CAUSES.items():
        hows = orders_of(how, MORE)
        also = "lease.expiring" if how == "slow" else code
        act: Any = lambda fleet, hows=hows: killed(fleet, *hows)  # noqa: E731
        yield Exercise(f"no worker, {how}", act, "workers.none", also)
        other: Any = lambda fleet, hows=hows: killed_and_replaced(fleet, *hows)  # noqa: E731
        missing = "workers.pipeline_missing"
        yield Exercise(f"other pipeline, {how}", other, missing, also)
    yield Exercise(
        "busy, retry",
        lambda fleet: crowded_out(fleet, "retry"),
        "workers.busy",
        "retry.waiting",
    )
    for how in ("breaker", "retry"):
        hows = orders_of(how, FEWER)
        act = lambda fleet, hows=hows: worker_died(fleet, *hows)  # noqa: E731
        yield Exercise(f"worker died, {how}", act, "lease.expiring", CAUSES[how])
        act = lambda fleet, how=how: runs(fleet, how, how, "refused")  # noqa: E731
        yield Exercise(f"{how}, dead letter", act, CAUSES[how], "dead_letters.open")
    yield Exercise(
        "healthy, dead letter",
        lambda fleet: runs(fleet, "slow", "refused"),
        "job.progressing",
        "dead_letters.open",
    )
    yield Exercise(
        "submit died, no worker",
        lambda fleet: submit_died(fleet, worker=False),
        "submit.unfinished",
        "workers.none",
    )


EXERCISES: Final = (*SINGLE, *pairs())
