"""The outbox of webhooks: each delivery is delivered, whatever dies in between."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import Mock

import pytest

from piecework.domain import keys
from piecework.domain.moments import moment
from piecework.domain.pause import Pause, PauseCode
from piecework.domain.states import JobStatus
from piecework.domain.webhook import DELAYS_S, Webhook, WebhookDelivery
from piecework.store.jobs import ActiveMarks
from piecework.store.outbox import DELIVERED, FAILED, PENDING, Outbox
from piecework.webhooks.delivery import JITTER, Deliverer
from piecework.webhooks.sender import Answer, Post
from piecework_orchestrator.operate.webhooks import list_hooks, retry_failed
from tests.store.conftest import SETTINGS, Store
from tests.store.deployment import LOG, runtime

SECRET = "PIECEWORK_WEBHOOK_TEST"


@dataclass
class Receiver:
    """Takes what is sent, and answers as it is told."""

    answers: list[Answer] = field(default_factory=list)
    posts: list[Post] = field(default_factory=list)
    dies: bool = False

    async def __call__(self, post: Post) -> Answer:
        self.posts.append(post)
        await asyncio.sleep(0)
        if self.dies:
            raise asyncio.CancelledError
        return self.answers.pop(0) if self.answers else Answer()


@pytest.fixture
def world(store: Store, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv(SECRET, "x" * 40)
    return World(store)


@dataclass
class World:
    """A store with one webhook, and a job that ends."""

    store: Store
    receiver: Receiver = field(default_factory=Receiver)

    @property
    def rt(self) -> Any:
        rt = runtime(self.store)
        settings = type(SETTINGS)(
            app=SETTINGS.app, env=SETTINGS.env, tenant=self.store.ref.tenant
        )
        return type(rt)(
            **{name: getattr(rt, name) for name in rt.__slots__}
            | {"settings": settings}
        )

    @property
    def outbox(self) -> Outbox:
        return Outbox(self.store.table, self.store.ref.tenant, self.store.clock)

    async def subscribe(self, name: str = "ops", **facts: Any) -> Webhook:
        item = {
            "url": "https://hooks.example/x",
            "secret": f"env:{SECRET}",
            "format": "json",
            "events": [],
            "pipeline": "",
            **facts,
        }
        await self.store.put(keys.webhooks_pk(self.store.ref.tenant), name, **item)
        return Webhook({**item, "sk": name})

    async def end_job(self) -> None:
        job = await self.store.put_job(JobStatus.CANCELLING)
        facts = {"outcomes": {"CANCELLED": 5}}
        assert await self.store.transitions.cancelled(job, facts)

    async def deliver(self) -> dict[str, int]:
        """Deliver as one process does."""
        process = Deliverer(self.rt, LOG, self.receiver)
        return await process.deliver(self.store.ref.tenant, stay_s=0.0)

    async def delivery(self) -> WebhookDelivery:
        (delivery,) = await self.outbox.deliveries()
        return delivery

    async def is_listed(self) -> bool:
        """Return whether reconcilers find the outbox."""
        found = ActiveMarks()
        _ = [ref async for ref in self.store.jobs.active(found)]
        return self.store.ref.tenant in found.outboxes


async def test_the_end_of_a_job_writes_its_notices_in_its_own_transaction(
    world: World,
) -> None:
    await world.subscribe()
    await world.subscribe("other", pipeline="another")
    await world.subscribe("paused", events=["job.paused"])
    await world.end_job()

    delivery = await world.delivery()
    assert (delivery.webhook, delivery.state, delivery.kind) == (
        "ops",
        PENDING,
        "job.ended",
    )
    assert await world.is_listed()
    assert await world.deliver() == {"webhook delivered": 1}
    assert not await world.is_listed()
    assert [post.event for post in world.receiver.posts] == [delivery.event]
    assert (await world.delivery()).state == DELIVERED


@pytest.mark.parametrize(
    ("code", "kind"),
    [(PauseCode.OPERATOR, "job.paused"), (PauseCode.BUDGET, "job.out_of_budget")],
)
async def test_a_pause_has_its_reason_and_a_spent_budget_is_an_event_of_its_own(
    world: World, code: PauseCode, kind: str
) -> None:
    await world.subscribe()
    job = await world.store.put_job(JobStatus.RUNNING)
    assert await world.store.transitions.pause(job, Pause(code, "why", "me"))
    delivery = await world.delivery()
    assert delivery.kind == kind
    assert '"reason":"why"' in delivery.body


async def test_without_a_webhook_the_end_writes_nothing_more(world: World) -> None:
    await world.end_job()
    assert await world.outbox.deliveries() == []
    assert not await world.is_listed()


async def test_nine_attempts_on_schedule_then_it_failed_and_is_sent_again_on_demand(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.subscribe()
    await world.end_job()
    world.receiver.answers = [Answer("HTTP 503")] * 9
    for delay in DELAYS_S:
        assert await world.deliver() == {"webhook retry scheduled": 1}
        due = moment((await world.delivery()).due_at) - world.store.now
        assert delay <= round(due, 3) <= delay * (1 + JITTER) + 0.001
        world.store.now += due - 0.01
        assert await world.deliver() == {}
        world.store.now = round(world.store.now + 0.02, 3)  # as a row has it
    assert await world.deliver() == {"webhook failed": 1}

    failed = await world.delivery()
    assert (failed.state, failed.attempts) == (FAILED, 9)
    assert failed.item["last_error"] == "HTTP 503"
    assert await world.deliver() == {}
    assert not await world.is_listed()
    assert len({post.event for post in world.receiver.posts}) == 1
    assert len({post.body for post in world.receiver.posts}) == 1

    monkeypatch.setattr(Outbox, "retry_failed", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        await retry_failed(world.rt, "ops")
    monkeypatch.undo()
    monkeypatch.setenv(SECRET, "x" * 40)
    for retried, error in (([failed.event], "HTTP 503"), ([], "")):
        assert [hook.last_error for hook in await list_hooks(world.rt)] == [error]
        assert [n.event for n in await retry_failed(world.rt, "ops")] == retried
    assert await world.is_listed()
    assert await world.deliver() == {"webhook delivered": 1}


async def test_of_two_processes_one_sends(world: World) -> None:
    await world.subscribe()
    await world.end_job()
    outcomes = await asyncio.gather(*(world.deliver() for _ in range(3)))
    assert sum(found.get("webhook delivered", 0) for found in outcomes) == 1
    assert len(world.receiver.posts) == 1


async def test_a_process_that_dies_as_it_sends_is_followed_with_the_same_event(
    world: World,
) -> None:
    await world.subscribe()
    await world.end_job()
    world.receiver.dies = True
    with pytest.raises(asyncio.CancelledError):
        await world.deliver()
    world.receiver.dies = False
    assert await world.deliver() == {}
    world.store.now += 31
    assert await world.deliver() == {"webhook delivered": 1}
    first, second = world.receiver.posts
    assert (first.event, first.body) == (second.event, second.body)
    assert (await world.delivery()).attempts == 0


async def test_a_retry_at_the_time_of_the_claim_keeps_the_mark(world: World) -> None:
    await world.subscribe()
    await world.end_job()
    (mark,) = await world.outbox.first_due()
    taken = await world.outbox.take(mark, 30.0)
    assert taken is not None
    assert await world.outbox.schedule_retry(taken, 30.0, "HTTP 503")
    world.store.now += 31
    assert await world.deliver() == {"webhook delivered": 1}


async def test_a_slow_process_that_lost_its_claim_still_records_the_delivery(
    world: World,
) -> None:
    await world.subscribe()
    await world.end_job()
    (mark,) = await world.outbox.first_due()
    slow = await world.outbox.take(mark, 30.0)
    assert slow is not None
    world.store.now += 31
    (mark,) = await world.outbox.first_due()
    other = await world.outbox.take(mark, 30.0)
    assert other is not None
    assert not await world.outbox.schedule_retry(slow, 1.0, "late")
    assert not await world.outbox.fail(slow, "late", noted=True)
    assert await world.outbox.mark_delivered(slow)
    assert not await world.outbox.mark_delivered(other)
    assert not await world.outbox.schedule_retry(other, 1.0, "it is delivered")
    # The mark of the other claim is left; it leads to nothing, and is removed.
    world.store.now += 31
    assert await world.deliver() == {"webhook claimed elsewhere": 1}
    assert not await world.is_listed()


async def test_a_notice_that_comes_as_the_outbox_is_closed_is_not_lost(
    world: World,
) -> None:
    await world.subscribe()
    await world.end_job()
    (mark,) = await world.outbox.first_due()
    taken = await world.outbox.take(mark, 30.0)
    assert taken is not None
    await world.outbox.mark_delivered(taken)
    outbox = world.outbox
    original = outbox.table.first

    class Late(type(outbox.table)):  # type: ignore[misc] -- the class of a fixture
        async def first(self, *args: Any, **more: Any) -> Any:
            found = await original(*args, **more)
            await world.store.put_job(JobStatus.CANCELLING, gen=3)
            job = await world.store.jobs.read(world.store.ref)
            assert await world.store.transitions.cancelled(job, {"outcomes": {}})
            return found

    outbox.table = Late(outbox.table.client, outbox.table.name, outbox.table.rng)
    assert await outbox.close() is False
    assert await world.is_listed()
    assert await world.deliver() == {"webhook delivered": 1}


@pytest.mark.parametrize("missing", ["secret", "webhook"])
async def test_what_is_missing_is_the_reason_of_the_failure(
    world: World, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.subscribe()
    await world.end_job()
    if missing == "secret":
        monkeypatch.delenv(SECRET)
        assert await world.deliver() == {"webhook retry scheduled": 1}
        assert SECRET in (await world.delivery()).item["last_error"]
    else:
        pk = keys.webhooks_pk(world.store.ref.tenant)
        action = world.store.table.item_write("Delete", pk, "ops")
        await world.store.table.transact([action])
        assert await world.deliver() == {"webhook failed": 1}
    assert world.receiver.posts == []
