"""How a claim ends whose stages do not run to their end: on the model of AWS."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from piecework import Context, Dependency, PermanentError, Pipeline, Stage
from piecework.domain import keys
from piecework.domain.moments import iso
from piecework.domain.outcome import STORE, WORKER
from piecework.errors import StoreError
from piecework_worker.work_item import MessageAction as Do
from tests.unit.piecework.fakes import Clause
from tests.unit.workers.on_the_model import NOW, Desk, desk

DID: list[str] = []
Work = Callable[[Context[Clause]], Awaitable[None]]
model = Dependency("model")


async def ask(*, idempotency_key: str) -> str:
    return "answered"


async def begin(_: Context[Clause]) -> None:
    DID.append("begin")


async def undo(_: Context[Clause]) -> None:
    DID.append("undo")


async def finish(_: Context[Clause]) -> None:
    DID.append("finish")


async def at_work(work: Work, *, last: bool = False) -> Desk:
    """Return the desk of a chunk whose second stage, which may be its last, works."""
    DID.clear()
    first = Stage(begin, compensate=undo)
    stages = [first, Stage(work, name="work"), *([] if last else [Stage(finish)])]
    return await desk(Pipeline("review", payload=Clause, stages=stages), Clause())


@pytest.mark.parametrize(
    ("code", "blocked_on"),
    [
        ("aws.access.denied", STORE),
        ("aws.credentials.invalid", STORE),
        ("aws.key.unusable", STORE),
        ("aws.service.throttled", STORE),
        ("aws.service.unavailable", STORE),
        ("runtime.worker.exhausted", WORKER),
        ("runtime.worker.no_child", WORKER),
        ("aws.request.invalid", None),  # the chunk may be its cause
        ("aws.transaction.conflict", None),
    ],
)
async def test_an_outage_of_the_store_defers_the_chunk_and_a_refused_write_releases_it(
    code: str, blocked_on: str | None
) -> None:
    async def fails(_: Context[Clause]) -> None:
        raise StoreError("gone", code=code)

    here = await at_work(fails)

    assert Do.KEEP is await here.execute()

    row = await here.row()
    found = row["status"], row.get("blocked_on"), row["attempts"]
    assert ("WAITING", blocked_on, 0) == found
    assert "chunk.store_failed" in here.events()
    assert bool(blocked_on) is ("status_reason" in (await here.job()).item)


@pytest.mark.parametrize("compensate", [True, False])
async def test_a_cancel_that_a_checkpoint_sees_compensates_if_it_asks_for_it(
    *, compensate: bool
) -> None:
    async def cancelled(_: Context[Clause]) -> None:
        more = {"compensate_requested": True} if compensate else {}
        await here.set_row(cancel_requested_at=iso(NOW), **more)

    here = await at_work(cancelled)

    assert Do.ACK_CANCELLED is await here.execute()

    row = await here.row()
    assert "CANCELLED" == row["status"]
    assert ["begin", *["undo"] * compensate] == DID
    assert ("COMPENSATED" if compensate else None) == row.get("compensation")


@pytest.mark.parametrize("last", [False, True])
async def test_a_lost_claim_writes_its_calls_only_for_the_bill(*, last: bool) -> None:
    """A checkpoint finds it lost, or its settlement."""

    async def loses(ctx: Context[Clause]) -> None:
        await ctx.call(model, ask)
        await here.set_row(claim_token="another", fence=9)

    here = await at_work(loses, last=last)

    assert Do.KEEP is await here.execute()

    assert 1 == (await here.row(sk=keys.calls_sk(0, 1, 1, 1)))["late"]
    assert "lease.lost" in here.events()


@pytest.mark.parametrize("fails", [False, True])
async def test_only_a_chunk_that_failed_keeps_the_answers_for_a_redrive(
    *, fails: bool
) -> None:
    async def asks(ctx: Context[Clause]) -> None:
        await ctx.call(model, ask)
        if fails:
            raise PermanentError("no")

    here = await at_work(asks)

    assert Do.ACK is await here.execute()

    assert fails is bool(await here.row(sk=keys.calls_sk(0, 1, 1, 1)))


async def test_a_cancellation_from_outside_is_not_an_outcome() -> None:
    async def hangs(_: Context[Clause]) -> None:
        began.set()
        await asyncio.Event().wait()

    here, began = await at_work(hangs), asyncio.Event()
    running = asyncio.create_task(here.execute())
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert "RUNNING" == (await here.row())["status"]
    assert {} == here.services.lease_renewer.leases
