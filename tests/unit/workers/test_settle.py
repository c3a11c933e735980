"""What is written with the end of a claim: the rows after it, on the model of AWS."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from piecework import Context, PermanentError, Pipeline, Stage
from piecework.domain import keys
from piecework.domain.outcome import Released, Succeeded
from piecework.errors import StoreError
from piecework.store.results import INLINE_BYTES
from piecework_worker.settle import (
    DEFERRED_FROM,
    SETTLE_ATTEMPTS,
    resume_at,
    settle,
)
from piecework_worker.work_item import MessageAction as Do
from tests.unit.piecework.fakes import Clause, checkpoints_of
from tests.unit.virtual import run_virtually
from tests.unit.workers.on_the_model import REF, desk
from tests.unit.workers.runs import chunk_run

LARGE = "x" * INLINE_BYTES
#: What the second stage returns; an exception: what it raises.
RETURNS: list[Any] = []


async def first(_: Context[Clause]) -> str:
    return "one"


async def second(_: Context[Clause]) -> str | None:
    if isinstance(RETURNS[0], Exception):
        raise RETURNS[0]
    return RETURNS[0]  # type: ignore[no-any-return]


STAGES = [Stage(first), Stage(second)]
EARLY = Pipeline(name="early", payload=Clause, stages=STAGES, result=first)
LATE = Pipeline(name="late", payload=Clause, stages=STAGES)


@pytest.mark.parametrize(
    ("pipeline", "gen", "value", "beside"),
    [
        # A result lies on its chunk, unless it is large; so does a small last value.
        (LATE, 1, "two", ""),
        (LATE, 1, LARGE, keys.result_sk(0)),
        (LATE, 2, "two", ""),
        (EARLY, 1, "two", ""),
        (EARLY, 1, LARGE, keys.stage_sk(0, "second", 1)),
        (LATE, 1, None, ""),
    ],
)
async def test_a_small_result_lies_on_its_chunk(
    pipeline: Pipeline, gen: int, value: str | None, beside: str
) -> None:
    RETURNS[:] = [value]
    here = await desk(pipeline, Clause())
    await here.reopen(gen)

    assert Do.ACK is await here.execute()

    row, other = await here.row(), await here.row(sk=beside or "none")
    stored = "null" if value is None else f'"{value}"'
    is_early = pipeline is EARLY
    result = '"one"' if is_early else stored
    assert keys.sha256(result.encode()) == row["result_sha256"]
    has_value = is_early or (value and not beside)
    assert (result if has_value else None) == row.get("value")
    assert ("first" if is_early else None) == row.get("result_stage")
    assert bool(beside) is bool(other)
    assert (["first", "second"] if is_early else ["first"]) == [*row["stages"]]


async def test_a_dead_letter_is_counted_in_the_generation_of_its_claim() -> None:
    RETURNS[:] = [PermanentError("no")]
    here = await desk(LATE, Clause())
    await here.set_row(REF.of, tolerated_chunks=1)
    await here.reopen(2)

    assert Do.ACK is await here.execute()

    (letter,) = await here.letters()
    assert ("DEAD", "OPEN", 2) == (
        (await here.row())["status"],
        letter["state"],
        letter["gen"],
    )
    assert 1 == (await here.row(sk=keys.failed_sk(2, REF.chunk)))["failed_chunks"]


async def test_a_worker_that_lost_its_claim_settles_nothing() -> None:
    async def loses(_: Context[Clause]) -> str:
        await here.set_row(claim_token="another", fence=9)
        return "two"

    stages = [Stage(first), Stage(loses)]
    here = await desk(Pipeline("loses", payload=Clause, stages=stages), Clause())

    assert Do.KEEP is await here.execute()

    assert ("RUNNING", 9) == ((row := await here.row())["status"], row["fence"])
    assert "lease.lost" in here.events()
    assert "chunk.succeeded" not in here.events()


# ── an outage of the store ───────────────────────────────────────────────────


@dataclass
class Failing:
    """Fails at each write, or answers as told."""

    code: str = ""
    answers: Any = ()
    tries: int = 0

    async def release(self, *_: Any, **__: Any) -> bool:
        self.tries += 1
        if self.tries <= len(self.answers):
            answer = self.answers[self.tries - 1]
            if isinstance(answer, bool):
                return answer
        raise StoreError("no", code=self.code or "aws.service.unavailable")

    succeed = defer = release


def settled(run: Any, settlements: Any) -> None:
    job: Any = SimpleNamespace(ref=REF.of, tolerated_chunks=0, has_ladder=False)
    rt: Any = SimpleNamespace(rng=Random(1))
    run_virtually(settle(run, job, rt, settlements))


@pytest.mark.parametrize(
    ("code", "tries"),
    [("aws.service.unavailable", SETTLE_ATTEMPTS), ("aws.request.invalid", 1)],
)
def test_an_outage_is_waited_for_so_often_and_a_refused_request_never(
    code: str, tries: int
) -> None:
    run, failing = chunk_run(fence=1), Failing(code)
    run.outcome = Released()
    with pytest.raises(StoreError):
        settled(run, failing)
    assert tries == failing.tries


def test_a_refused_deferral_may_follow_an_applied_success() -> None:
    run = chunk_run(fence=1)
    run.outcome = Succeeded("1")
    settled(run, Failing(answers=[*[None] * DEFERRED_FROM, False, True]))
    assert (Succeeded("1"), False) == (run.outcome, run.journal.patient)


# ── where a redrive resumes ──────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("completed", "undone", "stage"),
    [
        ({}, {}, "first"),
        ({"first": "1"}, {}, "second"),
        ({"first": "1"}, {"first": None}, "first"),
        ({"first": "1", "second": "2"}, {}, "second"),
        ({"first": "1", "second": "2"}, {"first": None}, "first"),
    ],
)
def test_a_redrive_resumes_at_the_first_incomplete_or_compensated_stage(
    completed: Any, undone: Any, stage: str
) -> None:
    checkpoints = checkpoints_of(LATE, completed=completed, compensated=undone)
    run: Any = SimpleNamespace(pipeline=LATE, checkpoints=checkpoints)
    assert stage == resume_at(run)
