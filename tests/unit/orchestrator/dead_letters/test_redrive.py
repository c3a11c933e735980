"""A late redrive or resume starts no new generation, whose join would be wasted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest
from pydantic import BaseModel

from piecework import Context, Pipeline, Stage
from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.keys import JOIN_CHUNK
from piecework.domain.refs import JobRef
from piecework.errors import StoreError, UsageError
from piecework.settings import Settings
from piecework.store.dead_letters import Closing, DeadLetters
from piecework.store.jobs import Jobs
from piecework_orchestrator.dead_letters import canary as waving
from piecework_orchestrator.dead_letters import redrive as redriving
from piecework_orchestrator.dead_letters.canary import (
    CanaryRequest,
    Verdict,
    redrive_canary,
)
from piecework_orchestrator.dead_letters.redrive import Edit, RedriveRequest, redrive
from piecework_orchestrator.operate.retry import ReopenRequest, RetryRequest, retry
from tests.unit.orchestrator.cli.deployment import Deployment
from tests.unit.orchestrator.submit.intake.conftest import refusal

REF = JobRef("default", "a")


class Item(BaseModel):
    text: str


async def work(ctx: Context[Item]) -> str:
    return ctx.payload.text


@pytest.fixture
def deployment() -> Deployment:
    made = Deployment()
    made.job("a", "PARTIAL", 2)
    made.succeeded("a", 0, 7)
    made.chunk("a", 1, "DEAD")
    made.letter("a", 1, fingerprint="f1")
    return made


@pytest.fixture
def reopened(monkeypatch: pytest.MonkeyPatch) -> list[list[ReopenRequest]]:
    """Return the chunks that would be reopened; the fake reopens no chunk."""
    reopened: list[list[ReopenRequest]] = []

    async def reopen(
        _: object, job: Any, chunks: list[ReopenRequest], *__: object
    ) -> Any:
        reopened.append(chunks)
        return [one.chunk for one in chunks], job.gen + 1

    monkeypatch.setattr(redriving, "reopen", reopen)
    monkeypatch.setattr("piecework_orchestrator.operate.retry.reopen", reopen)
    return reopened


def make_request(deployment: Deployment) -> RedriveRequest:
    """Return a redrive of all dead letters of the deployment."""
    found = map(DeadLetterRow.read, deployment.letters.rows.values())
    letters = [letter for letter in found if letter]
    return RedriveRequest(REF, letters, "me", "it is fixed")


async def test_a_letter_that_is_open_is_redriven(
    deployment: Deployment, reopened: list[list[ReopenRequest]]
) -> None:
    assert (1, 2) == await redrive(
        deployment.runtime(Settings()), make_request(deployment)
    )
    assert [[1]] == [[w.chunk.ref.chunk for w in chunks] for chunks in reopened]


async def test_a_discard_that_an_outage_ends_is_recorded(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []

    async def note(*call: object) -> bool:
        calls.append(call)
        return True

    def letters() -> Iterator[DeadLetterRow]:
        yield from make_request(deployment).letters
        raise StoreError("gone")

    monkeypatch.setattr(DeadLetters, "discard", note)
    monkeypatch.setattr(Jobs, "record", note)
    rt, found = deployment.runtime(Settings()), cast("Any", letters())
    with pytest.raises(StoreError):
        await redriving.discard(rt, REF, found, Closing("me", "x"))
    kept = {"actor": "me", "reason": "x", "letters": 1}
    assert (REF, "discarded", kept) == calls[-1][1:]


@pytest.mark.parametrize("state", ["DISCARDED", "REDRIVEN"])
async def test_a_letter_that_was_closed_meanwhile_starts_no_new_generation(
    deployment: Deployment, reopened: list[list[ReopenRequest]], state: str
) -> None:
    late = make_request(deployment)
    deployment.letter("a", 1, state=state)
    refused = await refusal(redrive(deployment.runtime(Settings()), late))
    assert "redrive.selection.empty" == refused.code
    assert "`piecework dlq list --job a`" == refused.next_step
    assert [] == reopened


async def test_a_closed_letter_is_skipped_before_its_payload_is_edited(
    deployment: Deployment, reopened: list[list[ReopenRequest]]
) -> None:
    other = Pipeline("other", payload=Item, stages=[Stage(work)])
    late = replace(make_request(deployment), edit=Edit({}, pipeline=other))
    deployment.letter("a", 1, state="DISCARDED")
    refused = await refusal(redrive(deployment.runtime(Settings()), late))
    assert "redrive.selection.empty" == refused.code


async def test_an_edit_is_not_stored_for_a_job_that_runs(
    deployment: Deployment, reopened: list[list[ReopenRequest]]
) -> None:
    request = replace(make_request(deployment), edit=Edit({"text": "new"}))
    deployment.job("a", "RUNNING", 2)
    before = dict(deployment.bucket.stored)
    refused = await refusal(redrive(deployment.runtime(Settings()), request))
    assert "job.state.not_finished" == refused.code
    assert before == deployment.bucket.stored


@pytest.mark.parametrize(
    ("status", "code", "step"),
    [
        ("SUCCEEDED", "job.retry.nothing_left", "piecework results a"),
        ("PAUSED", "job.state.not_finished", "piecework jobs resume a"),
        ("RUNNING", "job.state.not_finished", "piecework jobs watch a"),
    ],
)
async def test_the_next_step_of_a_refused_retry_leads_on(
    deployment: Deployment, status: str, code: str, step: str
) -> None:
    facts = ("pause_code", "pause_message", "paused_by", "paused_at")
    deployment.job("a", status, 2, **dict.fromkeys(facts, "operator"))
    rt = deployment.runtime(Settings())
    refused = await refusal(retry(rt, RetryRequest(REF, "me", "again")))
    assert code == refused.code
    assert refused.next_step.startswith(f"`{step}`")


async def test_a_chunk_that_has_a_result_meanwhile_starts_no_new_generation(
    deployment: Deployment, reopened: list[list[ReopenRequest]]
) -> None:
    deployment.chunk("a", 1, "SUCCEEDED", gen=2)
    with pytest.raises(UsageError):
        await redrive(deployment.runtime(Settings()), make_request(deployment))
    assert [] == reopened


async def test_an_interrupted_reopening_is_finished_though_no_chunk_is_left(
    deployment: Deployment, reopened: list[list[ReopenRequest]]
) -> None:
    late = make_request(deployment)
    deployment.letter("a", 1, state="REDRIVEN")
    deployment.job("a", "REOPENING", 2, gen=2)
    assert (0, 3) == await redrive(deployment.runtime(Settings()), late)
    assert [[]] == reopened


@pytest.mark.parametrize(("state", "generations"), [("OPEN", 1), ("DISCARDED", 0)])
async def test_a_join_is_redriven_while_its_letter_is_open(
    deployment: Deployment,
    reopened: list[list[ReopenRequest]],
    state: str,
    generations: int,
) -> None:
    deployment.letters.rows.clear()
    deployment.job("a", "FAILED", 2)
    deployment.letter("a", JOIN_CHUNK)
    late = make_request(deployment)
    deployment.letter("a", JOIN_CHUNK, state=state)
    rt = deployment.runtime(Settings())
    if generations:
        await redrive(rt, late)
    else:
        with pytest.raises(UsageError):
            await redrive(rt, late)
    assert generations == len(reopened)


async def test_a_wave_that_others_have_closed_is_skipped(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def must_not_wait(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(waving, "wait_for_end", must_not_wait)
    late = make_request(deployment)
    deployment.letter("a", 1, state="DISCARDED")
    wanted = CanaryRequest(late.letters, lambda *_: late, first=1)
    results: list[Any] = []
    outcome = await redrive_canary(
        deployment.runtime(Settings()), wanted, results.append, results.append
    )
    assert (Verdict.CONTINUE, [0], 0) == (
        outcome.verdict,
        [result.redriven for result in results],
        outcome.remaining,
    )
    deployment.letter("a", 1, error_history=1)  # its damaged letter has no cause
    rt = deployment.runtime(Settings())
    died = await waving.read_wave_result(rt, late.letters, {REF: 1})
    assert {"": 1} == died.died
    assert Verdict.NONE_SUCCEEDED is waving.judge_wave(died, {"f1"})


async def test_a_resume_of_discarded_chunks_starts_no_new_generation(
    deployment: Deployment, reopened: list[list[ReopenRequest]]
) -> None:
    deployment.letter("a", 1, state="DISCARDED")
    rt = deployment.runtime(Settings())
    refused = await refusal(retry(rt, RetryRequest(REF, "me", "again")))
    assert "job.retry.nothing_left" == refused.code
    assert [] == reopened


@pytest.mark.parametrize("status", ["FAILED", "CANCELLED", "REOPENING"])
async def test_a_job_is_resumed_without_chunks_if_its_join_has_not_run(
    deployment: Deployment, reopened: list[list[ReopenRequest]], status: str
) -> None:
    deployment.letter("a", 1, state="DISCARDED")
    deployment.job("a", status, 2)
    rt = deployment.runtime(Settings())
    assert (0, 2) == await retry(rt, RetryRequest(REF, "me", "again"))
    assert [[]] == reopened
