"""Two tenants with a job of one name: neither is given, shown or moved by the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from piecework import runtime
from piecework.aws.queue import Message, read
from piecework.domain import keys
from piecework.domain.refs import JobRef
from piecework.settings import Settings
from piecework.store.dead_letters import DeadLetters
from piecework_worker.services import open_services
from piecework_worker.worker import Worker
from tests.scenarios.command_line import piecework
from verification.security.aws import Cloud
from verification.security.receiving import PIPELINE, Log, Note, touched

ACME, GLOBEX = JobRef("acme", "j"), JobRef("globex", "j")


async def turn(cloud: Cloud, ref: JobRef, name: str = "w") -> None:
    """Let a worker of its own take the turn of a chunk."""
    services = open_services(cloud.rt, name, {"echo": PIPELINE}, Log())
    worker = Worker(services, asyncio.Event())
    body = Message.about(ref.chunk(0), 1).model_dump_json()
    raw = {"Body": body, "ReceiptHandle": "r", "MessageId": "m"}
    await worker.handle(read(raw))
    await worker.acks.flush()
    await asyncio.gather(*worker.active_tasks)


async def test_each_tenants_chunk_reads_and_writes_its_own_alone() -> None:
    cloud = Cloud()
    for ref in (ACME, GLOBEX):
        text = Note(text=f"of {ref.tenant}").model_dump_json().encode()
        await cloud.job(ref, [text, text], "echo")
    for ref, other in ((ACME, GLOBEX), (GLOBEX, ACME)):
        for client in (cloud.dynamodb, cloud.s3):
            client.asked.clear()
        await turn(cloud, ref, f"worker of {ref.tenant}")
        assert [] == [p for p in touched(cloud) if f"{other.tenant}" in p]
        row = await cloud.rt.table.get(ref.chunk(0).pk, ref.chunk(0).sk)
        assert row is not None
        assert f'"{ref.tenant}:of {ref.tenant}"' == row["value"]


@pytest.mark.parametrize(
    "words",
    [
        ("jobs", "show", "j"),
        ("jobs", "events", "j"),
        ("jobs", "cancel", "j", "--reason", "x", "--yes"),
        ("jobs", "retry", "j", "--reason", "x"),
        ("chunks", "list", "j"),
        ("chunks", "show", "j", "0"),
        ("results", "j"),
        ("dlq", "show", "j", "0"),
        ("dlq", "list", "--job", "j"),
        ("dlq", "redrive", "--job", "j", "--reason", "x", "--yes"),
        ("dlq", "discard", "--job", "j", "--reason", "x", "--yes"),
    ],
)
async def test_a_strangers_job_is_not_there(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud = Cloud(tenant="globex")
    await cloud.job(ACME, [Note(text="a").model_dump_json().encode()], "echo")
    before = await everything(cloud)
    use(cloud, monkeypatch)
    done = await piecework(*words)
    assert 3 == done.exit_code, done.stderr
    assert "job.record.not_found" in done.stderr
    assert before == await everything(cloud)


async def test_a_letter_is_whose_key_says_so() -> None:
    cloud = Cloud(tenant="globex")
    letters = DeadLetters(cloud.rt.dead_letters, cloud.settings, cloud.rt.clock)
    facts = {"error_code": "a.b.c", "dead_lettered_at": "", "state": "OPEN"}
    for ref in (ACME, GLOBEX):
        item = {
            **facts,
            "error_history": "[]",
            "kind": "dead-letter",
            "tenant": "globex",
        }
        sk = keys.dead_letter_sk(0, 1)
        put = cloud.rt.dead_letters.item_write(
            "Put", ref.pk, sk, item=item | {"job": "x"}
        )
        await cloud.rt.dead_letters.put(put)
    found = [row async for row in letters.all("globex")]
    assert [("globex", "j", 0, 1)] == [
        (row.ref.tenant, row.ref.job, row.chunk, row.gen) for row in found
    ]


def use(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands connect to a fictitious deployment."""

    @asynccontextmanager
    async def connect(settings: Settings, **_: Any) -> AsyncIterator[Any]:
        yield replace(cloud.rt, settings=settings)

    monkeypatch.setenv("PIECEWORK_TENANT", cloud.settings.tenant)
    monkeypatch.setattr(runtime, "connect", connect)


async def everything(cloud: Cloud) -> list[dict[str, Any]]:
    """Return every item of both tables."""
    tables = (cloud.rt.table, cloud.rt.dead_letters)
    return [item for table in tables async for item in table.scan()]
