"""A worker defers the work that only a newer worker understands."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from piecework.aws.queue import Delivery, Message
from piecework.domain.outcome import (
    OTHER_WORKERS,
    STORE,
    DeadLettered,
    Deferred,
)
from piecework.errors import PermanentError, SchemaTooNewError, StoreError
from piecework_worker.early_outcomes import (
    MAX_DELAY_S,
    outcome_of_load_failure,
    retry_delay,
)
from piecework_worker.work_item import MessageAction, WorkItem
from piecework_worker.worker import Worker
from tests.unit.piecework.fakes import Clause
from tests.unit.workers.on_the_model import REF, desk, said_by
from tests.unit.workers.runs import SETTINGS, chunk_run, pipeline

review = pipeline()


def test_each_deferral_is_a_little_longer_up_to_a_limit() -> None:
    assert [retry_delay(n, SETTINGS) for n in (0, 1, 2, 10)] == [30, 30, 60, 300]
    assert retry_delay(1000, SETTINGS) == MAX_DELAY_S


@pytest.mark.parametrize("about", ["message", "record"])
async def test_a_message_that_is_for_newer_workers_is_hidden_and_counted(
    about: str,
) -> None:
    here = await desk(review, Clause(), lease_s=60)
    (receipt,) = [r for r in [here.item.receipt] if r is not None]
    known = None if about == "message" else Message.about(REF, 1)
    await here.set_row(REF.of, v=9)
    worker = Worker(here.services, asyncio.Event())

    await worker.handle(
        Delivery(known, "{}", receipt, "m", 2, newer=about == "message")
    )

    assert 30 == here.hidden_s  # half of twice half a lease
    ((event, said),) = said_by(here.services).said
    assert (event, said["about"], said["received"]) == (
        "message.deferred_newer_schema",
        about,
        2,
    )


async def test_a_join_without_a_message_hides_no_message() -> None:
    here = await desk(review, Clause())
    await here.set_row(v=9)
    assert MessageAction.KEEP is await here.execute(WorkItem(REF, 1))
    assert 30 == here.hidden_s  # as since it was received


# ── state that is loaded after the claim ────────────────────────────────────


RENAMED = PermanentError("no stage 'third'", code="runtime.stage.not_found")


@pytest.mark.parametrize(
    ("error", "counts", "delay"),
    [
        (SchemaTooNewError("it is newer"), {}, 30),
        (SchemaTooNewError("it is newer"), {"deferrals": 100}, 900),
        (RENAMED, {"deferrals": 100}, 30),
        (RENAMED, {"deferrals": 100, "stage_deferrals": 9}, 300),
    ],
)
def test_what_newer_workers_may_know_waits_and_spends_no_attempt(
    error: Exception, counts: Any, delay: float
) -> None:
    outcome = outcome_of_load_failure(chunk_run(**counts), error, SETTINGS)

    assert isinstance(outcome, Deferred)
    assert (outcome.blocked_on, outcome.delay) == (OTHER_WORKERS, delay)
    assert outcome.failure.retry_after == delay


def test_without_a_worker_with_other_code_a_chunk_does_not_wait_for_one() -> None:
    alone = replace(SETTINGS, max_code_waits=0)
    outcome = outcome_of_load_failure(chunk_run(), RENAMED, alone)
    assert isinstance(outcome, DeadLettered)
    newer = outcome_of_load_failure(chunk_run(), SchemaTooNewError("it is"), alone)
    assert isinstance(newer, Deferred)


async def test_a_store_that_does_not_answer_is_not_taken_for_a_newer_schema() -> None:
    async def read(*_: Any) -> bytes:
        raise StoreError("out of reach")

    here = await desk(review, Clause())
    away: Any = SimpleNamespace(read=read)
    here.services.payloads = away
    assert MessageAction.KEEP is await here.execute()
    assert STORE == (await here.row())["blocked_on"]
