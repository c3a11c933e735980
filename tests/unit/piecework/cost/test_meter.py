from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from piecework.aws.queue import Message
from piecework.cost.attribution import MESSAGE, RECEIPTS_KEPT, owner_of_message, shared
from piecework.cost.meter import CostMeter, SharedTime, acting_as
from piecework.domain.keys import JOIN_CHUNK
from piecework.domain.refs import JobRef

A, B = JobRef("acme", "a"), JobRef("acme", "b")
KB64 = 64 * 1024


def body(job: JobRef, **more: Any) -> str:
    return json.dumps({"v": 1, "tenant": job.tenant, "job": job.job, **more})


def message(job: JobRef, receipt: str) -> dict[str, str]:
    return {"Body": body(job), "ReceiptHandle": receipt}


def update(job: JobRef, group: str = "") -> dict[str, Any]:
    return {"Key": {"pk": {"S": f"{job.pk}{group}"}, "sk": {"S": "META"}}}


def saw(meter: CostMeter, operation: str, params: Any, answer: Any) -> None:
    service = {"Mess": "sqs", "Visi": "sqs", "Obje": "s3"}
    named = next((s for part, s in service.items() if part in operation), "dynamodb")
    meter.saw(named, operation, params, answer, again=False)


def counts(meter: CostMeter, job: JobRef | None) -> dict[str, int]:
    return dict(meter.account(job).counts)


@pytest.mark.parametrize("group", ["", "#G#0007"])
def test_a_request_to_a_table_is_its_partitions_jobs(group: str) -> None:
    meter = CostMeter()
    saw(meter, "UpdateItem", update(A, group), {"Attributes": {}})

    assert counts(meter, A) == {
        "op__UpdateItem__requests": 1000,
        "op__UpdateItem__units": 1000,
    }


@pytest.mark.parametrize(
    "pk", ["ACTIVE", "T#acme#JOBS", "QUARANTINE", "T#acme#I#abc", "T##J#a", "T#a#J#b#c"]
)
def test_what_is_no_jobs_partition_is_nobodys(pk: str) -> None:
    meter = CostMeter()
    saw(meter, "Query", {"ExpressionAttributeValues": {":pk": {"S": pk}}}, {})

    assert {"op__Query__requests": 1000} == {
        name: n for name, n in meter.unowned.items() if name.endswith("requests")
    }


def test_a_transaction_is_the_first_items_jobs() -> None:
    meter = CostMeter()
    put = {"Put": {"Item": {**update(A)["Key"]}}}
    listed = {"Put": {"Item": {"pk": {"S": "ACTIVE"}, "sk": {"S": "x"}}}}
    saw(meter, "TransactWriteItems", {"TransactItems": [put, listed]}, {"x": 1})

    assert 4000 == counts(meter, A)["op__TransactWriteItems__units"]


def test_a_receive_is_shared_among_its_messages() -> None:
    meter = CostMeter()
    messages = [message(A, "1"), message(B, "2"), message(B, "3")]
    saw(meter, "ReceiveMessage", {}, {"Messages": messages})

    assert {"op__ReceiveMessage__requests": 334} == counts(meter, A)
    assert {"op__ReceiveMessage__requests": 666} == counts(meter, B)


def test_an_empty_poll_is_nobodys() -> None:
    meter = CostMeter()
    saw(meter, "ReceiveMessage", {}, {"ResponseMetadata": {}})

    assert {"op__ReceiveMessage__requests": 1000} == meter.unowned


def test_each_64_kb_sent_is_a_request() -> None:
    meter = CostMeter()
    large = body(A, more="x" * 700)
    entries = [{"MessageBody": large}] * 10
    bodies = len(large) * 10
    saw(meter, "SendMessageBatch", {"Entries": entries * (KB64 // bodies + 1)}, {})

    assert {"op__SendMessageBatch__requests": 2000} == counts(meter, A)


def test_a_receipt_is_its_messages_until_it_is_deleted() -> None:
    meter = CostMeter()
    saw(meter, "ReceiveMessage", {}, {"Messages": [message(A, "r")]})
    entry = {"Entries": [{"ReceiptHandle": "r"}]}
    saw(meter, "ChangeMessageVisibilityBatch", entry, {})
    saw(meter, "DeleteMessageBatch", entry, {})
    saw(meter, "DeleteMessageBatch", entry, {})

    assert 1000 == counts(meter, A)["op__ChangeMessageVisibilityBatch__requests"]
    assert 1000 == counts(meter, A)["op__DeleteMessageBatch__requests"]
    assert 1000 == meter.unowned["op__DeleteMessageBatch__requests"]


def test_receipts_do_not_pile_up() -> None:
    meter = CostMeter()
    for number in range(RECEIPTS_KEPT // 10 + 5):
        found = [message(A, f"{number}-{n}") for n in range(10)]
        saw(meter, "ReceiveMessage", {}, {"Messages": found})

    assert RECEIPTS_KEPT == len(meter._receipts._owners)


def test_objects_are_counted_with_their_bytes() -> None:
    meter = CostMeter()
    place = {"Key": "tenants/acme/jobs/a/payload/x.jsonl"}
    saw(meter, "PutObject", {**place, "Body": 500}, {})
    saw(meter, "GetObject", place, {"ContentLength": 300})

    assert 500 == counts(meter, A)["op__PutObject__bytes"]
    assert 300 == counts(meter, A)["op__GetObject__bytes"]


@pytest.mark.parametrize(
    "hostile",
    [
        "{",
        "[]",
        "7",
        '{"tenant": "acme"}',
        '{"tenant": 1, "job": 2}',
        '{"tenant": "..", "job": "a"}',
        '{"tenant": "acme#J#b", "job": "a"}',
        '{"tenant": "acme", "job": "a/b"}',
        "[" * 900,
        '{"tenant": "acme", "job": "a"}' + " " * 1000,
    ],
)
def test_a_message_may_say_anything_and_is_nobodys_then(hostile: str) -> None:
    assert owner_of_message(hostile) is None


@pytest.mark.parametrize("chunk", [0, 99_999_999, JOIN_CHUNK])
def test_our_own_messages_are_known_at_a_glance_and_as_if_parsed(chunk: int) -> None:
    message = Message.about(A.chunk(chunk), 9_999).model_dump_json()
    assert MESSAGE.fullmatch(message)
    assert A == owner_of_message(message) == owner_of_message(f" {message}")


def test_shares_add_up_to_the_whole() -> None:
    for number in range(1, 11):
        shares = shared([JobRef("t", str(n)) for n in range(number)])
        assert 1000 == sum(parts for _, parts in shares)


def test_requests_for_all_running_chunks_are_shared_among_them() -> None:
    meter = CostMeter()
    breakers = {"ExpressionAttributeValues": {":pk": {"S": "BREAKERS"}}}
    with meter.working(A), meter.working(B), meter.working(B):
        saw(meter, "Query", breakers, {"Items": []})
    saw(meter, "Query", breakers, {"Items": []})

    assert 334 == counts(meter, A)["op__Query__requests"]
    assert 666 == counts(meter, B)["op__Query__units"]
    assert 1000 == meter.unowned["op__Query__requests"]


async def test_a_request_belongs_to_the_chunk_whose_code_sent_it() -> None:
    meter = CostMeter("worker")

    async def reconcile() -> None:
        with acting_as("reconciler"):
            await asyncio.sleep(0)
            saw(meter, "UpdateItem", update(A), {"x": 1})

    beside = asyncio.create_task(reconcile())
    await asyncio.sleep(0)
    saw(meter, "UpdateItem", update(A), {"x": 1})
    await beside
    saw(meter, "UpdateItem", update(A), {"x": 1})

    requests = {who: a.requests for (who, _), a in meter.accounts.items()}
    assert {"worker": 2, "reconciler": 1} == requests


def test_an_attempt_without_an_answer_counts_as_request_and_as_retry() -> None:
    meter = CostMeter()
    meter.saw("dynamodb", "UpdateItem", update(A), None, again=False)
    meter.saw("dynamodb", "UpdateItem", update(A), {"x": 1}, again=True)

    assert counts(meter, A) == {
        "op__UpdateItem__requests": 2000,
        "op__UpdateItem__units": 1000,
        "retries": 1000,
    }


def test_a_chunk_counts_the_log_lines_since_the_last_one_and_what_its_calls_sent() -> (
    None
):
    log = [100]
    meter = CostMeter(logged=lambda: log[0])
    with meter.working(A):
        meter.called(A, 4_000)
        log[0] += 300
    with meter.working(B):
        log[0] += 50

    assert (400, 4_000) == tuple(
        counts(meter, A)[name] for name in ("log_bytes", "call_bytes")
    )
    assert 50 == counts(meter, B)["log_bytes"]


def test_shares_of_busy_time_add_up_to_it() -> None:
    now = [100.0]
    time = SharedTime[str](lambda: now[0])
    first = time.start("a")
    now[0] += 4
    second, third = time.start("b"), time.start("b")
    now[0] += 6  # three in progress
    assert 6.0 == time.stop("a", first)
    now[0] += 2  # two in progress
    shares = [time.stop("b", second), time.stop("b", third)]
    now[0] += 50  # no chunk in progress
    time.stop("b", time.start("b"))

    assert [3.0, 3.0] == shares
    assert {} == time.held
