"""What becomes of a message in the dead-letter queue."""

from __future__ import annotations

from typing import Any

import pytest

from piecework.aws.queue import Delivery, Message
from piecework.domain import keys
from piecework.domain.states import JobStatus
from piecework.reconciler import dead_letter_queue
from piecework.reconciler.dead_letter_queue import drain, handle
from piecework.runtime import Runtime
from tests.store.conftest import SETTINGS, Store
from tests.store.deployment import GPU, LOG, bodies, runtime, sent


def delivery(store: Store, gen: int = 2, **facts: Any) -> Delivery:
    message = Message.about(store.chunk, gen)
    given = {"message": message, "body": "{}", "receipt": "r", "received": 10}
    return Delivery(**{**given, "message_id": store.ref.job, **facts})


async def dead_lettered(store: Store, *messages: Message | str) -> Runtime:
    """Return a runtime whose dead-letter queue has these messages."""
    rt = runtime(store)
    queue = rt.dead_letter_queue
    for each in messages:
        body = each if isinstance(each, str) else each.model_dump_json()
        await queue.client.send_message(QueueUrl=queue.url, MessageBody=body)
    return rt


@pytest.mark.parametrize(
    ("state", "gen", "act"),
    [
        ({}, 2, "redispatched"),
        ({"status": "RUNNING"}, 2, "redispatched"),
        ({"status": "SUCCEEDED"}, 2, "chunk had ended"),
        ({"status": "DEAD"}, 3, "chunk had ended"),
        ({}, 1, "chunk had ended"),
        ({}, 3, "redispatched"),
    ],
)
async def test_a_chunk_with_work_left_is_sent_again(
    store: Store, state: dict[str, Any], gen: int, act: str
) -> None:
    await store.put_chunk(**state)
    await store.put_job(JobStatus.RUNNING, queue=GPU)
    rt = runtime(store)
    done = await handle(rt, delivery(store, gen), LOG)
    assert f"dead-letter queue: {act}" == done
    again = [Message.about(store.chunk, 2)] if act == "redispatched" else []
    assert (again, []) == (sent(rt, GPU), sent(rt))


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"message": None}, "runtime.message.malformed"),
        ({"message": None, "newer": True}, "runtime.message.schema_too_new"),
        ({}, "runtime.message.orphan"),
    ],
)
async def test_what_belongs_to_nothing_is_set_aside(
    store: Store, facts: dict[str, Any], code: str
) -> None:
    rt = runtime(store)
    done = await handle(rt, delivery(store, **facts), LOG)
    row = await store.dead_letter_table.get("QUARANTINE", store.ref.job) or {}
    assert (done, row["error_code"]) == ("dead-letter queue: quarantined", code)
    assert sent(rt) == []


@pytest.mark.parametrize(
    ("number", "job", "done"),
    [
        (keys.JOIN_CHUNK, {"has_notify_hook": True}, "notification"),
        (keys.JOIN_CHUNK, {}, "quarantined"),
        (keys.JOIN_CHUNK, None, "quarantined"),
        (3, {"has_notify_hook": True}, "quarantined"),
    ],
)
async def test_the_message_of_a_notice_may_go(
    store: Store, number: int, job: dict[str, Any] | None, done: str
) -> None:
    if job is not None:
        await store.put_job(JobStatus.SUCCEEDED, **job)
    message = Message.about(store.ref.chunk(number), 2)
    placed = await handle(runtime(store), delivery(store, message=message), LOG)
    assert f"dead-letter queue: {done}" == placed


async def test_the_queue_is_emptied(store: Store) -> None:
    await store.put_chunk()
    rt = await dead_lettered(store, *[Message.about(store.chunk, 2)] * 12)
    assert (await drain(rt, LOG)).total() == 12
    assert bodies(rt, SETTINGS.dead_letter_queue) == []


async def test_a_flood_of_dead_lettered_messages_delays_no_job(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a pipeline that no worker has come back as fast as they are sent."""
    monkeypatch.setattr(dead_letter_queue, "MAX_BATCHES", 3, raising=False)
    await store.put_chunk(status="SUCCEEDED")
    rt = await dead_lettered(store, *[Message.about(store.chunk, 2)] * 45)
    assert [30, 15, 0] == [(await drain(rt, LOG)).total() for _ in range(3)]


async def test_an_empty_queue_is_read_once(store: Store) -> None:
    rt = runtime(store)
    await drain(rt, LOG)
    assert [1] == [account.requests for account in rt.cost.accounts.values()]


async def test_a_message_that_fails_stays_and_delays_no_other(store: Store) -> None:
    await store.put_chunk()
    await store.change(v=2)
    await store.put(store.ref.pk, keys.META_SK, v=2, queue="gone")
    message = Message.about(store.chunk, 2)  # for newer workers, but takes it no queue
    rt = await dead_lettered(store, message, "foreign")
    acts = await drain(rt, LOG)
    assert acts == {"failed": 1, "dead-letter queue: quarantined": 1}
    assert bodies(rt, SETTINGS.dead_letter_queue) == [message.model_dump_json()]
