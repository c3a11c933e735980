"""A late redrive or retry starts no new generation, whose join would be wasted.

Each case is what another operator has left of a job with two chunks, of which one is
dead, and what a redrive or retry of the dead one does: the number of chunks and the
generation, or the code of its refusal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest
from pydantic import BaseModel

from piecework import Context, PermanentError, Pipeline, Results, Stage
from piecework.domain import keys
from piecework.domain.dead_letter import DeadLetterRow
from piecework.errors import StoreError, UsageError
from piecework.store.dead_letters import Closing
from piecework.store.serialization import to_value
from piecework_orchestrator.dead_letters import redrive as redriving
from piecework_orchestrator.dead_letters.canary import (
    CanaryRequest,
    Verdict,
    judge_wave,
    read_wave_result,
    redrive_canary,
)
from piecework_orchestrator.dead_letters.redrive import Edit, redrive
from piecework_orchestrator.operate.retry import RetryRequest, retry
from piecework_orchestrator.reading.events import job_events
from tests.unit.orchestrator.simulated import REF, Simulated, redrive_of, simulate

Row = dict[str, Any]


class Order(BaseModel):
    """A chunk."""

    n: int


async def sell(ctx: Context[Order]) -> int:
    """Fail for each but the first."""
    if ctx.payload.n:
        raise PermanentError("out of stock", code="tool.stock.none")
    return 0


async def add(_: Results) -> int:
    """Fail."""
    raise PermanentError("no sum", code="tool.sum.none")


SELLING = Pipeline("selling", payload=Order, stages=[Stage(sell)])
OTHER = replace(SELLING, name="other")
CLOSED = {"state": "DISCARDED"}
EMPTY, RUNS = "redrive.selection.empty", "job.state.not_finished"
#: What names the command that reopens a job: the same may repeat it.
REPEATED = {"reopened_by": "tester", "reopen_reason": "it is fixed"}
AGAIN = {"reopened_by": "me", "reopen_reason": "again"}
PAUSE = dict.fromkeys(("pause_code", "pause_message", "paused_by"), "operator")
PAUSE |= {"status": "PAUSED", "paused_at": "2026-01-01T00:00:00.000Z"}


async def set_row(table: Any, sk: str, row: Row) -> None:
    """Change attributes of a row of the job."""
    await table.client.update_item(
        TableName=table.name,
        Key={"pk": {"S": REF.pk}, "sk": {"S": sk}},
        UpdateExpression="SET " + ", ".join(f"#{n} = :{n}" for n in row),
        ExpressionAttributeNames={f"#{n}": n for n in row},
        ExpressionAttributeValues={f":{n}": to_value(v) for n, v in row.items()},
    )


async def prepare(
    here: Simulated,
    *,
    letter: Row | None = None,
    chunk: Row | None = None,
    job: Row | None = None,
    dead: int = 1,
) -> list[DeadLetterRow]:
    """Submit, await the death of a chunk, and change rows; return the open letters."""
    await here.submit(SELLING, [Order(n=0), Order(n=1)])
    await here.ended()
    letters = await here.letters()
    for table, sk, row in (
        (here.rt.table, REF.chunk(1).sk, chunk),
        (here.rt.table, keys.META_SK, job),
        (here.rt.dead_letters, keys.dead_letter_sk(dead, 1), letter),
    ):
        if row:
            await set_row(table, sk, row)
    return letters


async def outcome(act: Any) -> Any:
    """Return what an act returns, or the code and the next step of its refusal."""
    try:
        return await act
    except UsageError as refused:
        return refused.code, refused.next_step


@pytest.mark.parametrize(
    ("left", "edit", "expected", "gens"),
    [
        ({}, None, (1, 2), [1, 2]),
        ({"letter": CLOSED}, None, EMPTY, [1, 1]),
        ({"letter": {"state": "REDRIVEN"}}, None, EMPTY, [1, 1]),
        # A closed letter is skipped before its payload is edited.
        ({"letter": CLOSED}, Edit({}, pipeline=OTHER), EMPTY, [1, 1]),
        ({"chunk": {"status": "SUCCEEDED", "gen": 2}}, None, EMPTY, [1, 2]),
        ({"chunk": {"status": "SUCCEEDED"}}, None, EMPTY, [1, 1]),
        ({"job": {"status": "RUNNING"}}, Edit({"n": 0}), RUNS, [1, 1]),
        # An interrupted reopening is finished, though no chunk is left.
        (
            {
                "letter": {"state": "REDRIVEN"},
                "job": {"status": "REOPENING", "gen": 2, **REPEATED},
            },
            *(None, (0, 2), [1, 1]),
        ),
    ],
)
def test_a_redrive_reopens_what_is_still_open(
    left: dict[str, Row], edit: Edit | None, expected: object, gens: list[int]
) -> None:
    async def act(here: Simulated) -> None:
        request = replace(redrive_of(await prepare(here, **left)), edit=edit)
        stored = here.world.s3.names(here.rt.objects.bucket)
        found = await outcome(redrive(here.rt, request))
        if isinstance(expected, str):
            assert expected == found[0]
            assert found[1].startswith("`piecework ")
            assert stored == here.world.s3.names(here.rt.objects.bucket)
        else:
            assert expected == found
        assert gens == [chunk.gen for chunk in await here.chunks()]

    simulate(act, [SELLING])


@pytest.mark.parametrize(
    ("left", "expected", "step"),
    [
        ({"job": {"status": "SUCCEEDED"}}, "job.retry.nothing_left", "results a"),
        ({"job": PAUSE}, RUNS, "jobs resume a"),
        ({"job": {"status": "RUNNING"}}, RUNS, "jobs watch a"),
        ({"letter": CLOSED}, "job.retry.nothing_left", ""),
        *(
            ({"letter": CLOSED, "job": {"status": status}}, (0, 2), "")
            for status in ("FAILED", "CANCELLED")  # its join has not run
        ),
        (
            {"letter": CLOSED, "job": {"status": "REOPENING", "gen": 2, **AGAIN}},
            *((0, 2), ""),
        ),
    ],
)
def test_a_retry_without_a_chunk_is_for_a_job_whose_join_has_not_run(
    left: dict[str, Row], expected: object, step: str
) -> None:
    async def act(here: Simulated) -> None:
        await prepare(here, **left)
        found = await outcome(retry(here.rt, RetryRequest(REF, "me", "again")))
        if isinstance(expected, str):
            assert expected == found[0]
            assert found[1].startswith(f"`piecework {step}")
        else:
            assert expected == found

    simulate(act, [SELLING])


@pytest.mark.parametrize(
    ("left", "expected"), [({}, (1, 2)), ({"letter": CLOSED}, EMPTY)]
)
def test_a_join_is_redriven_while_its_letter_is_open(
    left: dict[str, Row], expected: object
) -> None:
    pipeline = replace(SELLING, join=add)

    async def act(here: Simulated) -> Any:
        letters = await prepare(here, dead=keys.JOIN_CHUNK, **left)
        joins = [letter for letter in letters if letter.ref.is_join]
        return await outcome(redrive(here.rt, redrive_of(joins)))

    found = simulate(act, [pipeline])
    assert expected in (found, found[0])


def test_a_discard_that_an_outage_ends_is_recorded() -> None:
    async def act(here: Simulated) -> None:
        def letters(found: list[DeadLetterRow]) -> Iterator[DeadLetterRow]:
            yield from found
            raise StoreError("gone")

        rows = cast("Any", letters(await prepare(here)))
        with pytest.raises(StoreError):
            await redriving.discard(here.rt, REF, rows, Closing("me", "x"))
        assert [] == await here.letters()
        job = await here.ended()
        (event,) = [
            each
            for each in await job_events(here.rt, job)
            if each["event"] == "discarded"
        ]
        assert {"actor": "me", "reason": "x", "letters": 1} == event["facts"]

    simulate(act, [SELLING])


def test_a_wave_that_others_have_closed_is_skipped() -> None:
    async def act(here: Simulated) -> None:
        letters = await prepare(here, letter=CLOSED)
        wanted = CanaryRequest(letters, lambda _, some: redrive_of(some), first=1)
        done = await redrive_canary(here.rt, wanted, lambda _: None, lambda _: None)
        assert (Verdict.CONTINUE, 0) == (done.verdict, done.remaining)
        assert [0] == [wave.redriven for wave in done.waves]
        # A damaged letter has no cause.
        sk = keys.dead_letter_sk(1, 1)
        await set_row(here.rt.dead_letters, sk, {"error_history": 1})
        died = await read_wave_result(here.rt, letters, {REF: 1})
        assert {"": 1} == died.died
        assert Verdict.NONE_SUCCEEDED is judge_wave(died, {letters[0].fingerprint})

    simulate(act, [SELLING])
