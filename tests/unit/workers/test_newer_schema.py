"""A worker defers the work that only a newer worker understands."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from piecework.aws.queue import Delivery, Message
from piecework.domain.claim import SchemaTooNew
from piecework.domain.outcome import (
    NEWER_WORKERS,
    STORE,
    Deferred,
)
from piecework.errors import PermanentError, SchemaTooNewError, StoreError
from piecework_worker.early_outcomes import MAX_DELAY_S, retry_delay
from piecework_worker.next_chunks import NextChunks
from piecework_worker.refusals import handle_refusal
from piecework_worker.work_item import MessageAction, WorkItem
from piecework_worker.worker import Worker
from tests.unit.piecework.fakes import Log
from tests.unit.piecework.store.tables import REF
from tests.unit.workers.runs import SETTINGS, chunk_run, loading, ran

JOB: Any = SimpleNamespace(queue="")


class Hiding:
    """A queue that records what was hidden, and deletes nothing."""

    def __init__(self) -> None:
        self.hidden: list[tuple[str, float]] = []

    async def hide(self, receipts: list[str], seconds: float) -> None:
        self.hidden += [(receipt, seconds) for receipt in receipts]


def services(job: Any = None) -> Any:
    async def read(_: Any) -> Any:
        if isinstance(job, Exception):
            raise job
        return job

    longest = SimpleNamespace(uniform=lambda _, most: most)
    rt = SimpleNamespace(settings=SETTINGS, work=Hiding(), rng=longest)
    chunks = NextChunks()
    jobs = SimpleNamespace(recent=read)
    return SimpleNamespace(rt=rt, log=Log(), jobs=jobs, next_chunks=chunks, queues=[""])


def test_each_deferral_is_a_little_longer_up_to_a_limit() -> None:
    assert [retry_delay(n, SETTINGS) for n in (0, 1, 2, 10)] == [30, 30, 60, 300]
    assert retry_delay(1000, SETTINGS) == MAX_DELAY_S


@pytest.mark.parametrize(
    ("delivery", "about"),
    [
        (Delivery(None, '{"v": 2}', "r", "m", 2, newer=True), "message"),
        (Delivery(Message.about(REF, 1), "{}", "r", "m", 2), "record"),
    ],
)
async def test_a_message_that_is_for_newer_workers_is_hidden_and_counted(
    delivery: Delivery, about: str
) -> None:
    here = services(SchemaTooNewError("it is newer"))
    worker = Worker(here, asyncio.Event())

    await worker.handle(delivery)

    assert here.rt.work.hidden == [("r", 60)]
    ((event, said),) = here.log.said
    assert (event, said["about"], said["received"]) == (
        "message.deferred_newer_schema",
        about,
        2,
    )


async def test_a_claim_refused_by_a_newer_schema_costs_nothing() -> None:
    here = services()
    end = await handle_refusal(SchemaTooNew(), WorkItem(REF, 1, 1, "r"), JOB, here)

    assert (end, here.rt.work.hidden) == (MessageAction.KEEP, [("r", 30)])
    assert here.log.names() == ["message.deferred_newer_schema"]


async def test_a_join_without_a_message_hides_no_message() -> None:
    here = services()

    assert (
        await handle_refusal(SchemaTooNew(), WorkItem(REF, 1), JOB, here)
        is MessageAction.KEEP
    )
    assert here.rt.work.hidden == []


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
async def test_what_newer_workers_may_know_waits_and_spends_no_attempt(
    monkeypatch: pytest.MonkeyPatch, error: Exception, counts: Any, delay: float
) -> None:
    loading(monkeypatch, error)
    outcome = await ran(chunk_run(**counts))

    assert isinstance(outcome, Deferred)
    assert (outcome.blocked_on, outcome.delay) == (NEWER_WORKERS, delay)
    assert outcome.failure.retry_after == delay


async def test_a_store_that_does_not_answer_is_not_taken_for_a_newer_schema(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loading(monkeypatch, StoreError("out of reach"))
    outcome = await ran(chunk_run())
    assert isinstance(outcome, Deferred)
    assert outcome.blocked_on == STORE
