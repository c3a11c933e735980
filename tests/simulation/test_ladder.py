"""Guarantee: a dead letter climbs its ladder, each rung once, until it is closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel

from piecework import (
    Context,
    Escalation,
    Ladder,
    PermanentError,
    Pipeline,
    Results,
    Rung,
    Stage,
    TransientError,
)
from piecework.domain import keys
from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.moments import moment
from piecework.domain.states import JobStatus
from piecework.store.dead_letters import Closing, DeadLetters
from piecework_orchestrator.cli.views.dead_letters import ladder_rows
from piecework_orchestrator.dead_letters.letters import dead_letter_document
from piecework_orchestrator.dead_letters.redrive import discard, redrive
from piecework_orchestrator.operate.webhooks import Subscription, set_webhook
from piecework_orchestrator.reading.job_documents import explain
from tests.unit.orchestrator.simulated import REF, Simulated, redrive_of, simulate

TICKET_S, CUSTOMER_S = 1_800.0, 7_200.0


class Refund(BaseModel):
    """A chunk."""

    n: int


@dataclass
class Desk:
    """What the hooks and the stage did, by the clock of the loop."""

    tried: list[float] = field(default_factory=list)
    called: list[tuple[str, float, str]] = field(default_factory=list)
    is_bank_open: bool = False
    on_ticket: Callable[[], None] = lambda: None

    def calls(self, rung: str) -> list[float]:
        """Return the times at which a hook was called."""
        return [at for name, at, _ in self.called if name == rung]


desks: list[Desk] = []


def now() -> float:
    return asyncio.get_running_loop().time()


async def pay(ctx: Context[Refund]) -> str:
    """Fail while the bank is closed."""
    desks[-1].tried.append(now())
    if not desks[-1].is_bank_open:
        raise TransientError("the bank is closed")
    return "paid"


def noted(reached: Escalation) -> None:
    desks[-1].called.append((reached.rung, now(), reached.idempotency_key))


async def open_ticket(reached: Escalation) -> None:
    noted(reached)
    desks[-1].on_ticket()


async def tell_customer(reached: Escalation) -> None:
    noted(reached)


refunds = Pipeline(
    "refunds",
    payload=Refund,
    stages=[Stage(pay)],
    ladder=Ladder(
        retry_after_s=(60, 600),
        rungs=[
            Rung("alert"),
            Rung("ticket", open_ticket, after_s=TICKET_S),
            Rung("customer", tell_customer, after_s=CUSTOMER_S),
        ],
    ),
)


async def dead(here: Simulated) -> DeadLetterRow:
    """Return the dead letter of the chunk, once it is there."""
    while True:
        if letters := await here.letters():
            return letters[0]
        await asyncio.sleep(1.0)


async def reached(here: Simulated, chunk: int = 0) -> list[tuple[str, float]]:
    """Return the rungs that the dead letter of a chunk has reached, and how late."""
    store = DeadLetters(here.rt.dead_letters, here.rt.settings, here.rt.clock)
    letter = await store.read(REF.chunk(chunk), 1)
    assert letter is not None
    return [
        (rung["rung"], moment(rung["reached_at"]) - moment(rung["due_at"]))
        for rung in letter.item["ladder"]
        if "reached_at" in rung
    ]


def run(act: Any, **settings: Any) -> Desk:
    """Run an act after the submit of one chunk; return what was done."""
    desks.append(Desk())

    async def submitted(here: Simulated) -> None:
        await here.submit(refunds, [Refund(n=1)])
        await act(here)

    known = {"max_attempts": 3, "reconcile_s": 5.0, "lease_s": 60.0, **settings}
    simulate(submitted, [refunds], **known)
    return desks[-1]


def test_a_dead_letter_climbs_the_whole_ladder_in_time() -> None:
    async def act(here: Simulated) -> None:
        # Both the rungs and the end of the job need the mark of the outbox.
        absent = "env:PIECEWORK_WEBHOOK_ABSENT"
        await set_webhook(here.rt, Subscription("ops", absent, absent), "tester")
        ended = await here.ended()
        assert ended.status is JobStatus.FAILED
        assert [name for name, _ in await reached(here)] in ([], ["alert"])
        await asyncio.sleep(TICKET_S + 60)
        [finding, *_] = (await explain(here.rt, ended))["findings"]
        assert (
            "Rungs reached: ticket (1). Next rung: customer at 20" in finding["message"]
        )
        await asyncio.sleep(CUSTOMER_S - TICKET_S)
        found = await reached(here)
        assert [name for name, _ in found] == ["alert", "ticket", "customer"]
        assert all(0 <= late <= 60 for _, late in found)
        letter = await dead_letter_document(here.rt, REF.chunk(0))
        shown.extend((row["rung"], row.get("after")) for row in ladder_rows(letter))

    shown: list[tuple[str, str | None]] = []
    desk = run(act)
    first, second, third = desk.tried
    assert shown == [
        ("attempt 1", ""),
        ("attempt 2", f"1m{round(second - first) - 60}s"),
        ("attempt 3", f"10m{round(third - second) - 600}s"),
        ("dead letter", None),
        ("alert", "at once"),
        ("ticket", "30m"),
        ("customer", "2h"),
    ]
    assert 60 <= second - first <= 70
    assert 600 <= third - second <= 670
    assert [name for name, _, _ in desk.called] == ["ticket", "customer"]


async def pay_some(ctx: Context[Refund]) -> str:
    """Refuse the first refund; the others wait."""
    if ctx.payload.n == 0:
        raise PermanentError("no such order")
    await ctx.sleep(seconds=2 * TICKET_S)
    return "paid"


async def close_books(results: Results[str]) -> None:
    """Fail the join."""
    del results
    raise PermanentError("the books are closed")


def test_rungs_do_not_wait_for_the_end_of_the_job_and_a_join_has_them_too() -> None:
    async def act(here: Simulated) -> None:
        await here.submit(some, [Refund(n=0), Refund(n=1)])
        await asyncio.sleep(TICKET_S + 60)
        job = await here.rt.jobs.read(REF)
        assert job is not None
        assert job.status is JobStatus.RUNNING
        found = await reached(here)
        await here.ended()
        await asyncio.sleep(TICKET_S + 60)
        found += await reached(here, keys.JOIN_CHUNK)
        assert [name for name, _ in found] == ["alert", "ticket"] * 2
        assert all(0 <= late <= 60 for _, late in found)

    desks.append(Desk())
    rungs = refunds.ladder.rungs[:2] if refunds.ladder else ()
    some = Pipeline(
        "some",
        payload=Refund,
        stages=[Stage(pay_some)],
        join=close_books,
        ladder=Ladder(rungs=rungs),
    )
    simulate(act, [some], reconcile_s=5.0, lease_s=60.0)


@pytest.mark.parametrize("way", ["redrive", "discard"])
def test_a_closed_dead_letter_climbs_no_further(way: str) -> None:
    async def act(here: Simulated) -> None:
        await dead(here)
        await here.ended()
        await asyncio.sleep(1.5 * TICKET_S)
        letters = await here.letters()
        if way == "redrive":
            desks[-1].is_bank_open = True
            await redrive(here.rt, redrive_of(letters))
        else:
            await discard(here.rt, REF, letters, Closing("tester", "a test"))
        await asyncio.sleep(CUSTOMER_S)
        outbox = keys.outbox_pk(REF.tenant)
        assert await here.rt.table.first(outbox, 1, prefix=keys.DUE_PREFIX) == []

    assert [name for name, _, _ in run(act).called] == ["ticket"]


@pytest.mark.parametrize(("name", "odd"), [("ladder", "odd"), ("v", 99)])
def test_an_unreadable_letter_interrupts_no_delivery(name: str, odd: Any) -> None:
    async def act(here: Simulated) -> None:
        letter, table = await dead(here), here.rt.dead_letters
        await asyncio.sleep(60.0)
        key = REF.pk, keys.dead_letter_sk(letter.chunk, letter.gen)
        item = await table.get(*key)
        facts = {"update": f"SET {name} = :odd", "values": {"odd": odd}}
        await table.update(table.item_write("Update", *key, **facts))
        await asyncio.sleep(TICKET_S)
        await table.transact([table.item_write("Put", *key, item=item)])
        await asyncio.sleep(60.0)

    said: list[str] = []
    desk = run(act, said=said.append)
    assert not [line for line in said if "interrupted" in line and "webhook" in line]
    # A newer process acts on what this one cannot read; none can on a damaged one.
    assert (name == "v") is bool(desk.calls("ticket"))


def test_a_hook_that_fails_is_called_six_times_and_holds_no_later_rung() -> None:
    def fail() -> None:
        raise TransientError("the desk is closed")

    async def act(here: Simulated) -> None:
        desks[-1].on_ticket = fail
        await dead(here)
        await asyncio.sleep(CUSTOMER_S + 60)
        [alert, ticket, customer] = (await dead(here)).item["ladder"]
        assert "reached_at" in alert
        assert ticket["error"] == "runtime.stage.transient: the desk is closed"
        assert ticket["calls"] == 6
        late = moment(customer["reached_at"]) - moment(customer["due_at"])
        assert 0 <= late <= 60

    desk = run(act)
    assert len(desk.calls("ticket")) == 6
    assert len(desk.calls("customer")) == 1


#: Every request that a worker or a reconciler makes beside a rung.
REQUESTS = [
    "get_item",
    "transact_write_items",
    "send_message_batch",
    "receive_message",
    "delete_message_batch",
    "query",
]


@pytest.mark.parametrize(
    ("number", "when"), [(1, "asked"), (1, "answered"), (2, "asked"), (3, "answered")]
)
@pytest.mark.parametrize("request_lost", REQUESTS)
def test_a_kill_beside_a_rung_loses_and_doubles_nothing(
    when: str, request_lost: str, number: int
) -> None:
    async def act(here: Simulated) -> None:
        letter = await dead(here)
        await here.ended()
        await asyncio.sleep(
            TICKET_S - 5 - (here.rt.clock() - moment(letter.dead_lettered_at))
        )
        left, killed = number, False

        def on_exchange(moment_: str, exchange: Any) -> None:
            nonlocal left, killed
            if killed or moment_ != when or exchange.operation != request_lost:
                return
            left -= 1
            if not left:
                killed = True
                here.world.kill(exchange.client.process)
                here.fleet.worker(reconcile=True)

        here.world.on_exchange = on_exchange
        here.fleet.worker(reconcile=True)
        await asyncio.sleep(TICKET_S)
        assert [name for name, _ in await reached(here)] == ["alert", "ticket"]
        (late,) = [late for name, late in await reached(here) if name == "ticket"]
        assert late <= 1_100

    desk = run(act)
    assert 1 <= len(desk.calls("ticket")) <= 2
    assert len({key for _, _, key in desk.called}) == 1
