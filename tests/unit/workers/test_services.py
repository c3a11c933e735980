"""A worker caches the jobs whose chunks it runs."""

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
from piecework_worker.services import WorkerServices
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


def services(jobs: Jobs) -> Any:
    nothing: Any = SimpleNamespace()
    rt: Any = SimpleNamespace(jobs=jobs, settings=Settings())
    parts: dict[str, Any] = dict.fromkeys(
        (
            "claims",
            "settlements",
            "dead_letters",
            "payloads",
            "lease_renewer",
            "call_limiter",
        ),
        nothing,
    )
    return WorkerServices(
        rt=rt,
        worker="w",
        pipelines={},
        queues=[""],
        log=nothing,
        breakers=nothing,
        limits=nothing,
        budgets=nothing,
        **parts,
    )


def test_concurrent_callers_read_a_job_once() -> None:
    async def main() -> None:
        jobs = Jobs()
        here = services(jobs)
        asked = [here.jobs.recent(REF), here.jobs.recent(OTHER), here.jobs.recent(REF)]
        assert ["job one", "job two", "job one"] == await asyncio.gather(*asked)
        assert [REF, OTHER] == jobs.asked
        await here.jobs.recent(REF)
        assert [REF, OTHER] == jobs.asked
        await asyncio.sleep(Settings().cancel_poll_s)
        await here.jobs.recent(REF)
        assert [REF, OTHER, REF] == jobs.asked

    run_virtually(main())


def test_a_job_that_the_cancel_poller_has_read_is_not_read_again() -> None:
    async def main() -> None:
        jobs, seen = Jobs(), SimpleNamespace()
        here = services(jobs)
        await here.jobs.recent(REF)
        await asyncio.sleep(Settings().cancel_poll_s)
        here.jobs.remember(REF, seen, asyncio.get_running_loop().time())  # type: ignore[arg-type]
        assert seen is await here.jobs.recent(REF)
        assert [REF] == jobs.asked

    run_virtually(main())


def test_a_failed_read_fails_for_all_callers_and_is_repeated() -> None:
    async def main() -> None:
        jobs = Jobs(StoreError("away"))
        here = services(jobs)
        asked = [here.jobs.recent(REF), here.jobs.recent(REF)]
        failed = await asyncio.gather(*asked, return_exceptions=True)
        assert [StoreError, StoreError] == list(map(type, failed))
        assert "job one" == await here.jobs.recent(REF)

    run_virtually(main())


def test_a_cancelled_caller_does_not_cancel_the_shared_read() -> None:
    async def main() -> None:
        jobs = Jobs()
        here = services(jobs)
        first, second = (asyncio.create_task(here.jobs.recent(REF)) for _ in range(2))
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
        here = services(jobs)
        assert await here.jobs.recent(REF) is None
        assert "job one" == await here.jobs.recent(REF)

    run_virtually(main())


async def test_a_job_notes_what_blocks_it_even_for_an_endless_delay() -> None:
    said: list[str] = []

    async def note(*told: Any) -> None:
        said.append(told[2])

    jobs: Any = SimpleNamespace(note=note)
    here = services(jobs)
    here.rt.clock = lambda: 1_790_000_000.0
    failure = envelope(code=OPEN_CODE, retry_after=251_606_934_327.0)
    deferred = Deferred(failure, 1.0, "model")
    await here.note_blocked(SimpleNamespace(ref=REF), deferred)

    assert ["waits for dependency model until 2026-09-22T14:13:20.000Z"] == said


async def test_a_failed_note_does_not_stop_the_back_off() -> None:
    said: list[Any] = []

    async def note(*told: Any) -> None:
        said.append(told)
        message = "gone"
        raise StoreError(message)

    jobs: Any = SimpleNamespace(note=note)
    job: Any = SimpleNamespace(ref=REF, pipeline="review")

    await services(jobs).note_unknown_pipeline(job)
    reason = "worker w does not have pipeline review"
    assert [(REF, "runtime.pipeline.unknown", reason)] == said
