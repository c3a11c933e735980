"""A worker caches the jobs whose chunks it runs, and notes what blocks them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from piecework.domain.outcome import Deferred
from piecework.domain.refs import JobRef
from piecework.errors import StoreError
from piecework.resilience.breaker import OPEN_CODE
from piecework.settings import Settings
from piecework_worker.job_cache import JobCache
from piecework_worker.job_notes import JobNotes
from tests.unit.piecework.fakes import envelope
from tests.unit.virtual import run_virtually

REF, OTHER = JobRef("acme", "one"), JobRef("acme", "two")


class Jobs:
    """Answers as set, after a moment."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[JobRef] = []

    async def read(self, ref: JobRef) -> Any:
        self.asked.append(ref)
        await asyncio.sleep(0.01)
        answer = self.answers.pop(0) if self.answers else f"job {ref.job}"
        if isinstance(answer, Exception):
            raise answer
        return answer


def cache(jobs: Jobs) -> JobCache:
    rt: Any = SimpleNamespace(jobs=jobs, settings=Settings())
    return JobCache(rt)


def test_concurrent_callers_read_a_job_once() -> None:
    async def main() -> None:
        jobs = Jobs()
        here = cache(jobs)
        asked = [here.recent(REF), here.recent(OTHER), here.recent(REF)]
        assert ["job one", "job two", "job one"] == await asyncio.gather(*asked)
        assert [REF, OTHER] == jobs.asked
        await here.recent(REF)
        assert [REF, OTHER] == jobs.asked
        await asyncio.sleep(Settings().cancel_poll_s)
        await here.recent(REF)
        assert [REF, OTHER, REF] == jobs.asked

    run_virtually(main())


def test_a_job_that_the_cancel_poller_has_read_is_not_read_again() -> None:
    async def main() -> None:
        jobs, seen = Jobs(), SimpleNamespace()
        here = cache(jobs)
        await here.recent(REF)
        await asyncio.sleep(Settings().cancel_poll_s)
        here.remember(REF, seen, asyncio.get_running_loop().time())  # type: ignore[arg-type]
        assert seen is await here.recent(REF)
        assert [REF] == jobs.asked

    run_virtually(main())


def test_a_failed_read_fails_for_all_callers_and_is_repeated() -> None:
    async def main() -> None:
        jobs = Jobs(StoreError("away"))
        here = cache(jobs)
        asked = [here.recent(REF), here.recent(REF)]
        failed = await asyncio.gather(*asked, return_exceptions=True)
        assert [StoreError, StoreError] == list(map(type, failed))
        assert "job one" == await here.recent(REF)

    run_virtually(main())


def test_a_cancelled_caller_does_not_cancel_the_shared_read() -> None:
    async def main() -> None:
        jobs = Jobs()
        here = cache(jobs)
        first, second = (asyncio.create_task(here.recent(REF)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert "job one" == await second
        with pytest.raises(asyncio.CancelledError):
            await first
        assert [REF] == jobs.asked

    run_virtually(main())


def test_a_job_that_is_not_there_is_asked_for_again() -> None:
    async def main() -> None:
        jobs = Jobs(None)
        here = cache(jobs)
        assert await here.recent(REF) is None
        assert "job one" == await here.recent(REF)

    run_virtually(main())


class Noting:
    """Keeps what it is told, and fails then."""

    def __init__(self) -> None:
        self.said: list[Any] = []

    async def note(self, *told: Any) -> None:
        self.said.append(told)
        raise StoreError("gone")


async def test_a_job_notes_once_what_blocks_it_even_for_an_endless_delay() -> None:
    noting: Any = Noting()
    notes = JobNotes(noting, "w", lambda: 1_790_000_000.0)
    failure = envelope(code=OPEN_CODE, retry_after=251_606_934_327.0)
    job: Any = SimpleNamespace(ref=REF)
    for _ in range(2):
        await notes.blocked(job, Deferred(failure, 1.0, "model"))

    said = [told[2] for told in noting.said]
    assert ["waits for dependency model until 2026-09-22T14:13:20.000Z"] == said


async def test_a_failed_note_does_not_stop_the_back_off() -> None:
    noting: Any = Noting()
    job: Any = SimpleNamespace(ref=REF, pipeline="review")
    notes = JobNotes(noting, "w", lambda: 0.0)
    for _ in range(2):
        await notes.left(job, None)
    reason = "worker w does not have pipeline review"
    assert [(REF, "runtime.pipeline.unknown", reason)] == noting.said
