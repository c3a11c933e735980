"""A state that lasts is told once to each webhook, whatever dies; so is its end."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from piecework.domain import keys
from piecework.domain.moments import iso
from piecework.domain.occasion import Subject
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.domain.webhook import Webhook
from piecework.reconciler.pass_state import Activity
from piecework.reconciler.watches import Watches
from piecework.resilience.limits import DEPENDENCY_PAUSED_CODE as PAUSED
from piecework.store.jobs import ActiveMarks
from piecework.store.occasions import Occasions
from piecework_orchestrator.operate.webhooks import Subscription, set_webhook
from tests.store.conftest import NOW, Store
from tests.store.test_outbox import World

AFTER_S = 900
SLEEPS = {"status": "WAITING", "blocked_on": "timer"}


@dataclass
class Watch:
    """One reconciler that looks at the jobs of a store, and what was told."""

    world: World
    watches: Watches = field(init=False)

    def __post_init__(self) -> None:
        """Start as a new process: it has seen nothing."""
        self.watches = Watches(self.world.rt, {})

    @property
    def store(self) -> Store:
        return self.world.store

    @property
    def occasions(self) -> Occasions:
        return Occasions(self.store.table, self.store.ref.tenant, self.store.clock)

    def sees(self, job: Any, *, opened: int = 1, runs: bool = False) -> None:
        """Let a pass see the open chunks of a job, and whether a worker runs one."""
        activity: dict[JobRef, Activity] = self.watches.activity  # type: ignore[assignment]
        activity[job.ref] = Activity(job, opened, runs, {"bank"} if opened else set())

    async def look(self, later_s: float = 0.0) -> None:
        """Look once, so many seconds later."""
        self.store.now += later_s
        await self.watches.look({self.store.ref.tenant}, self.store.now)

    async def told(self) -> list[tuple[str, str]]:
        """Return the webhook and the kind of each event, the oldest first."""
        found = await self.world.outbox.deliveries()
        return sorted((n.webhook, n.kind) for n in found)

    async def body(self, kind: str) -> dict[str, Any]:
        (one,) = [n for n in await self.world.outbox.deliveries() if n.kind == kind]
        return json.loads(one.body)  # type: ignore[no-any-return]


@pytest.fixture
async def watch(store: Store) -> Watch:
    world = World(store)
    await store.put_chunk(status="PENDING")
    return Watch(world)


async def running_job(store: Store, status: JobStatus = JobStatus.RUNNING) -> Any:
    """Lay down a job whose one chunk waits for a worker, and no worker runs."""
    sent = iso(NOW - 30)
    times = dict.fromkeys(("sent_at", "opened_at", "created_at"), sent)
    return await store.put_job(status, chunks=4, **times)


async def test_a_stuck_job_is_sent_once_with_its_finding_and_then_its_end(
    watch: Watch,
) -> None:
    await watch.world.subscribe()
    await watch.world.subscribe("soon", after_s=60, events=["job.stuck"])
    await watch.world.subscribe("other", pipeline="another")
    await watch.world.subscribe("ended", events=["job.ended"])
    job = await running_job(watch.store)
    watch.sees(job)
    await watch.look()
    await watch.look(45)
    assert await watch.told() == []
    await watch.look(15)
    assert await watch.told() == [("soon", "job.stuck")]
    first = await watch.body("job.stuck")
    assert first["data"]["finding"]["code"] == "workers.none"
    assert first["text"] == (
        "Job store has made no progress for 60 s: No worker runs in this deployment."
    ).replace("store", watch.store.ref.job)

    # A reconciler that starts anew goes on with the same occasion.
    again = Watch(watch.world)
    again.sees(job)
    for _ in range(3):
        await again.look(AFTER_S)
    assert await watch.told() == [("ops", "job.stuck"), ("soon", "job.stuck")]
    ids = {n.event for n in await watch.world.outbox.deliveries()}
    assert ids == {first["id"]}

    again.sees(job, opened=0)
    await again.look(60)
    told = await watch.told()
    assert told[1::2] == [("ops", "job.stuck.over"), ("soon", "job.stuck.over")]
    assert not await watch.occasions.all()
    ends = [n for n in await watch.world.outbox.deliveries() if "over" in n.kind]
    assert json.loads(ends[0].body)["data"]["began"] == first["id"]


async def test_of_two_reconcilers_one_tells(watch: Watch) -> None:
    await watch.world.subscribe()
    job = await running_job(watch.store)
    both = watch, Watch(watch.world)
    for later in (0, AFTER_S, 60):
        watch.store.now += later
        for each in both:
            each.sees(job)
        await asyncio.gather(*(each.look() for each in both))
    assert await watch.told() == [("ops", "job.stuck")]


async def test_an_attempt_between_two_looks_is_not_progress(watch: Watch) -> None:
    await watch.world.subscribe()
    job = await running_job(watch.store)
    for runs in (False, True, False, True):
        watch.sees(job, runs=runs)
        await watch.look(AFTER_S / 2)
        assert len(await watch.occasions.all()) == 1
    for runs, waiting_long, noted in ((True, 0, 0), (False, 0, 1), (False, 1, 0)):
        watch.sees(job, runs=runs)
        watch.watches.activity[job.ref].waiting_long = waiting_long
        await watch.look(60)
        assert len(await watch.occasions.all()) == noted


@pytest.mark.parametrize(
    ("facts", "kinds"),
    [
        # The job waits because its pipeline wants it.
        (SLEEPS, []),
        ({"status": "WAITING", "blocked_on": "answer", "question": "approval"}, []),
        # An operator paused its dependency.
        ({"status": "WAITING", "blocked_on": "fax", "error_code": PAUSED}, []),
        # A worker runs the chunk, although the passes have not seen it.
        ({"status": "RUNNING", "claimed_by": "w", "fence": 1}, []),
        ({"status": "WAITING", "error_code": "tool.http.500"}, ["job.stuck"]),
        # A chunk beside one that sleeps could go on, and so could a join.
        ({**SLEEPS, "beside": 4}, ["job.stuck"]),
        ({**SLEEPS, "beside": keys.JOIN_CHUNK}, ["job.stuck"]),
    ],
    ids=["sleeps", "asks", "dependency paused", "runs", "retries", "beside", "join"],
)
async def test_a_job_that_is_meant_to_wait_is_not_stuck(
    watch: Watch, facts: dict[str, Any], kinds: list[str]
) -> None:
    await watch.world.subscribe()
    later = iso(NOW + 5 * AFTER_S)
    beside = watch.store.ref.chunk(facts.get("beside", 3))
    pending = {"status": "PENDING", "gen": 2, "fence": 0, "attempts": 0}
    await watch.store.put(beside.pk, beside.sk, **pending)
    until = "claim_expires_at" if "claimed_by" in facts else "retry_at"
    await watch.store.put_chunk(**facts, **{until: later})
    pause = {"pause_code": "operator", "pause_message": "price change"}
    pause |= {"paused_by": "me", "paused_at": iso(NOW)}
    await watch.store.put(keys.BREAKERS_PK, keys.limits_sk("fax"), **pause)
    status = JobStatus.FINALIZING if beside.is_join else JobStatus.RUNNING
    job = await running_job(watch.store, status)
    for _ in range(2):
        watch.sees(job)
        await watch.look(AFTER_S)
    assert [kind for _, kind in await watch.told()] == kinds


@pytest.mark.parametrize("status", [JobStatus.CANCELLED, JobStatus.DELETED])
async def test_an_occasion_ends_with_its_job(watch: Watch, status: JobStatus) -> None:
    await watch.world.subscribe()
    job = await running_job(watch.store)
    watch.sees(job)
    await watch.look()
    await watch.look(AFTER_S)
    await watch.store.put_job(status)
    watch.watches.activity.clear()  # type: ignore[attr-defined]
    await watch.look(60)
    told = await watch.told()
    assert told == [("ops", "job.stuck"), ("ops", "job.stuck.over")]
    assert f"is {status}" in (await watch.body("job.stuck.over"))["text"]


async def test_an_open_breaker_is_sent_to_all_and_to_the_pipelines_that_wait(
    watch: Watch,
) -> None:
    for name, pipeline in (("ops", ""), ("ours", "p"), ("other", "q")):
        await watch.world.subscribe(name, pipeline=pipeline, events=["breaker.open"])
    breaker = {
        "breaker_state": "open",
        "gen": 1,
        "opened_at": iso(NOW),
        "open_until": iso(NOW + 60),
        "error_code": "tool.http.503_unavailable",
    }
    name = f"bank-{watch.store.ref.job}"
    await watch.store.put(keys.BREAKERS_PK, name, **breaker)
    watch.sees(await running_job(watch.store))
    activity = next(iter(watch.watches.activity.values()))
    activity.blocked_on.add(name)
    for _ in range(3):
        await watch.look(AFTER_S / 2)
    assert await watch.told() == [("ops", "breaker.open"), ("ours", "breaker.open")]

    # It was closed and opened again between two looks. The clocks of workers differ.
    breaker["closed_at"] = iso(NOW + 1)
    for opened, number in ((NOW, 2), (NOW + AFTER_S, 4), (NOW + AFTER_S, 6)):
        breaker["opened_at"] = iso(opened)
        await watch.store.put(keys.BREAKERS_PK, name, **breaker)
        await watch.look(2 * AFTER_S if number == 6 else 60)
        assert len(await watch.told()) == number

    closed = {"breaker_state": "closed", "gen": 2}
    await watch.store.put(keys.BREAKERS_PK, name, **closed)
    await watch.look(60)
    ends = [each for each in await watch.told() if each[1] == "breaker.open.over"]
    assert [webhook for webhook, _ in ends] == ["ops", "ops", "ours", "ours"]


async def test_a_breaker_that_no_call_tries_any_more_is_not_sent(watch: Watch) -> None:
    await watch.world.subscribe()
    name = f"idle-{watch.store.ref.job}"
    facts = {"breaker_state": "open", "gen": 1, "open_until": iso(NOW)}
    await watch.store.put(keys.BREAKERS_PK, name, **facts)
    for _ in range(3):
        await watch.look(AFTER_S)
    assert [n for n in await watch.told() if n[1] == "breaker.open"] == []


async def test_without_a_webhook_for_it_nothing_is_watched(watch: Watch) -> None:
    tenant, events = watch.store.ref.tenant, ["dead_letters.arrived"]
    secret = "env:PIECEWORK_WEBHOOK_TEST"
    marked = Subscription("ops", "https://hooks.example/x", secret, events=events)
    await set_webhook(watch.world.rt, marked, "us")
    hook = await watch.world.subscribe()
    watch.sees(await running_job(watch.store))
    await watch.look()
    assert await watch.occasions.all()
    for event, is_marked in (("dead_letters.arrived", True), ("job.ended", False)):
        item = {**hook.item, "events": [event]}
        await watch.store.put(keys.webhooks_pk(tenant), **item)
        await watch.look(60)
        assert not await watch.occasions.all()
        marks = ActiveMarks()
        _ = [ref async for ref in watch.store.jobs.active(marks)]
        assert (tenant in marks.watched) is is_marked


async def test_a_lost_race_changes_nothing(watch: Watch) -> None:
    store, subject = watch.occasions, Subject("job.stuck", "j", "p")
    hook = await watch.world.subscribe()
    assert await store.begin(subject, iso(NOW), "s")
    assert not await store.begin(subject, iso(NOW + 1), "s")
    (seen,) = (await store.all()).values()
    event: Any = watch.watches and event_of(watch, seen)
    hooks: list[Webhook] = [hook]
    assert await store.tell(seen, hooks, event)
    assert not await store.tell(seen, hooks, event)
    assert not await store.end(seen, hooks, event)
    (told,) = (await store.all()).values()
    assert await store.end(told, hooks, event)
    assert await store.begin(subject, iso(NOW + 1), "s")
    assert not await store.end(told, hooks, event)


def event_of(watch: Watch, occasion: Any) -> Any:
    from piecework.reconciler.watches import Look

    look = Look(watch.watches, watch.store.ref.tenant, [])
    return look._event(occasion, "job.stuck", "text", "command", {})
