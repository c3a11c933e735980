from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from piecework_simulation.aws.dynamodb import DynamoDB
from verification.naive.source004.records import CLAIM_S, Records
from verification.naive.source004.worker import Worker


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def records(clock: Clock) -> Records:
    service = DynamoDB(clock, tables=["records"], rng=Random(1))

    def operation(name: str) -> Any:
        async def call(**request: Any) -> Any:
            return service.call(name, request)

        return call

    names = ("get_item", "put_item", "update_item")
    client = SimpleNamespace(**{name: operation(name) for name in names})
    return Records(client, "records", clock)


async def test_the_first_writer_owns_the_claim_until_it_expires(
    records: Records, clock: Clock
) -> None:
    await records.new_chunk("job", 0, "{}")
    first = await records.claim("job", 0, "one")
    second = await records.claim("job", 0, "two")
    clock.now += CLAIM_S + 1
    third = await records.claim("job", 0, "two")

    assert (True, True, True) == (first is not None, second is None, third is not None)


async def test_the_source_s_condition_gives_a_finished_chunk_out_again(
    records: Records, clock: Clock
) -> None:
    await records.new_chunk("job", 0, "{}")
    await records.claim("job", 0, "one")
    await records.complete("job", 0, "one")
    clock.now += CLAIM_S + 1

    assert await records.claim("job", 0, "two") is not None


async def test_the_last_chunk_counted_completes_the_job(records: Records) -> None:
    await records.new_job("job", 2)
    statuses = []
    for _ in range(2):
        await records.count("job")
        reply = await records.client.get_item(
            TableName="records",
            Key={"pk": {"S": "job"}, "sk": {"S": "JOB"}},
            ConsistentRead=True,
        )
        statuses.append(reply["Item"]["status"]["S"])

    assert ["running", "completed"] == statuses


async def test_a_cancelled_job_stops_its_chunks_at_the_next_stage(
    records: Records,
) -> None:
    await records.new_job("job", 1)
    await records.new_chunk("job", 0, "{}")
    left_alone: list[Exception] = []
    worker = Worker("one", records, None, None, "", "", left_alone.append)
    await records.cancel("job")
    await worker.process("job", 0, 0)
    reply = await records.client.get_item(
        TableName="records",
        Key={"pk": {"S": "job"}, "sk": {"S": "CHECKPOINT#0#1"}},
        ConsistentRead=True,
    )

    assert "cancelled-at-stage-1" == reply["Item"]["status"]["S"]
