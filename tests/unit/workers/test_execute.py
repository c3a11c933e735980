"""What a worker does with a message, by what the chunk's row says before.

Each row of a table is: the row, the message, what the stage does; then the action, the
row after, the seconds for which SQS hides the message, and an event or its reason.
"""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from piecework import Context, PermanentError, Pipeline, Stage, TransientError
from piecework.domain.moments import iso
from piecework.domain.protocols import ClaimLostError
from piecework_worker.work_item import MessageAction as Do
from piecework_worker.work_item import WorkItem
from tests.unit.workers.on_the_model import NOW, REF, Desk, desk


class Row(BaseModel):
    does: str = "succeed"


async def begin(_: Context[Row]) -> None:
    """Start."""


async def undo(_: Context[Row]) -> None:
    """Compensate the first stage."""


async def work(ctx: Context[Row]) -> None:
    match ctx.payload.does.split():
        case ["wait", seconds]:
            raise TransientError("later", retry_after=float(seconds))
        case ["fail"]:
            raise PermanentError("no")
        case ["lose"]:
            raise ClaimLostError


async def last(_: Context[Row]) -> None:
    """End."""


review = Pipeline(
    "review",
    payload=Row,
    stages=[Stage(begin, compensate=undo), Stage(work, pivot=True), Stage(last)],
)
RUNNING: dict[str, Any] = {
    "status": "RUNNING",
    "fence": 1,
    "claimed_by": "w0",
    "claim_token": "t",
    "renewals": 1,
}
ALIVE = {**RUNNING, "claim_expires_at": iso(NOW + 7)}
EXPIRED = {**RUNNING, "claim_expires_at": iso(NOW - 60), "attempts": 1, "takeovers": 1}
SPENT = {"status": "WAITING", "attempts": 3, "fence": 3, "started_at": iso(NOW)}
RECOVERED = {"status": "WAITING", "attempts": 1, "fence": 1, "recoveries": 9}
CANCEL: dict[str, Any] = {"cancel_requested_at": iso(NOW)}
UNDO = {**CANCEL, "compensate_requested": True, "status": "WAITING", "fence": 1}
UNDO["stage"] = "begin"
AT_PIVOT, PAST_PIVOT = UNDO | {"stage": "work"}, UNDO | {"stage": "last"}
SKEW_S = 5


async def given(row: dict[str, Any], does: str = "succeed", **settings: Any) -> Desk:
    here = await desk(review, Row(does=does), **settings)
    if row:
        await here.set_row(**row)
    return here


@pytest.mark.parametrize(
    ("does", "row", "action", "status", "hidden_s", "event"),
    [
        ("succeed", {}, Do.ACK, "SUCCEEDED", 30, "chunk.succeeded"),
        ("fail", {}, Do.ACK, "DEAD", 30, "chunk.dead_lettered"),
        ("wait 60", {}, Do.KEEP, "WAITING", 60, "chunk.retry_scheduled"),
        ("wait 900", {}, Do.KEEP, "WAITING", 900, "chunk.retry_scheduled"),
        ("wait 901", {}, Do.DELETE, "WAITING", 30, "chunk.retry_scheduled"),
        ("lose", {}, Do.KEEP, "RUNNING", 30, "lease.lost"),
        # Another claim, or none, may follow: no attempt of the chunk is spent.
        ("", {"status": "SUCCEEDED"}, Do.ACK_ENDED, "SUCCEEDED", 30, "ended"),
        ("", {"gen": 2}, Do.DELETE, "PENDING", 30, "superseded"),
        ("", ALIVE, Do.KEEP, "RUNNING", 7 + SKEW_S, "busy"),
        ("", {"retry_at": iso(NOW + 900)}, Do.KEEP, "PENDING", 900, "not due"),
        ("", {"retry_at": iso(NOW + 901)}, Do.DELETE, "PENDING", 30, "not due"),
        ("", {"blocked_by": 3}, Do.DELETE, "PENDING", 30, "blocked"),
        ("", CANCEL, Do.ACK_CANCELLED, "CANCELLED", 30, "cancelled"),
        ("", {"v": 9}, Do.KEEP, "PENDING", 5, "message.deferred_newer_schema"),
        # A takeover is two writes; the attempt of the lost worker is refunded.
        ("succeed", EXPIRED, Do.ACK, "SUCCEEDED", 30, "chunk.lease_expired"),
        # Without attempts a recovery claim ends the chunk.
        ("succeed", SPENT, Do.ACK, "DEAD", 30, "chunk.dead_lettered"),
        # Recoveries of an earlier generation do not count against an attempt.
        ("succeed", RECOVERED, Do.ACK, "SUCCEEDED", 30, "chunk.succeeded"),
        # A cancel with compensation gets its direction from the stage, and a claim.
        ("", UNDO, Do.ACK, "CANCELLED", 30, "chunk.cancelled"),
        ("", AT_PIVOT, Do.ACK_CANCELLED, "SUCCEEDED", 30, "stage.completed"),
        ("", PAST_PIVOT, Do.ACK, "SUCCEEDED", 30, "chunk.succeeded"),
    ],
)
async def test_a_row_and_a_message_have_one_end(
    does: str, row: dict[str, Any], action: Do, status: str, hidden_s: int, event: str
) -> None:
    here = await given(row, does)
    attempts = row.get("attempts", 0)

    did = await here.execute()

    after = await here.row()
    found = did, after["status"], here.hidden_s
    assert (action, status, hidden_s) == found, here.events()
    assert event in here.events()
    if "chunk.claimed" not in here.events():
        assert attempts == after.get("attempts", 0)


async def test_a_lost_worker_is_named_where_its_chunk_is_taken_over() -> None:
    here = await given(EXPIRED)
    await here.execute()

    log: Any = here.services.log
    (facts,) = [facts for name, facts in log.said if name == "chunk.lease_expired"]
    assert {"chunk": 0, "claimed_by": "w0", "takeovers": 2} == facts


@pytest.mark.parametrize(
    ("job", "row", "gen", "action", "reason"),
    [
        ({"status": "DELETED"}, {"status": None}, 1, Do.DELETE, "job deleted"),
        ({}, None, 1, Do.QUARANTINE, "not found"),
        ({"gen": 2}, {}, 1, Do.DELETE, "superseded"),
        ({"pipeline": "other"}, {}, 1, Do.KEEP, "pipeline.unknown"),
        # The sweep of a cancel ends a chunk that no worker has claimed.
        (
            {"status": "CANCELLING", "cancelled_at": iso(NOW)},
            {},
            1,
            Do.DELETE,
            "cancelled",
        ),
        ({"status": "PAUSED"}, {}, 1, Do.DELETE, "paused"),
    ],
)
async def test_the_job_decides_before_the_chunk(
    job: dict[str, Any], row: dict[str, Any] | None, gen: int, action: Do, reason: str
) -> None:
    here = await given({})
    if row is None:
        item = WorkItem(REF.of.chunk(7), gen, 1, here.item.receipt)
    else:
        item = WorkItem(REF, gen, 1, here.item.receipt)
    if job:
        await here.set_row(REF.of, **job)

    assert action is await here.execute(item)

    assert reason in here.events()
    assert "PENDING" == (await here.row())["status"]
    unknown = here.services.intake.notes.unknown_in_a_row
    assert int(reason == "pipeline.unknown") == unknown


@pytest.mark.parametrize(("seconds", "sent"), [(60, 60), (900, 900), (901, None)])
async def test_a_chunk_without_a_message_gets_one_for_a_retry_that_is_near(
    seconds: int, sent: int | None
) -> None:
    here = await given({}, f"wait {seconds}")
    await here.services.rt.work.delete([here.item.receipt])

    await here.execute(WorkItem(REF, 1))

    assert sent == here.hidden_s
