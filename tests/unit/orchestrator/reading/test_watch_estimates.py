"""What a watch says while a job changes: the time left, and the missing worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from piecework.domain.moments import iso
from piecework.errors import WaitTimeoutError
from piecework.settings import Settings
from piecework_orchestrator.reading.watch import (
    EXPLAIN_AFTER_S,
    ProgressSnapshot,
    Watcher,
    watch,
)
from tests.unit.orchestrator.cli.deployment import NOW, Deployment
from tests.unit.virtual import run_virtually

SOON, LATELY = "2027-01-15T08:00:05.000Z", "2027-01-15T07:59:55.000Z"
#: The end of a lease that was renewed lately.
LATER = "2027-01-15T08:00:50.000Z"
HINT = "no worker"
Change = Callable[[Deployment], None]


def deployment_of(chunks: int, ended: int) -> Deployment:
    """Return a job of which some chunks have ended, and the others wait."""
    made = Deployment()
    made.job("a", "RUNNING", chunks)
    for number in range(chunks):
        made.chunk("a", number, "SUCCEEDED" if number < ended else "PENDING")
    return made


def watched(
    deployment: Deployment, changes: dict[float, Change], seconds: float
) -> tuple[dict[float, ProgressSnapshot], dict[str, float]]:
    """Watch for some seconds, and change the deployment meanwhile.

    Return each snapshot and each remark with its second.
    """
    seen: dict[float, ProgressSnapshot] = {}
    said: dict[str, float] = {}

    def on_progress(snapshot: ProgressSnapshot) -> None:
        seen[snapshot.elapsed] = snapshot

    def remark(text: str) -> None:
        said[text] = max(seen)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        for second, change in changes.items():
            # Just before the poll of that second.
            loop.call_later(second - 0.1, change, deployment)
        watcher = Watcher(on_progress, remark=remark, no_worker_hint=HINT)
        with pytest.raises(WaitTimeoutError):
            await watch(deployment.runtime(Settings()), "a", watcher, seconds)

    run_virtually(run())
    return seen, said


def ends(number: int) -> Change:
    return lambda deployment: deployment.chunk("a", number, "SUCCEEDED")


def claims(number: int, until: str) -> Change:
    return lambda deployment: deployment.chunk(
        "a", number, "RUNNING", claim_expires_at=until
    )


def test_the_time_left_comes_from_an_explanation_and_shrinks_until_the_next() -> None:
    deployment = deployment_of(40, ended=0)
    for number in range(20):
        times = {
            "claimed_at": iso(NOW - 40 + number),
            "ended_at": iso(NOW - 20 + number),
        }
        deployment.chunk("a", number, "SUCCEEDED", **times)
    deployment.chunk("a", 20, "RUNNING", claimed_at=iso(NOW), claim_expires_at=LATER)
    seen, _ = watched(deployment, {}, 12.0)

    assert seen[9.5].finish_s is None
    first, later = seen[10.0].finish_s, seen[11.5].finish_s
    assert first is not None
    assert first[0] < first[1]
    assert later == (first[0] - 1.5, first[1] - 1.5)
    assert "ends in " in seen[10.0].details


def test_a_long_wait_is_shown() -> None:
    """The last of two chunks waits for an hour, as a provider requested."""

    def waits(deployment: Deployment) -> None:
        ends(0)(deployment)
        hour = "2027-01-15T09:00:00.000Z"
        deployment.chunk("a", 1, "WAITING", retry_at=hour)

    seen, said = watched(deployment_of(2, ended=0), {5.0: waits}, 30.0)
    assert {"RUNNING  1 waiting  longest wait 1:00:00"} == {
        snapshot.details for second, snapshot in seen.items() if second >= 5.0
    }
    assert {HINT: 20.0} == said


@pytest.mark.parametrize(
    ("changes", "second"),
    [
        ({}, EXPLAIN_AFTER_S),
        ({6.0: ends(0)}, 2 * EXPLAIN_AFTER_S),
        ({4.0: claims(0, LATER), 17.0: claims(0, LATELY)}, 2 * EXPLAIN_AFTER_S),
    ],
    ids=["nothing happens", "a chunk ends", "a lease expires"],
)
def test_the_hint_comes_at_the_next_explanation_without_a_worker(
    changes: dict[float, Change], second: float
) -> None:
    _, said = watched(deployment_of(3, ended=0), changes, 30.0)
    assert {HINT: second} == said


def test_a_job_shows_no_reason_while_a_worker_runs_its_chunks() -> None:
    deployment = deployment_of(2, ended=0)
    reason = {
        "status_reason_code": "runtime.pipeline.unknown",
        "status_reason": "no worker has it",
        "status_reason_at": LATELY,
    }
    deployment.job("a", "RUNNING", 2, **reason)
    claims(0, SOON)(deployment)
    _, said = watched(deployment, {8.0: claims(0, LATELY)}, 12.0)
    notice = "notice runtime.pipeline.unknown: no worker has it"
    assert {notice: 8.0, HINT: EXPLAIN_AFTER_S} == said
