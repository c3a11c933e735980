from __future__ import annotations

import pytest

from orchestrator.waiting import (
    LARGEST_PAUSE_S,
    PAUSE_S,
    Look,
    Watcher,
    in_hand,
    pause,
    remaining,
    watch,
)
from piecework.errors import WaitTimeoutError
from piecework.model import Chunk, JobRef
from piecework.settings import Settings
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
def test_a_chunk_is_in_hand_while_its_lease_or_its_wait_lasts(
    item: dict[str, object], *, expected: bool
) -> None:
    chunk = Chunk.read(JobRef("default", "a").chunk(0), {"gen": 1, **item})
    assert expected is in_hand(chunk, NOW)


def test_the_rest_takes_as_long_as_the_rate_says() -> None:
    assert (30.0, 0.0, None) == (
        remaining(left=15, done=5, seconds=10.0),
        remaining(left=0, done=5, seconds=10.0),
        remaining(left=15, done=0, seconds=10.0),
    )


def test_a_large_job_is_looked_at_less_often() -> None:
    assert (PAUSE_S, LARGEST_PAUSE_S) == (pause(22), pause(100_000))


def test_a_job_that_nobody_claims_is_remarked_upon_once() -> None:
    deployment = Deployment()
    deployment.job("a", "RUNNING", 1)
    deployment.chunk("a", 0, "PENDING")
    looks: list[Look] = []
    remarks: list[str] = []
    watcher = Watcher(told=looks.append, remark=remarks.append, hint="no worker")

    async def waits() -> None:
        with pytest.raises(WaitTimeoutError):
            await watch(deployment.runtime(Settings()), "a", watcher, 60.0)

    run_virtually(waits())
    assert ["no worker"] == remarks
    assert looks[-1].elapsed > 50


def test_a_chunk_in_hand_is_nothing_to_remark_upon() -> None:
    deployment = Deployment()
    deployment.job("a", "RUNNING", 1)
    deployment.chunk("a", 0, "RUNNING", claim_expires_at=SOON)
    remarks: list[str] = []
    watcher = Watcher(told=lambda _: None, remark=remarks.append)

    async def waits() -> None:
        with pytest.raises(WaitTimeoutError):
            await watch(deployment.runtime(Settings()), "a", watcher, 60.0)

    run_virtually(waits())
    assert [] == remarks


def test_the_end_of_a_large_job_is_told_as_its_record_has_it() -> None:
    """Its tallies know neither who died nor whom a cancel swept."""
    deployment = Deployment()
    outcomes = {"SUCCEEDED": 2000, "DEAD": 3, "CANCELLED": 2997}
    deployment.job("a", "CANCELLED", 5000, outcomes=outcomes)
    looks: list[Look] = []

    async def waits() -> None:
        await watch(deployment.runtime(Settings()), "a", Watcher(told=looks.append))

    run_virtually(waits())
    assert [(5000, 3, outcomes)] == [(k.settled, k.dead, dict(k.counts)) for k in looks]


def test_a_watch_ends_with_the_job_and_has_seen_its_end() -> None:
    deployment = Deployment()
    deployment.job("a", "SUCCEEDED", 1)
    deployment.succeeded("a", 0, 1)
    looks: list[Look] = []

    async def waits() -> None:
        await watch(deployment.runtime(Settings()), "a", Watcher(told=looks.append))

    run_virtually(waits())
    assert [(1, 0)] == [(look.settled, look.dead) for look in looks]
