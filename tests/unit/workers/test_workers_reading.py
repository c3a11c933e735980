"""Proofs of the second reading: heart, acks, joins at a stop, the agent of ECS."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from piecework import keys
from piecework.errors import StoreError
from piecework.model import ChunkRef, JobRef
from piecework.settings import Settings
from piecework.store.claims import Renewed
from tests.unit.piecework.fakes import Log
from tests.unit.workers.made_up import for_ever, time, virtually
from tests.unit.workers.test_heart import Bench, waits
from workers.acks import Ack, Acks
from workers.ecs.agent import ask
from workers.station import Station
from workers.worker import Worker

LEASE = Settings().lease_s


@virtually
async def test_one_renewal_that_is_never_answered_loses_no_claim() -> None:
    bench = Bench()
    beating = asyncio.create_task(bench.heart.beat())
    work = bench.take("a", waits)
    bench.claims.replies["a"] = 1e6
    await asyncio.sleep(LEASE / 3 * 2 - 1)
    bench.claims.replies["a"] = Renewed()
    await asyncio.sleep(LEASE * 3)

    assert not work.done()
    work.cancel()
    beating.cancel()
    await asyncio.gather(work, beating, return_exceptions=True)


@virtually
async def test_a_failure_of_long_ago_makes_nobody_sick_today() -> None:
    bench = Bench()
    heart = bench.heart
    beating = asyncio.create_task(heart.beat())

    async def short(_: Any) -> None:
        await asyncio.sleep(LEASE / 3 + 1)

    bench.claims.replies["a"] = StoreError("gone")
    await bench.take("a", short)
    await asyncio.sleep(3_600)
    bench.claims.replies["b"] = StoreError("gone")
    work = bench.take("b", waits)
    await asyncio.sleep(LEASE / 3 + 1)

    assert "lease renewals" in heart.pulse.due
    assert heart.pulse.due["lease renewals"] > time()
    work.cancel()
    beating.cancel()
    await asyncio.gather(work, beating, return_exceptions=True)


@virtually
async def test_a_flush_waits_for_the_one_that_is_under_way() -> None:
    deleted: list[str] = []

    async def add(*_: Any) -> bool:
        await asyncio.sleep(1.0)
        return False

    async def delete(receipts: list[str]) -> None:
        deleted.extend(receipts)

    rt: Any = SimpleNamespace(
        tallies=SimpleNamespace(add=add),
        work=SimpleNamespace(delete=delete),
        settings=Settings(linger_s=0.01),
    )
    acks = Acks(rt, lambda: True, for_ever, Log())  # type: ignore[arg-type]
    running = asyncio.create_task(acks.run())
    acks.add(Ack(ChunkRef("acme", "job", 1), 3, "receipt"))
    await asyncio.sleep(0.5)

    await acks.flush()  # as a stopping worker does, before it cuts the loop off
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert ["receipt"] == deleted


def stopping_worker(sent: list[Any]) -> Worker:
    async def send(messages: list[Any], **_: Any) -> int:
        sent.extend(messages)
        return len(messages)

    job: Any = SimpleNamespace(
        ref=JobRef("acme", "job"), chunks=1, gen=1, notifies=False
    )
    rt = SimpleNamespace(
        jobs=SimpleNamespace(read=lambda _: answered(job)),
        work=SimpleNamespace(send=send),
    )
    station: Any = SimpleNamespace(rt=rt, log=Log(), pipelines={})
    return Worker(station, asyncio.Event())


async def answered(what: Any) -> Any:
    return what


async def test_a_join_that_begins_at_a_stop_is_handed_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[Any] = []
    worker = stopping_worker(sent)
    worker.stop.set()
    worker.closing = True
    join = ChunkRef("acme", "job", keys.JOIN_CHUNK)
    monkeypatch.setattr("workers.worker.end_cancelled", lambda *_: answered(None))
    monkeypatch.setattr("workers.worker.begin_join", lambda *_: answered((join, 1)))
    worker.station.log = Log()  # type: ignore[assignment]
    worker.station.log.bind = lambda **_: Log()  # type: ignore[assignment,method-assign]

    await worker.join(JobRef("acme", "job"))

    assert set() == worker.in_hand
    assert [join] == [message.ref for message in sent]


async def test_an_answer_of_the_agent_may_come_in_pieces() -> None:
    body = b'{"TaskARN": "arn:aws:ecs:eu:1:task/c/abc"}'
    served = asyncio.Event()

    async def serve(came: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        await came.readuntil(b"\r\n\r\n")
        to.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
        for piece in (body[:20], body[20:]):
            to.write(piece)
            await to.drain()
            await asyncio.sleep(0.01)
        to.close()
        await to.wait_closed()
        served.set()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        found = await ask(f"http://127.0.0.1:{port}/task")
        await served.wait()

    assert "arn:aws:ecs:eu:1:task/c/abc" == found["TaskARN"]


async def test_a_note_that_cannot_be_written_keeps_nobody_from_giving_way() -> None:
    async def note(*_: Any) -> None:
        message = "gone"
        raise StoreError(message)

    rt: Any = SimpleNamespace(jobs=SimpleNamespace(note=note))
    tools: Any = dict.fromkeys(NEEDED)
    station = Station(**tools | {"rt": rt, "worker": "w"})
    job: Any = SimpleNamespace(ref=JobRef("acme", "job"), pipeline="review")

    await station.note_unknown_pipeline(job)


NEEDED = (
    *("rt", "worker", "pipelines", "log", "claims", "settlements", "dead_letters"),
    *("payloads", "heart", "calls", "circuits"),
)
