"""A whole job on the simulated AWS, where one small slip in the code would show.

Some slips show at the last chunk of a full group, or at a paid call not yet written.
Others show at a chunk that ended before its reopening, or at a missing or extra
message. One shows in the order of writes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

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
    named_call,
)
from piecework.domain import keys
from piecework.domain.job import SUBMIT_TIMEOUT_S
from piecework.domain.moments import iso
from piecework.domain.refs import ChunkRef
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.errors import UsageError
from piecework.jobs.deletion import delete_job
from piecework.jobs.fan_in import Certificate
from piecework.reconciler.expiry import HANDLED, LOOK_S, Expiries
from piecework.store.dead_letters import DAY_S, Closing
from piecework.store.deletions import Deletions, expiry_mark
from piecework.store.paid import paid_by
from piecework.store.table import Table
from piecework_orchestrator.dead_letters.redrive import Edit, discard, redrive
from piecework_orchestrator.operate.cancel import cancel
from piecework_orchestrator.operate.retry import RetryRequest, retry
from piecework_orchestrator.reading.job_documents import dead_letters_of, require_job
from piecework_orchestrator.reading.selection import Filter, select
from piecework_simulation.engine.network import Exchange
from tests.simulation.life import end_workers
from tests.unit.orchestrator.simulated import (
    REF,
    RedriveRequest,
    Simulated,
    redrive_of,
    simulate,
)

#: One chunk more than a group has.
MANY = keys.PARTITION_SIZE + 1
desk = Dependency("desk", breaker=None)


class Item(BaseModel):
    n: int


class Shop:
    """A provider that counts its calls, and the stage that pays before it fails."""

    def __init__(self) -> None:
        self.paid: Counter[int] = Counter()
        self.joined: list[list[int]] = []
        self.broken, self.join_broken = True, False
        self.takes_s = 0.0
        self.times: list[float] = []
        self.counted = named_call("pay")(self.pay)

    async def pay(self, n: int, *, idempotency_key: str) -> int:
        del idempotency_key
        self.paid[n] += 1
        self.times.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self.takes_s)
        return n

    async def work(self, ctx: Context[Item]) -> int:
        value = await ctx.call(desk, self.counted, ctx.payload.n)
        if self.broken:
            raise PermanentError("broken", code="tool.shop.broken")
        return value

    async def join(self, ctx: Results) -> None:
        if self.join_broken:
            raise PermanentError("broken", code="tool.shop.broken")
        self.joined.append([result.value async for result in ctx])

    def pipeline(self) -> Pipeline:
        return Pipeline(
            "shop", payload=Item, stages=[Stage(self.work, name="work")], join=self.join
        )


@pytest.fixture
def shop() -> Shop:
    return Shop()


def items(count: int) -> list[Item]:
    return [Item(n=n) for n in range(count)]


def test_no_chunk_of_a_full_group_is_missing_before_or_after_a_redrive(
    shop: Shop,
) -> None:
    pipeline = shop.pipeline()

    async def act(at: Simulated) -> Certificate:
        await at.submit(pipeline, items(MANY))
        assert JobStatus.FAILED is (await at.ended()).status
        letters = await at.letters()
        # A chunk that died without its page of calls would pay again.
        assert list(range(MANY)) == [letter.chunk for letter in letters]
        shop.broken = False
        assert (MANY, 2) == await redrive(at.rt, redrive_of(letters))
        job = await at.ended()
        assert JobStatus.SUCCEEDED is job.status
        stored = await at.rt.objects.get(job.certificate)
        return Certificate.model_validate_json(stored)

    certificate = simulate(act, [pipeline], workers=2)

    assert list(range(MANY)) == sorted(certificate.results)
    assert list(range(MANY)) == shop.joined[-1]
    assert Counter(range(MANY)) == shop.paid


def test_reopened_chunks_do_not_count_as_ended(shop: Shop) -> None:
    pipeline = shop.pipeline()

    async def act(at: Simulated) -> frozenset[int]:
        await at.submit(pipeline, items(3))
        await at.ended()
        some = (await at.letters())[:2]
        slowly = RedriveRequest(REF, some, "tester", "it is fixed", rate=0.01)
        await redrive(at.rt, slowly)
        waiting = (await at.chunks())[1]
        assert ChunkStatus.PENDING is waiting.status
        return await at.rt.tallies.ended_of_group(REF, 0)

    assert 1 not in simulate(act, [pipeline])


def test_a_lease_runs_from_its_request_not_from_the_answer(shop: Shop) -> None:
    shop.broken = False
    pipeline, claimed_at = shop.pipeline(), list[float]()

    async def act(at: Simulated) -> float:
        lease_s, loop = at.rt.settings.lease_s, at.world.loop

        def stop_before_the_answer(when: str, exchange: Exchange) -> None:
            claims = "claim_token" in str(exchange.request.get("UpdateExpression"))
            if when == "applied" and claims and not claimed_at:
                claimed_at.append(loop.time())
                loop.freeze(exchange.client.process, 0.95 * lease_s)

        at.world.on_exchange = stop_before_the_answer
        await at.submit(pipeline, items(1))
        await at.ended()
        return claimed_at[0] + lease_s

    over_at = simulate(act, [pipeline], max_attempts=3)

    # The first claim is too old for work; its call is made under the second one.
    assert [True] == [moment > over_at for moment in shop.times]


def sends(exchange: Exchange) -> list[str]:
    """Return the bodies of the messages of a request."""
    entries = exchange.request.get("Entries", ())
    return [str(entry["MessageBody"]) for entry in entries if "MessageBody" in entry]


def test_a_job_without_trouble_sends_each_message_once(shop: Shop) -> None:
    shop.broken = False
    pipeline, bodies = shop.pipeline(), list[str]()

    async def act(at: Simulated) -> None:
        def note(when: str, exchange: Exchange) -> None:
            if when == "applied":
                bodies.extend(sends(exchange))

        shop.takes_s, at.world.on_exchange = 2 * SUBMIT_TIMEOUT_S, note
        await at.submit(pipeline, items(3))
        await at.ended()

    simulate(act, [pipeline], workers=2, lease_s=20.0)

    assert [1] * 3 == list(Counter(bodies).values())


def test_the_messages_of_a_process_that_died_are_sent_soon(shop: Shop) -> None:
    shop.broken = False
    pipeline = shop.pipeline()

    async def act(at: Simulated) -> float:
        def kill(when: str, exchange: Exchange) -> None:
            if when == "asked" and sends(exchange):
                at.world.kill(exchange.client.process)
                at.world.on_exchange = lambda *_: None

        at.world.on_exchange, began = kill, at.world.loop.time()
        assert "died" == await at.fleet.submit(REF, pipeline, items(3), mortal=False)
        await at.ended()
        return at.world.loop.time() - began

    # Only the reconciler's slow second way would need `redispatch_s`.
    assert simulate(act, [pipeline]) < 2 * SUBMIT_TIMEOUT_S


def test_a_chunk_that_is_not_in_the_manifest_keeps_the_job_from_its_end(
    shop: Shop,
) -> None:
    shop.broken = False
    pipeline = shop.pipeline()

    async def act(at: Simulated) -> tuple[str, str]:
        def replace(when: str, exchange: Exchange) -> None:
            update = str(exchange.request.get("UpdateExpression"))
            if when == "applied" and "ended_chunks" in update:
                at.world.on_exchange = lambda *_: None
                table = at.world.settings.checkpoints_table
                pk = {"S": REF.chunk(2).pk}
                key = {"pk": pk, "sk": {"S": keys.chunk_sk(2)}}
                one = {"TableName": table, "Key": key, "ConsistentRead": True}
                found = at.world.dynamodb.call("get_item", one)["Item"]
                put = {"TableName": table, "Item": found | {"sk": other}}
                at.world.dynamodb.call("put_item", put)
                at.world.dynamodb.call("delete_item", {"TableName": table, "Key": key})

        other = {"S": keys.chunk_sk(7)}
        at.world.on_exchange = replace
        await at.submit(pipeline, items(3))
        await asyncio.sleep(60.0)
        job = await at.rt.jobs.read(REF)
        assert job is not None
        return job.status, str(job.item.get("status_reason_code"))

    status, reason = simulate(act, [pipeline])

    assert "RUNNING" == status
    assert "job.manifest.mismatch" == reason


def test_a_reopened_job_runs_before_its_messages_are_sent(shop: Shop) -> None:
    shop.join_broken = True
    pipeline, seen = shop.pipeline(), list[JobStatus]()

    async def act(at: Simulated) -> float:
        await at.submit(pipeline, items(2))
        await at.ended()
        letters = await at.letters()

        def look(when: str, exchange: Exchange) -> None:
            if when == "asked" and sends(exchange):
                exchange.client.process.tasks.append(asyncio.ensure_future(status()))

        async def status() -> None:
            job = await at.rt.jobs.read(REF)
            assert job is not None
            seen.append(job.status)

        at.world.on_exchange = look
        began, shop.broken = at.world.loop.time(), False
        assert (3, 2) == await redrive(at.rt, redrive_of(letters))
        job = await at.ended()
        assert JobStatus.FAILED is job.status  # because of its join
        again = at.world.loop.time()
        [letter] = await at.letters()
        shop.join_broken = False
        assert (1, 3) == await redrive(at.rt, redrive_of([*letters, letter]))
        await at.ended()
        assert again - began < at.rt.settings.reconcile_s
        return at.world.loop.time() - again

    took = simulate(act, [pipeline])

    assert JobStatus.REOPENING not in seen
    assert took < 5.0
    assert [[0, 1]] == shop.joined


def test_an_edit_is_stored_and_a_discard_is_recorded(shop: Shop) -> None:
    pipeline = shop.pipeline()

    async def act(at: Simulated) -> list[str]:
        await at.submit(pipeline, items(3))
        await at.ended()
        *others, last = await at.letters()
        shop.broken = False
        edit = Edit({"n": 41}, pipeline=pipeline)
        request = RedriveRequest(REF, [last], "tester", "it is fixed", edit=edit)
        assert (1, 2) == await redrive(at.rt, request)
        stored = await at.rt.objects.get((await at.ended()).certificate)
        assert [2] == list(Certificate.model_validate_json(stored).patched)
        assert 2 == await discard(at.rt, REF, others, Closing("tester", "no need"))
        return [row.event for row in await at.rt.jobs.events(REF)]

    events = simulate(act, [pipeline])

    assert {"redriven", "discarded"} <= set(events)
    assert [41] == shop.joined[-1]


def test_a_submit_that_is_cut_off_and_cancelled_certifies_every_chunk(
    shop: Shop,
) -> None:
    pipeline = shop.pipeline()

    async def act(at: Simulated) -> Certificate:
        def kill(when: str, exchange: Exchange) -> None:
            if when == "applied" and keys.chunk_sk(2) in str(exchange.request):
                at.world.kill(exchange.client.process)
                at.world.on_exchange = lambda *_: None

        at.world.on_exchange = kill
        assert "died" == await at.fleet.submit(REF, pipeline, items(MANY), mortal=False)
        await cancel(at.rt, REF, actor="us", reason="enough")
        job = await at.ended()
        stored = await at.rt.objects.get(job.certificate)
        return Certificate.model_validate_json(stored)

    certificate = simulate(act, [pipeline])

    assert list(range(MANY)) == [chunk.chunk for chunk in certificate.missing]


def test_damaged_jobs_do_not_keep_another_one_from_its_expiry(shop: Shop) -> None:
    shop.broken, pipeline = False, shop.pipeline()

    async def act(at: Simulated) -> None:
        await at.submit(pipeline, items(1))
        item, table, old = (await at.ended()).item, at.rt.table, iso(at.rt.clock())
        end_workers(at)
        for n in range(HANDLED):
            odd = replace(REF, job=f"odd{n}")
            odds = {"pk": odd.pk, "finished_at": "yesterday", "delete_after": old}
            put = table.item_write("Put", odd.pk, keys.META_SK, item=item | odds)
            await table.transact([put, expiry_mark(table, odd, old)])
        await asyncio.sleep(2 * DAY_S)
        expiries = Expiries(at.rt)
        assert Counter(failed=HANDLED) == await expiries.run(0.0)
        found = await expiries.run(LOOK_S)
        assert Counter({"failed": HANDLED, "job expired": 1}) == found

    simulate(act, [pipeline], job_retention_days=1)


def test_a_damaged_row_stops_no_worker_and_no_list_and_no_deletion() -> None:
    done = set[int]()

    async def accept(ctx: Context[Item]) -> None:
        died = ctx.chunk < 2 and ctx.chunk not in done
        done.add(ctx.chunk)
        if died:
            raise PermanentError(ctx.stage)

    def order(item: Item) -> int:
        return item.n

    pipeline = Pipeline("p", payload=Item, stages=[Stage(accept)], ordered_by=order)

    async def put(table: Table, pk: str, sk: str, name: str, value: object) -> None:
        facts = {"update": f"SET #{name} = :value", "values": {"value": value}}
        await table.update(table.item_write("Update", pk, sk, **facts))

    async def act(here: Simulated) -> None:
        rt, unreadable, ref = here.rt, list[ChunkRef](), REF.chunk(140)
        await here.submit(pipeline, [Item(n=n) for n in range(150)])
        await put(rt.table, ref.pk, ref.sk, "gen", "one")
        await asyncio.sleep(60.0)
        assert done == {*range(150)} - {140}
        await put(rt.table, ref.pk, ref.sk, "gen", 1)
        await here.ended()
        letter = keys.dead_letter_sk(0, 1)
        await put(rt.dead_letters, REF.pk, letter, "error_history", 1)
        (found,) = await select(rt, Filter(), unreadable)
        assert (found.chunk, unreadable) == (1, [REF.chunk(0)])
        assert [row async for row in dead_letters_of(rt).all("another")] == []
        for number, gen, state in ((keys.JOIN_CHUNK, 1, "OPEN"), (1, 0, "REDRIVEN")):
            sk = keys.dead_letter_sk(number, gen)
            await put(rt.dead_letters, REF.pk, sk, "state", state)
        again, left = RetryRequest(REF, "me", "why"), list[ChunkRef]()
        with pytest.raises(PermanentError, match="dead letter 1 of a/JOIN"):
            await retry(rt, again)
        assert await retry(rt, again, left) == (1, 2)
        assert left == [REF.chunk(keys.JOIN_CHUNK), REF.chunk(0)]
        assert (await here.ended()).gen == 2
        with pytest.raises(UsageError, match=r"left to reopen; left out.*: a/0"):
            await retry(rt, again, left)
        end_workers(here)
        await asyncio.sleep(2 * DAY_S)
        assert await Expiries(rt).run(0.0) == Counter({"expiry postponed": 1})
        job = await require_job(rt, REF.job)
        await Deletions(rt.table, rt.clock).begin(job, "me", "why")
        assert await delete_job(rt, replace(job, status=JobStatus.DELETING))
        assert [row async for row in rt.dead_letters.scan()] == []

    # Fails if a worker ends.
    simulate(act, [pipeline], max_chunks=4, job_retention_days=1)


async def charge(*, idempotency_key: str) -> str:
    return idempotency_key


def test_the_effect_of_an_earlier_join_is_counted_once() -> None:
    paid = Dependency("shop", effect=Effect.PROVIDER_IDEMPOTENT)
    is_closed = True

    async def nothing(ctx: Context[Item]) -> int:
        return ctx.payload.n

    async def order(results: Results[int]) -> None:
        await results.call(paid, charge)
        if is_closed:
            raise PermanentError("closed")
        await asyncio.sleep(50.0)

    async def act(here: Simulated) -> None:
        nonlocal is_closed
        await here.submit(orders, [Item(n=0)])
        await here.ended()
        is_closed = False
        await retry(here.rt, RetryRequest(REF, "us", "why"))
        await asyncio.sleep(20.0)
        end_workers(here)
        here.fleet.worker(reconcile=True)
        job = await here.ended()
        assert (job.status, job.gen) == (JobStatus.SUCCEEDED, 2)
        assert (await paid_by(here.rt.table, job)).usage.total("paid")["calls"] == 1

    orders = Pipeline("orders", payload=Item, stages=[Stage(nothing)], join=order)
    simulate(act, [orders], max_attempts=3)
