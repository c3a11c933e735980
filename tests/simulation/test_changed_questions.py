"""Newer code compensates what older code did, and asks for it by other names.

True workers on the simulated AWS. Version 1 charges, and version 2 fails for good. Its
compensation asks by `ctx.happened` for the charge as version 2 would make it. No refund
may be left out in silence, and no compensation that asks for everything is stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from piecework import Context, Happened, NotHappened, Pipeline, Stage
from piecework.domain.chunk import Chunk
from piecework_orchestrator.operate.changes import accept_changes
from tests.simulation.test_begun_compensations import fails, start, then
from tests.simulation.test_changed_calls import (
    BOOK,
    KEYED,
    Item,
    Run,
    arrive,
    bank,
    calls,
    failed_once,
    has_stopped,
    has_stopped_or_ended,
    then_fails,
    when,
)
from tests.unit.orchestrator.simulated import REF, Simulated, simulate

BANK = bank(KEYED)
MAIL = bank(KEYED, "mail")


@pytest.fixture(autouse=True)
def _new_book() -> None:
    BOOK.sent, BOOK.hangs, BOOK.declines = [], "", False


async def charge(who: str, currency: str = "", *, idempotency_key: str = "") -> str:
    """Charge a customer."""
    del idempotency_key
    return await arrive(f"charge {who}{currency}")


async def charge_card(who: str, *, idempotency_key: str = "") -> str:
    """Charge a customer: the function has another name."""
    del idempotency_key
    return await arrive(f"charge {who}")


async def write(who: str, *, idempotency_key: str = "") -> str:
    """Write a mail."""
    del idempotency_key
    return await arrive(f"write {who}")


async def refund(what: str, *, idempotency_key: str = "") -> str:
    """Pay a charge back."""
    del idempotency_key
    return await arrive(f"refund {what}")


def back(*questions: tuple[Any, ...]) -> Run:
    """Return a compensation that refunds what it finds."""

    async def run(ctx: Context[Item]) -> None:
        for question in questions:
            match ctx.happened(*question):
                case Happened(answer=answer):
                    await ctx.call(BANK, refund, answer)
                case NotHappened():
                    pass

    return run


async def pays(ctx: Context[Item]) -> None:
    """Charge, and write: a stage whose functions can be seen."""
    await ctx.call(BANK, charge, "ann")
    await ctx.call(MAIL, write, "ann")


SHIP_LATER = then_fails(calls())
SHIP_NEVER = then(calls(), fails)


def shop(pay: Run, undo: Run, ship: Run) -> Pipeline:
    """Return a version of the pipeline."""
    stages = [Stage(pay, name="pay", compensate=undo), Stage(ship, name="ship")]
    return Pipeline("shop", payload=Item, stages=stages)


def across(first: Run, second: Run, undo: Run) -> Chunk:
    """Let version 1 pay, and version 2 fail; return the chunk at its rest."""
    one, two = shop(first, undo, SHIP_LATER), shop(second, undo, SHIP_NEVER)

    async def act(at: Simulated) -> Chunk:
        await start(at, one, "v1")
        await at.submit(one, [Item()])
        await when(at, lambda chunk: chunk.stage == "ship" and failed_once(chunk))
        await start(at, two, "v2")
        return await when(at, has_stopped_or_ended)

    return simulate(act, [one], max_attempts=9)


PAY = calls((BANK, charge, "ann"))
TWICE = calls((BANK, charge, "ann"), (BANK, charge, "bob"))
CHANGED: Sequence[tuple[Run, Run, list[tuple[Any, ...]]]] = [
    (PAY, calls((BANK, charge, "ann", "EUR")), [(charge, "ann", "EUR")]),
    (PAY, calls((BANK, charge_card, "ann")), [(charge_card,)]),
    (PAY, calls((BANK, charge_card, "ann")), [(charge_card, "ann")]),
    # The dependency has another name, too.
    (PAY, calls((MAIL, charge_card, "ann")), [(charge_card,)]),
    # One of two is found.
    (TWICE, TWICE, [(charge, "ann"), (charge, "bob", "EUR")]),
]


@pytest.mark.parametrize(("first", "second", "questions"), CHANGED)
def test_no_refund_is_left_out_by_newer_code(
    first: Run, second: Run, questions: list[tuple[Any, ...]]
) -> None:
    chunk = across(first, second, back(*questions))

    assert ("WAITING", "runtime.code.changed") == (chunk.status, chunk.error_code)


@pytest.mark.parametrize(
    ("first", "questions", "refunds"),
    [
        (PAY, [(charge,)], 1),
        (TWICE, [(charge, "bob"), (charge, "ann")], 2),
        # The newer version asks for more than there is, in any order.
        (TWICE, [(charge, "cid"), (charge, "bob"), (charge, "ann")], 2),
        (PAY, [(charge_card,), (charge,)], 1),
        # What the stage still names is another act.
        (pays, [(charge_card,), (charge,)], 1),
        (pays, [(charge,)], 1),
    ],
)
def test_a_compensation_that_finds_everything_ends(
    first: Run, questions: list[tuple[Any, ...]], refunds: int
) -> None:
    chunk = across(first, first, back(*questions))

    assert ("DEAD", "COMPENSATED") == (chunk.status, chunk.compensation)
    assert refunds == sum(sent.startswith("refund") for sent in BOOK.sent)


def test_a_person_lets_the_compensation_go_on_or_the_old_code_ends_it() -> None:
    one = shop(PAY, back((charge, "ann")), SHIP_LATER)
    two = shop(PAY, back((charge, "ann", "EUR")), SHIP_NEVER)
    three = shop(PAY, back((charge, "ann")), SHIP_NEVER)

    async def act(at: Simulated, last: Pipeline | None) -> Chunk:
        await start(at, one, "v1")
        await at.submit(one, [Item()])
        await when(at, lambda chunk: chunk.stage == "ship" and failed_once(chunk))
        await start(at, two, "v2")
        await when(at, has_stopped)
        if last is None:
            job = await at.rt.jobs.read(REF)
            assert job is not None
            await accept_changes(at.rt, job, actor="ann", reason="by hand")
        else:
            await start(at, last, "v3")
        await at.ended()
        return (await at.chunks())[0]

    accepted = simulate(lambda at: act(at, None), [one], max_attempts=9)
    assert ("DEAD", "COMPENSATED") == (accepted.status, accepted.compensation)
    assert ["charge ann"] == BOOK.sent

    BOOK.sent = []
    ended = simulate(lambda at: act(at, three), [one], max_attempts=9)
    assert ("DEAD", "COMPENSATED") == (ended.status, ended.compensation)
    assert ["charge ann", "refund charge ann"] == BOOK.sent
