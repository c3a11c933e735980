"""What comes too late begins no new life: a join would be run for nothing."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator import canary as waving
from orchestrator import redrive as redriving
from orchestrator.canary import Canary, canary
from orchestrator.redrive import Redrive, redrive
from orchestrator.resume import Resume, Wish, resume
from orchestrator.waves import Verdict
from piecework.errors import UsageError
from piecework.keys import JOIN_CHUNK
from piecework.model import JobRef
from piecework.settings import Settings
from tests.unit.orchestrator.cli.deployment import Deployment

REF = JobRef("default", "a")


@pytest.fixture
def deployment() -> Deployment:
    made = Deployment()
    made.job("a", "PARTIAL", 2)
    made.succeeded("a", 0, 7)
    made.chunk("a", 1, "DEAD")
    made.letter("a", 1, fingerprint="f1")
    return made


@pytest.fixture
def reopened(monkeypatch: pytest.MonkeyPatch) -> list[list[Wish]]:
    """Return what would be taken up; nothing is."""
    asked: list[list[Wish]] = []

    async def reopen(_: object, job: Any, wishes: list[Wish], *__: object) -> Any:
        asked.append(wishes)
        return [wish.chunk.ref for wish in wishes], job.gen + 1

    monkeypatch.setattr(redriving, "reopen", reopen)
    monkeypatch.setattr("orchestrator.resume.reopen", reopen)
    return asked


def asked(deployment: Deployment) -> Redrive:
    """Return a redrive of the letters as they stand now."""
    return Redrive(REF, list(deployment.letters.rows.values()), "me", "it is fixed")


async def test_a_letter_that_is_open_is_redriven(
    deployment: Deployment, reopened: list[list[Wish]]
) -> None:
    assert (1, 2) == await redrive(deployment.runtime(Settings()), asked(deployment))
    assert [[1]] == [[w.chunk.ref.chunk for w in wishes] for wishes in reopened]


@pytest.mark.parametrize("state", ["DISCARDED", "REDRIVEN"])
async def test_a_letter_that_was_closed_since_it_was_listed_begins_no_new_life(
    deployment: Deployment, reopened: list[list[Wish]], state: str
) -> None:
    late = asked(deployment)
    deployment.letter("a", 1, letter_state=state)
    with pytest.raises(UsageError) as refused:
        await redrive(deployment.runtime(Settings()), late)
    assert "redrive.selection.empty" == refused.value.code
    assert "`piecework dlq list --job a`" == refused.value.next_step
    assert [] == reopened


async def test_a_chunk_that_has_a_result_by_now_begins_no_new_life(
    deployment: Deployment, reopened: list[list[Wish]]
) -> None:
    deployment.chunk("a", 1, "SUCCEEDED", gen=2)
    with pytest.raises(UsageError):
        await redrive(deployment.runtime(Settings()), asked(deployment))
    assert [] == reopened


async def test_what_stopped_half_way_is_gone_on_with_though_nothing_is_left(
    deployment: Deployment, reopened: list[list[Wish]]
) -> None:
    late = asked(deployment)
    deployment.letter("a", 1, letter_state="REDRIVEN")
    deployment.job("a", "RESUMING", 2, gen=2)
    assert (0, 3) == await redrive(deployment.runtime(Settings()), late)
    assert [[]] == reopened


@pytest.mark.parametrize(("state", "lives"), [("OPEN", 1), ("DISCARDED", 0)])
async def test_a_join_is_redriven_while_its_letter_is_open(
    deployment: Deployment, reopened: list[list[Wish]], state: str, lives: int
) -> None:
    deployment.letters.rows.clear()
    deployment.job("a", "FAILED", 2)
    deployment.letter("a", JOIN_CHUNK)
    late = asked(deployment)
    deployment.letter("a", JOIN_CHUNK, letter_state=state)
    rt = deployment.runtime(Settings())
    if lives:
        await redrive(rt, late)
    else:
        with pytest.raises(UsageError):
            await redrive(rt, late)
    assert lives == len(reopened)


async def test_a_wave_that_others_have_closed_is_passed_over(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nobody_waits(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(waving, "until_ended", nobody_waits)
    late = asked(deployment)
    deployment.letter("a", 1, letter_state="DISCARDED")
    wanted = Canary(late.letters, lambda *_: late, first=1)
    told: list[Any] = []
    outcome = await canary(
        deployment.runtime(Settings()), wanted, told.append, told.append
    )
    assert (Verdict.GO_ON, [0], 0) == (
        outcome.verdict,
        [came.redriven for came in told],
        outcome.left_alone,
    )


async def test_a_resume_of_what_was_given_up_begins_no_new_life(
    deployment: Deployment, reopened: list[list[Wish]]
) -> None:
    deployment.letter("a", 1, letter_state="DISCARDED")
    with pytest.raises(UsageError) as refused:
        await resume(deployment.runtime(Settings()), Resume(REF, "me", "again"))
    assert "job.resume.nothing_left" == refused.value.code
    assert [] == reopened


@pytest.mark.parametrize("status", ["FAILED", "CANCELLED", "RESUMING"])
async def test_a_join_that_is_still_to_run_is_resumed_without_a_chunk(
    deployment: Deployment, reopened: list[list[Wish]], status: str
) -> None:
    deployment.letter("a", 1, letter_state="DISCARDED")
    deployment.job("a", status, 2)
    rt = deployment.runtime(Settings())
    assert (0, 2) == await resume(rt, Resume(REF, "me", "again"))
    assert [[]] == reopened
