"""The reconciler's rhythm: when it reads which job.

The tests are in one file, because all use the jobs and the clock of its `World`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from piecework.domain.chunk import Chunk
from piecework.domain.job import SUBMIT_TIMEOUT_S, Job
from piecework.domain.moments import iso
from piecework.domain.records import UNREADABLE
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.errors import PermanentError, StoreError
from piecework.reconciler import jobs, loop
from piecework.reconciler.loop import IDLE_S, reconcile_for_ever, reconcile_once
from piecework.settings import Settings
from piecework.telemetry.health import RECONCILE_S, Liveness
from tests.unit.piecework.fakes import Highest, Log
from tests.unit.virtual import run_virtually

REF = JobRef("acme", "job")
LOG: Any = Log()
SETTINGS = Settings(reconcile_s=5, lease_s=60)


class World:
    """A deployment with one job in the list of the active ones, or none."""

    def __init__(self, status: JobStatus | None, *, listed: bool = True) -> None:
        self.status = status
        self.listed = listed
        self.refs = [REF]
        self.times_read: list[float] = []
        self.settings = SETTINGS
        self.rng = Highest()
        self.jobs = self

    def clock(self) -> float:
        return 0.0

    async def active(self, *_: Any) -> AsyncIterator[JobRef]:
        for ref in self.refs if self.listed else ():
            yield ref

    async def read(self, ref: JobRef) -> Job | None:
        item = {"status": self.status, "gen": 1, "chunks": 1, "pipeline": "p"}
        return None if self.status is None else Job.read(ref, item)


def reconciler(world: Any) -> Any:
    return loop.Reconciler(world, LOG)


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.fixture(autouse=True)
def times_read(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Keep when a running job is read; its chunk is running."""
    times: list[float] = []
    item = {"status": "RUNNING", "gen": 1, "fence": 1}

    async def reconcile_chunks(context: Any, job: Job) -> Counter[str]:
        times.append(now())
        context.leases.unchanged_for(Chunk.read(job.ref.chunk(0), item), now())
        return Counter({"jobs seen": 1})

    async def nothing(*_: Any) -> Counter[str]:
        return Counter()

    monkeypatch.setattr(jobs, "reconcile_chunks", reconcile_chunks)
    monkeypatch.setattr(loop, "drain", nothing)
    monkeypatch.setattr(loop.DeadLetterAlarms, "evaluate", nothing)
    monkeypatch.setattr(loop.Expiries, "run", nothing)
    return times


def test_a_job_is_read_again_after_its_pause(times_read: list[float]) -> None:
    async def passes() -> None:
        here = reconciler(World(JobStatus.RUNNING))
        assert (await here.run_pass())["jobs seen"] == 1
        assert (await here.run_pass())["jobs seen"] == 0
        await asyncio.sleep(SETTINGS.reconcile_s)
        assert (await here.run_pass())["jobs seen"] == 1
        here.request_pass()
        assert (await here.run_pass())["jobs seen"] == 1

    run_virtually(passes())


def test_a_job_follows_its_pipeline_before_its_next_pass(
    monkeypatch: pytest.MonkeyPatch, times_read: list[float]
) -> None:
    class Marked(World):
        async def active(self, marks: Any = None) -> AsyncIterator[JobRef]:
            marks.paused.update(self.paused)
            yield REF

        paused: ClassVar[set[tuple[str, str]]] = set()

    followed: list[float] = []

    async def follow(*_: Any) -> bool:
        followed.append(now())
        if len(followed) == 1:
            raise StoreError("The table does not answer.")
        world.status = JobStatus.PAUSED
        return True

    monkeypatch.setattr(loop, "follow_pipeline", follow)
    world = Marked(JobStatus.RUNNING)

    async def passes() -> None:
        here = reconciler(world)
        for _ in range(4):
            await asyncio.sleep(1.0)
            await here.run_pass()
            Marked.paused.add((REF.tenant, "p"))

    run_virtually(passes())
    assert ([1001.0], [1003.0, 1004.0]) == (times_read, followed)


def test_an_odd_job_and_an_odd_message_delay_no_other(
    monkeypatch: pytest.MonkeyPatch, times_read: list[float]
) -> None:
    class Odd(World):
        async def active(self, *_: Any) -> AsyncIterator[JobRef]:
            yield JobRef("acme", "odd")
            yield REF

        async def read(self, ref: JobRef) -> Job | None:
            if ref != REF:
                raise KeyError("status")
            return await super().read(ref)

    async def drain(*_: Any) -> Counter[str]:
        await asyncio.sleep(1)
        raise KeyError("status")

    monkeypatch.setattr(loop, "drain", drain)

    async def evaluate(*_: Any) -> Counter[str]:
        await asyncio.sleep(2)
        return Counter()

    async def look(*_: Any) -> Counter[str]:
        await asyncio.sleep(4)
        return Counter()

    monkeypatch.setattr(loop.DeadLetterAlarms, "evaluate", evaluate)
    monkeypatch.setattr(loop.Watches, "look", look)
    log, odd = Log(), Odd(JobStatus.RUNNING)
    acts = run_virtually(loop.Reconciler(odd, log).run_pass())  # type: ignore[arg-type]
    assert acts == {"failed": 2, "jobs seen": 1}
    told = [facts for name, facts in log.said if name == "reconcile.action"]
    assert acts == {each["action"]: each["count"] for each in told}
    assert 7000 == dict(log.said)["reconcile.pass"]["duration_ms"]


@pytest.mark.parametrize("status", [None, JobStatus.SUCCEEDED, JobStatus.CANCELLED])
def test_a_job_that_has_ended_is_forgotten(
    times_read: list[float], status: JobStatus | None
) -> None:
    async def passes() -> None:
        world = World(JobStatus.RUNNING)
        here = reconciler(world)
        await here.run_pass()
        assert here.leases.is_watching
        world.status = status
        here.request_pass()
        assert (await here.run_pass()).total() == 0
        assert not here.leases.is_watching
        assert not here._context.activity

    run_virtually(passes())
    assert len(times_read) == 1


def test_jobs_that_left_the_list_since_are_forgotten(times_read: list[float]) -> None:
    async def passes() -> None:
        world = World(JobStatus.RUNNING)
        world.refs.append(JobRef("acme", "other"))
        here = reconciler(world)
        await here.run_pass()
        assert len(times_read) == 2
        world.listed = False
        await here.run_pass()
        assert not here.leases.is_watching
        world.listed = True
        await here.run_pass()

    run_virtually(passes())
    assert len(times_read) == 4


def test_what_half_a_pass_saw_is_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    async def saw(context: Any, job: Job) -> Counter[str]:
        context.note(Chunk.read(job.ref.chunk(0), {"status": "PENDING", "gen": 1}))
        raise StoreError("The table does not answer.")

    monkeypatch.setattr(jobs, "reconcile_chunks", saw)
    here = reconciler(World(JobStatus.RUNNING))
    assert run_virtually(here.run_pass()) == {"failed": 1}
    assert not here._context.activity


def test_a_job_that_left_the_list_is_not_overdue_for_ever(
    monkeypatch: pytest.MonkeyPatch, times_read: list[float]
) -> None:
    """A job ends between two passes, and a chunk of it was running."""

    async def saw(context: Any, job: Job) -> Counter[str]:
        item = {"status": "RUNNING", "gen": 1, "claim_expires_at": iso(-1.0)}
        context.overdue.note(
            job, Chunk.read(job.ref.chunk(0), item), context.rt.clock()
        )
        return Counter()

    monkeypatch.setattr(jobs, "reconcile_chunks", saw)
    log: Any = Log()

    async def passes() -> None:
        world: Any = World(JobStatus.RUNNING)
        here = loop.Reconciler(world, log)
        await here.run_pass()
        world.listed = False
        await here.run_pass()

    run_virtually(passes())
    told = [facts["overdue_s"] for name, facts in log.said if name == "reconcile.pass"]
    assert [1.0, 0.0] == told


def test_a_reconciler_that_finishes_a_large_submit_stays_healthy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Submitting(World):
        async def read(self, ref: JobRef) -> Job | None:
            item = {"status": "SUBMITTING", "gen": 1, "chunks": 1, "pipeline": "p"}
            return Job.read(ref, item | {"created_at": iso(-SUBMIT_TIMEOUT_S)})

    late: list[float] = []

    async def slowly(rt: Any, job: Job, progress: Any) -> None:
        for _ in range(3):
            await asyncio.sleep(RECONCILE_S - 1)
            late.append(now() - liveness.due["reconciler"])
            progress("written", 1)

    async def passes() -> None:
        here: Any = Submitting(JobStatus.SUBMITTING)
        await loop.Reconciler(here, LOG, liveness=liveness).run_pass()

    liveness = Liveness()
    monkeypatch.setattr(jobs, "fan_out", slowly)
    run_virtually(passes())
    assert [-1.0] * 3 == pytest.approx(late)


@pytest.mark.parametrize(("observe", "apart"), [(None, SETTINGS.lease_s), (3.0, 3.0)])
def test_a_running_chunk_is_looked_at_twice(
    times_read: list[float], observe: float | None, apart: float
) -> None:
    world: Any = World(JobStatus.RUNNING)
    acts = run_virtually(reconcile_once(world, LOG, observe_s=observe))
    assert acts["jobs seen"] == 2
    assert times_read[1] - times_read[0] == pytest.approx(apart)


def test_where_nothing_runs_one_look_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[float] = []

    async def once() -> None:
        world: Any = World(None)
        began.append(now())
        await reconcile_once(world, LOG)
        began.append(now())

    run_virtually(once())
    assert began[0] == began[1]


@pytest.mark.parametrize(("listed", "apart"), [(True, 6.0), (False, IDLE_S)])
def test_without_jobs_a_pass_is_rare(
    monkeypatch: pytest.MonkeyPatch, listed: Any, apart: float
) -> None:
    times: list[float] = []
    world: Any = SimpleNamespace(settings=SETTINGS, rng=Highest())

    async def run_pass(self: Any) -> Counter[str]:
        times.append(now())
        self.active = int(listed)
        return Counter()

    async def for_a_while() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(50):
                await reconcile_for_ever(world, LOG)

    monkeypatch.setattr(loop.Reconciler, "run_pass", run_pass)
    run_virtually(for_a_while())
    assert times[1] - times[0] == pytest.approx(apart)


def test_a_reconciler_that_ends_ends_its_deliveries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[str] = []
    world: Any = SimpleNamespace(settings=SETTINGS, rng=Highest())

    async def run_pass(self: Any) -> Counter[str]:
        self.marks.outboxes.add("acme")
        return Counter()

    async def deliver(_: Any, tenant: str) -> None:
        try:
            await asyncio.sleep(IDLE_S)
        finally:
            ended.append(tenant)

    async def for_a_while() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await reconcile_for_ever(world, LOG)
        assert ["acme"] == ended

    monkeypatch.setattr(loop.Reconciler, "run_pass", run_pass)
    monkeypatch.setattr(loop.Deliverer, "deliver", deliver)
    run_virtually(for_a_while())


@pytest.mark.parametrize(
    ("status", "deadline", "pause"),
    [
        ("RUNNING", None, 5.0),
        ("RUNNING", 2.0, 2.0),
        ("RUNNING", -1.0, 0.0),
        ("RUNNING", 9.0, 5.0),
        ("FINALIZING", 2.0, 5.0),
    ],
)
def test_a_deadline_is_kept_to(
    status: str, deadline: float | None, pause: float
) -> None:
    item = {"status": status, "gen": 1, "chunks": 1, "pipeline": "p"}
    if deadline is not None:
        item["deadline_at"] = iso(deadline)
    assert pause == reconciler(World(None)).interval_s(Job.read(REF, item))


@pytest.mark.parametrize(
    ("status", "pause"), [("RUNNING", 854.0), ("FINALIZING", 5.0), ("DELETING", 5.0)]
)
def test_a_large_job_waits_longer_only_if_its_chunks_are_read(
    status: str, pause: float
) -> None:
    item = {"status": status, "gen": 1, "chunks": 1_000_000, "pipeline": "p"}
    found = reconciler(World(None)).interval_s(Job.read(REF, item))
    assert pause == pytest.approx(found, abs=1)


@pytest.mark.parametrize(
    ("error", "code", "notes"),
    [
        (PermanentError("spoilt", code=UNREADABLE), UNREADABLE, 1),
        (KeyError("spoilt"), UNREADABLE, 1),
        *(
            (PermanentError("spoilt", code=code), code, notes)
            for code, notes in {
                "runtime.object.missing": 1,
                "job.manifest.mismatch": 1,
                "aws.service.throttled": 0,
            }.items()
        ),
    ],
)
def test_a_malformed_record_is_reported_at_its_job(
    error: Exception, code: str, notes: int
) -> None:
    class Odd(World):
        """Fails to be read."""

        def __init__(self) -> None:
            super().__init__(JobStatus.RUNNING)
            self.notes: list[str] = []

        async def read(self, ref: JobRef) -> Job | None:
            del ref
            raise error

        async def note(self, _: JobRef, noted: str, said: str) -> None:
            assert code == noted
            self.notes.append(said)

    world = Odd()
    acts = run_virtually(reconciler(world).run_pass())
    assert ({"failed": 1}, notes) == (dict(acts), len(world.notes))
