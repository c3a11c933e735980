"""What a watch says while a job changes: the time left, and the missing worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from piecework.errors import WaitTimeoutError
from piecework.settings import Settings
from piecework_orchestrator.watch import (
    EXPLAIN_AFTER_S,
    ProgressSnapshot,
    Watcher,
    watch,
)
from tests.unit.orchestrator.cli.deployment import Deployment
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


def test_the_time_left_counts_only_what_ended_during_the_watch() -> None:
    """Four of ten chunks had ended before; one more after five seconds."""
    seen, _ = watched(deployment_of(10, ended=4), {5.0: ends(4), 10.0: ends(5)}, 12.0)
    assert seen[4.5].eta is None
    assert (5, 25.0) == (seen[5.0].ended, seen[5.0].eta)
    assert (6, 20.0) == (seen[10.0].ended, seen[10.0].eta)


def test_a_long_wait_is_shown_in_place_of_a_time_that_grows() -> None:
    """The last of two chunks waits for an hour, as a provider requested."""

    def waits(deployment: Deployment) -> None:
        ends(0)(deployment)
        hour = "2027-01-15T09:00:00.000Z"
        deployment.chunk("a", 1, "WAITING", retry_at=hour)

    seen, said = watched(deployment_of(2, ended=0), {5.0: waits}, 30.0)
    assert "eta" not in seen[4.5].details
    assert {"RUNNING  1 waiting  longest wait 1:00:00"} == {
        snapshot.details for second, snapshot in seen.items() if second >= 5.0
    }
    assert (4.5, 4.5) == (seen[10.0].eta, seen[29.5].eta)
    assert {HINT: 5.0 + EXPLAIN_AFTER_S} == said


@pytest.mark.parametrize(
    ("changes", "second"),
    [
        ({}, EXPLAIN_AFTER_S),
        ({6.0: ends(0)}, 6.0 + EXPLAIN_AFTER_S),
        ({4.0: claims(0, LATER), 17.0: claims(0, LATELY)}, 2 * EXPLAIN_AFTER_S),
    ],
    ids=["nothing happens", "a chunk ends", "a lease expires"],
)
def test_the_hint_comes_at_the_next_explanation_without_a_worker(
    changes: dict[float, Change], second: float
) -> None:
    _, said = watched(deployment_of(3, ended=0), changes, 30.0)
    assert {HINT: second} == said


def test_the_reason_of_a_job_is_not_told_while_a_worker_runs_its_chunks() -> None:
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
