"""A large job is reopened with little memory, and reports progress meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.job import Job
from piecework.domain.outcome import CompensationResult, DeadLettered
from piecework.errors import StoreError
from piecework.jobs.fan_out import PROGRESS_WRITE_S
from piecework.settings import Settings
from piecework.store.dead_letters import Closing, DeadLetters
from piecework.store.pipelines import PipelineState
from piecework.store.reopen import Patched, Reopening, Schedule, reopening
from piecework_orchestrator.operate import retry as retrying
from piecework_orchestrator.operate.retry import (
    DispatchRate,
    ReopenRequest,
    RetryRequest,
    dispatch,
    remove_from_tallies,
    reopen,
    reopen_chunks,
)
from tests.unit.piecework.fakes import envelope
from tests.unit.piecework.store.tables import REF, claim, paper

DEAD = {"status": "DEAD", "gen": 1, "fence": 2, "stage": "second", "label": "7 Fees"}


@pytest.mark.parametrize("more", [{}, {"resume_at": "first", "error_code": "x.y.z"}])
def test_what_is_kept_of_a_chunk_is_enough_to_reopen_it(more: dict[str, Any]) -> None:
    chunk, table = Chunk.read(REF, DEAD | more), paper()
    how = Reopening(Patched("p/0+1", "ab", "{}"), Schedule(1.0, 2.0))
    slim = chunk.to_reopen()
    assert reopening(table, chunk, 2, how) == reopening(table, slim, 2, how)
    assert "label" not in slim.item


def test_what_is_kept_of_a_dead_letter_is_enough_to_close_it() -> None:
    letters = DeadLetters(paper(), Settings(), lambda: 0.0)
    death = DeadLettered(envelope(), CompensationResult.NOT_NEEDED)
    item = letters.row(claim(), death, [], pipeline="review", owner="")
    letter, by = DeadLetterRow(item, REF, 1), Closing("me", "why")
    slim = letter.to_close()
    actions = letters.redrive_writes(letter, 2, by)
    assert actions == letters.redrive_writes(slim, 2, by)
    assert {"error_history", "error"} & slim.item.keys() == set()


class Unpaused:
    """Pipelines that were never paused."""

    async def read(self, tenant: str, pipeline: str) -> PipelineState:
        return PipelineState(tenant, pipeline)


class Slow:
    """A deployment in which every request is slow; records the progress reports."""

    def __init__(self) -> None:
        self.now = 0.0
        self.shown: list[tuple[int, float]] = []
        self.sent: list[int] = []
        self.settings = Settings()
        self.table = self.dead_letters = None
        self.jobs = self.tallies = self.work = self.transitions = self
        self.pipelines = Unpaused()

    def clock(self) -> float:
        return self.now

    async def slowly(self, *_: object) -> bool:
        self.now += PROGRESS_WRITE_S / 2
        return True

    remove = reopened = slowly

    async def record(self, *_: object) -> None:
        raise StoreError("gone")

    async def send(self, messages: list[Any], *, to: str, delay_s: float = 0.0) -> None:
        self.sent += [message.chunk for message in messages]
        await self.slowly()

    async def touch(self, job: Job) -> bool:
        self.shown.append((job.gen, self.now))
        return True

    async def read(self, _: object) -> Job:
        return JOB


JOB = Job.read(
    REF.of, {"status": "REOPENING", "gen": 2, "chunks": 5000, "pipeline": "p"}
)
#: The progress reports of five requests in a row.
SHOWN = [(2, PROGRESS_WRITE_S), (2, 2 * PROGRESS_WRITE_S)]


async def test_reopening_many_chunks_reports_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rt: Any = Slow()
    monkeypatch.setattr(retrying, "reopen_chunk", rt.slowly)
    to_reopen = [
        ReopenRequest(Chunk.read(REF.of.chunk(number), DEAD)) for number in range(5)
    ]
    told: list[tuple[str, int]] = []
    request = RetryRequest(REF.of, "me", "why", None, None, lambda *s: told.append(s))
    reopened = await reopen_chunks(rt, JOB, to_reopen, request, None)
    assert 5 == len(reopened)
    assert told == [("written", n) for n in range(1, 6)]
    assert SHOWN == rt.shown


async def test_removing_many_groups_from_the_tallies_reports_progress() -> None:
    rt: Any = Slow()
    await remove_from_tallies(rt, JOB, [n * keys.PARTITION_SIZE for n in range(5)])
    assert SHOWN == rt.shown


async def test_dispatching_many_chunks_reports_progress() -> None:
    rt: Any = Slow()
    chunks = [Chunk.read(REF.of.chunk(number), DEAD) for number in range(41)]
    told: list[tuple[str, int]] = []
    await dispatch(rt, JOB, chunks, None, lambda *step: told.append(step))
    assert list(range(41)) == rt.sent
    assert told == [("sent", n) for n in (10, 20, 30, 40, 41)]
    assert SHOWN == rt.shown


async def test_slots_begin_at_the_reopening_and_messages_precede_the_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rt: Any = Slow()
    late: list[float] = []

    async def reopen_chunk(*asked: Any) -> bool:
        late.append(rt.now - asked[-1].schedule.not_before)
        return True

    monkeypatch.setattr(retrying, "reopen_chunk", reopen_chunk)
    to_reopen = [ReopenRequest(Chunk.read(REF, DEAD))]
    request = RetryRequest(REF.of, "me", "why", rate=1.0)
    with pytest.raises(StoreError):
        await reopen(rt, JOB, to_reopen, request, "redriven")
    assert ([0.0], [REF.chunk]) == (late, rt.sent)


async def test_a_submit_that_was_cut_off_is_finished_in_place_of_a_dispatch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rt: Any = Slow()
    half = Job.read(REF.of, JOB.item | {"status": "SUBMITTING"})
    finished: list[Job] = []

    async def read(_: object) -> Job:
        return half

    async def fan_out(_: object, job: Job) -> None:
        finished.append(job)

    rt.read = read
    monkeypatch.setattr(retrying, "fan_out", fan_out)
    await dispatch(rt, JOB, [Chunk.read(REF, DEAD)], None)
    assert ([half], []) == (finished, rt.sent)


async def test_dispatching_at_a_rate_sends_each_chunk() -> None:
    rt: Any = Slow()
    chunks = [Chunk.read(REF.of.chunk(number), DEAD) for number in range(3)]
    await dispatch(rt, JOB, chunks, DispatchRate(1.0, 0.0))
    assert [0, 1, 2] == rt.sent
