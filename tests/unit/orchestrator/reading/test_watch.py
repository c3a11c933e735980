from __future__ import annotations

import pytest

from piecework.domain.chunk import Chunk
from piecework.domain.refs import JobRef
from piecework.errors import WaitTimeoutError
from piecework.settings import Settings
from piecework_orchestrator.reading.watch import (
    MAX_POLL_S,
    POLL_S,
    ChunkCounts,
    ProgressSnapshot,
    Watcher,
    is_active,
    poll_interval_s,
    watch,
)
from tests.unit.orchestrator.cli.deployment import Deployment
from tests.unit.virtual import run_virtually

SOON, LATELY = "2027-01-15T08:00:05.000Z", "2027-01-15T07:59:55.000Z"
NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"status": "PENDING"}, False),
        ({"status": "RUNNING", "claim_expires_at": SOON}, True),
        ({"status": "RUNNING", "claim_expires_at": LATELY}, False),
        ({"status": "WAITING", "retry_at": SOON}, True),
        ({"status": "WAITING", "retry_at": LATELY}, False),
        ({"status": "DEAD"}, False),
    ],
)
def test_a_chunk_is_active_until_its_lease_or_its_wait_expires(
    item: dict[str, object], *, expected: bool
) -> None:
    chunk = Chunk.read(JobRef("default", "a").chunk(0), {"gen": 1, **item})
    assert expected is is_active(chunk, NOW)


@pytest.mark.parametrize(
    ("blocked_on", "expected"),
    [("", 5.0), ("timer", 5.0), ("answer", 0.0), ("child job", 0.0), ("batch", 0.0)],
)
def test_a_wait_that_something_ends_has_no_known_length(
    blocked_on: str, expected: float
) -> None:
    item = {"gen": 1, "status": "WAITING", "retry_at": SOON, "blocked_on": blocked_on}
    counts = ChunkCounts()

    counts.add(Chunk.read(JobRef("default", "a").chunk(0), item), NOW)

    assert expected == counts.longest_wait_s


def test_a_large_job_is_polled_less_often() -> None:
    assert (POLL_S, MAX_POLL_S) == (poll_interval_s(22), poll_interval_s(100_000))


def test_the_hint_at_a_missing_worker_is_made_once() -> None:
    deployment = Deployment()
    deployment.job("a", "RUNNING", 1)
    deployment.chunk("a", 0, "PENDING")
    snapshots: list[ProgressSnapshot] = []
    remarks: list[str] = []
    watcher = Watcher(
        snapshots.append, remark=remarks.append, no_worker_hint="no worker"
    )

    async def wait() -> None:
        with pytest.raises(WaitTimeoutError):
            await watch(deployment.runtime(Settings()), "a", watcher, 60.0)

    run_virtually(wait())
    assert ["no worker"] == remarks
    assert snapshots[-1].elapsed > 50


def test_an_active_chunk_prevents_the_hint() -> None:
    deployment = Deployment()
    deployment.job("a", "RUNNING", 1)
    later = "2027-01-15T08:00:50.000Z"
    deployment.chunk("a", 0, "RUNNING", claim_expires_at=later)
    remarks: list[str] = []
    watcher = Watcher(lambda _: None, remark=remarks.append)

    async def wait() -> None:
        with pytest.raises(WaitTimeoutError):
            await watch(deployment.runtime(Settings()), "a", watcher, 60.0)

    run_virtually(wait())
    assert [] == remarks


def test_the_end_of_a_large_job_has_the_outcomes_of_its_record() -> None:
    """Its tallies do not know which chunks died or were cancelled."""
    deployment = Deployment()
    outcomes = {"SUCCEEDED": 2000, "DEAD": 3, "CANCELLED": 2997}
    deployment.job("a", "CANCELLED", 5000, outcomes=outcomes)
    snapshots: list[ProgressSnapshot] = []

    async def wait() -> None:
        await watch(deployment.runtime(Settings()), "a", Watcher(snapshots.append))

    run_virtually(wait())
    assert [(5000, 3, outcomes)] == [
        (s.ended, s.dead, dict(s.counts)) for s in snapshots
    ]


def test_a_watch_ends_with_the_job_and_reports_its_end() -> None:
    deployment = Deployment()
    deployment.job("a", "SUCCEEDED", 1)
    deployment.succeeded("a", 0, 1)
    snapshots: list[ProgressSnapshot] = []

    async def wait() -> None:
        await watch(deployment.runtime(Settings()), "a", Watcher(snapshots.append))

    run_virtually(wait())
    assert [(1, 0)] == [(s.ended, s.dead) for s in snapshots]


def test_a_watch_counts_the_calls_of_chunks_that_run() -> None:
    deployment = Deployment()
    deployment.job("a", "RUNNING", 2)
    used = {"paid": {"m": [4, 900, 100, 50_000_000]}}
    deployment.chunk("a", 0, "RUNNING", claim_usage=used)
    deployment.chunk("a", 1, "WAITING", call_usage={"paid": {"m": [3]}})
    seen: list[str] = []
    watcher = Watcher(lambda found: seen.append(found.details))

    async def wait() -> None:
        with pytest.raises(WaitTimeoutError):
            await watch(deployment.runtime(Settings()), "a", watcher, 1.0)

    run_virtually(wait())
    assert "RUNNING  1 running  1 waiting  7 calls  1,000 tokens  0.050 USD" == seen[0]
