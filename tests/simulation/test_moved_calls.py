"""Newer code makes a call in a later stage, which reaches it by a helper.

The shape of the pipeline names only what a stage names itself. So the ledger decides:
another version did the same, with equal arguments, in a stage that has completed.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from piecework import Context, Dependency, PermanentError, Pipeline, Stage
from piecework.domain.chunk import Chunk
from piecework_orchestrator.operate.changes import accept_changes
from tests.simulation.test_changed_calls import (
    BOOK,
    KEYED,
    OLD,
    ONCE,
    PURE,
    End,
    Item,
    Run,
    arrive,
    bank,
    calls,
    charge,
    failed_once,
    has_stopped_or_ended,
    moved_charge,
    pipeline,
    then_fails,
    when,
    why,
)
from tests.simulation.test_new_code import deploy
from tests.unit.orchestrator.simulated import REF, Simulated, simulate

post = Dependency("post", effect=KEYED)


@pytest.fixture(autouse=True)
def _new_book() -> None:
    BOOK.sent, BOOK.hangs, BOOK.declines = [], "", False


@post.call
async def mail(who: str, *, idempotency_key: str = "") -> str:
    """Send a letter."""
    del idempotency_key
    return await arrive(f"mail {who}")


async def mails(ctx: Context[Item]) -> None:
    """Send the letter, as a stage that names it."""
    del ctx
    await mail("ann")


async def mails_by_a_helper(ctx: Context[Item]) -> None:
    """Send the letter, as a stage that does not."""
    await mails(ctx)


async def then_mails(ctx: Context[Item]) -> None:
    """Send it at the second attempt, as a stage that names it."""
    await wait_once(ctx)
    await mail("ann")


async def then_mails_by_a_helper(ctx: Context[Item]) -> None:
    """Send it at the second attempt, as a stage that does not."""
    await wait_once(ctx)
    await mails(ctx)


async def wait_once(ctx: Context[Item]) -> None:
    """Fail the first attempt at the stage, which version 1 makes."""
    if ctx.attempt == 1:
        await then_fails(calls())(ctx)


@dataclass(frozen=True)
class Deployed:
    """A version of the pipeline, with the code version of its workers."""

    code: str
    stages: tuple[Run, ...]


async def start(at: Simulated, version: Deployed) -> None:
    """Replace the workers by those of a version."""
    at.fleet.code_versions = {"shop": version.code}
    await deploy(at, pipeline(*version.stages))


def across(old: Deployed, new: Deployed) -> End:
    """Run version 1 until its chunk waits in its last stage, then version 2."""

    async def act(at: Simulated) -> End:
        await start(at, old)
        await at.submit(pipeline(*old.stages), [Item()])
        await when(at, failed_once)
        await start(at, new)
        chunk = await when(at, has_stopped_or_ended)
        return End(chunk, await why(at, chunk))

    return simulate(act, [pipeline(*old.stages)], max_attempts=9)


def moved(old: str, new: str, now: Run | None = None) -> tuple[Deployed, Deployed]:
    """Return both versions: the call has left the first stage for the second one."""
    return (
        Deployed(old, (calls(OLD), then_fails(calls()))),
        Deployed(new, (calls(), now or calls(OLD))),
    )


@pytest.mark.parametrize(("old", "new"), [("v1", "v2"), ("", "v2"), ("v1", "")])
def test_an_act_of_a_stage_that_has_completed_is_not_repeated(
    old: str, new: str
) -> None:
    end = across(*moved(old, new))

    assert ["charge ann 5"] == BOOK.sent
    assert end.stopped
    assert "stage 'b' is about to call" in end.why
    assert "in stage 'a', which has completed" in end.why
    assert "charge of 'bank' (DONE)" in end.why


def test_an_act_in_doubt_of_a_stage_that_has_completed_is_not_repeated() -> None:
    async def goes_on(ctx: Context[Item]) -> None:
        short = Dependency("bank", effect=ONCE, timeout=5.0)
        with suppress(PermanentError):
            await ctx.call(short, charge, "ann")

    BOOK.hangs = "charge ann 5"
    old, new = moved("v1", "v2", calls((bank(ONCE), charge, "ann")))

    end = across(Deployed("v1", (goes_on, old.stages[1])), new)

    assert ["charge ann 5"] == BOOK.sent
    assert end.stopped
    assert "charge of 'bank' (UNKNOWN)" in end.why


@pytest.mark.parametrize(
    ("old", "new", "now"),
    [
        # Nothing says that the code has changed.
        ("v1", "v1", OLD),
        ("", "", OLD),
        # It is another act.
        ("v1", "v2", (bank(), charge, "bob")),
        ("v1", "v2", (bank(), moved_charge, "ann")),
        ("v1", "v2", (bank(name="till"), charge, "ann")),
        ("v1", "v2", (bank(PURE), charge, "ann")),
    ],
)
def test_two_stages_may_call_as_their_program_says(
    old: str, new: str, now: tuple[Any, ...]
) -> None:
    end = across(*moved(old, new, calls(now)))

    assert "SUCCEEDED" == end.chunk.status
    assert 2 == len(BOOK.sent)


@pytest.mark.parametrize(
    ("first", "second", "sent"),
    [
        (mails, then_mails, 2),
        (mails, then_mails_by_a_helper, 1),
        (mails_by_a_helper, then_mails, 1),
    ],
)
def test_both_stages_may_make_a_call_that_both_name_in_each_version(
    first: Run, second: Run, sent: int
) -> None:
    stages = (first, second)

    end = across(Deployed("v1", stages), Deployed("v2", stages))

    assert ["mail ann"] * sent == BOOK.sent
    assert end.stopped == (sent == 1)


def test_a_version_that_completed_the_stage_may_call_in_the_next_one() -> None:
    """It asked there for what the version before it had done."""

    async def charges_again(ctx: Context[Item]) -> None:
        if ctx.attempt == 2:
            await then_fails(calls())(ctx)
        await calls(OLD)(ctx)

    old = Deployed("v1", (then_fails(calls(OLD)), calls()))
    new = Deployed("v2", (calls(OLD), charges_again))

    end = across(old, new)

    assert "SUCCEEDED" == end.chunk.status
    assert ["charge ann 5"] * 2 == BOOK.sent


def test_a_compensation_makes_the_call_of_a_stage_that_has_completed() -> None:
    async def fails(ctx: Context[Item]) -> None:
        del ctx
        message = "no"
        raise PermanentError(message, code="tool.x.no")

    old, _ = moved("v1", "")
    undone = Stage(calls(), name="a", compensate=calls(OLD))
    newer = Pipeline("shop", payload=Item, stages=[undone, Stage(fails, name="b")])

    async def act(at: Simulated) -> Chunk:
        await start(at, old)
        await at.submit(pipeline(*old.stages), [Item()])
        await when(at, failed_once)
        at.fleet.code_versions = {"shop": "v2"}
        await deploy(at, newer)
        return await when(at, has_stopped_or_ended)

    chunk = simulate(act, [pipeline(*old.stages)], max_attempts=9)

    assert ("DEAD", "tool.x.no") == (chunk.status, chunk.error_code)
    assert "COMPENSATED" == chunk.compensation
    assert ["charge ann 5"] * 2 == BOOK.sent


def test_an_operator_lets_the_moved_call_be_made() -> None:
    old, new = moved("v1", "v2")

    async def act(at: Simulated) -> Chunk:
        await start(at, old)
        await at.submit(pipeline(*old.stages), [Item()])
        await when(at, failed_once)
        await start(at, new)
        await when(at, has_stopped_or_ended)
        job = await at.rt.jobs.read(REF)
        assert job is not None
        await accept_changes(at.rt, job, actor="ann", reason="another order")
        await at.ended()
        return (await at.chunks())[0]

    chunk = simulate(act, [pipeline(*old.stages)], max_attempts=9)

    assert "SUCCEEDED" == chunk.status
    assert ["charge ann 5"] * 2 == BOOK.sent
