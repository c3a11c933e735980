"""Guarantee: each view of a job of 100,000 chunks takes few requests and little memory.

The rows are made when a request asks for them, as `make large-job` has them.
"""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import AsyncIterator
from functools import cache
from typing import Any

import pytest

from bench.adapters.product import TENANT
from bench.large_job import BEGAN, ENDED, RUNNING, SHA256, LargeJobs, certificate, drawn
from piecework.client import Client
from piecework.domain import keys
from piecework.domain.moments import iso
from piecework.domain.refs import JobRef
from piecework.runtime import Runtime
from piecework.settings import Settings
from piecework.store.serialization import to_item
from piecework_orchestrator.dead_letters.open_causes import MOST_MARKS
from piecework_simulation.in_process import InProcessAws
from tests.ui.conftest import TOKEN, serve

CHUNKS = 100_000
#: Further jobs that run, each of four groups.
SMALL = 60
#: Requests that a view may take; and bytes at its peak, at any number of chunks.
MOST_REQUESTS, MOST_BYTES = 30, 40 * 2**20
VIEWS = (
    "/",
    "/?q=run&status=RUNNING",
    f"/jobs/{RUNNING}",
    f"/jobs/{ENDED}",
    f"/jobs/{ENDED}/report.html",
    f"/jobs/{RUNNING}/chunks/5",
    f"/jobs/{RUNNING}/chunks/99999",
    "/dead-letters",
    f"/causes/{0:016x}",
    "/workers",
    "/batches",
    "/questions",
    f"/actions/redrive?job={ENDED}",
    f"/actions/discard?selection=1&pick={ENDED}/5",
    f"/actions/pause?job={RUNNING}",
)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """Return a client of a deployment with a running and an ended job."""
    settings = Settings(tenant=TENANT)
    aws = InProcessAws(settings, clock=lambda: BEGAN + 3_600)
    names = (settings.checkpoints_table, settings.dead_letters_table)
    aws.dynamodb = LargeJobs(aws.clock, tables=names)
    aws.dynamodb.chunks, aws.dynamodb.made = CHUNKS, set()
    table = settings.checkpoints_table
    rows = [
        {"pk": keys.jobs_pk(TENANT), "sk": f"{iso(BEGAN)}#{name}", "job": name}
        for name in (RUNNING, ENDED)
    ]
    small = [f"small-{number}" for number in range(SMALL)]
    refs = [JobRef(TENANT, name) for name in small]
    rows += [
        {"pk": keys.jobs_pk(TENANT), "sk": f"{iso(BEGAN - 1)}#{name}", "job": name}
        for name in small
    ]
    facts = {"status": "RUNNING", "gen": 1, "chunks": 1_000, "created_at": iso(BEGAN)}
    rows += [{"pk": ref.pk, "sk": keys.META_SK, **facts} for ref in refs]
    backlog = {"pk": keys.ACTIVE_PK, "sk": keys.backlog_sk("", TENANT, RUNNING)}
    backlog |= {"job": RUNNING, "tenant": TENANT, "gen": 1, "priority": "normal"}
    backlog |= {"next_chunk": drawn(RUNNING, CHUNKS), "chunks": CHUNKS}
    for row in [*rows, backlog]:
        item = to_item({"v": 1, "pipeline": "plain", **row})
        aws.dynamodb.call("put_item", {"TableName": table, "Item": item})
    aws.dynamodb.made |= {(table, ref.pk) for ref in refs}
    for sk, mark in marks().items():
        place = settings.dead_letters_table, keys.open_letters_pk(TENANT), sk
        aws.dynamodb.restore(*place, mark)
    key = keys.certificate_key(TENANT, ENDED, 1, SHA256)
    aws.s3.call("put_object", {"Bucket": aws.bucket, "Key": key, "Body": stored()})
    async with Client(runtime=aws.runtime(), actor="ann@desk") as found:
        yield found


@cache
def stored() -> bytes:
    """Return the certificate of the ended job."""
    return certificate(CHUNKS)


@cache
def marks() -> dict[str, Any]:
    """Return more marks than are read, by their sort keys."""
    found = [mark_of(JobRef(TENANT, ENDED), n) for n in range(MOST_MARKS + 2)]
    return {mark["sk"]: to_item(mark) for mark in found}


def mark_of(ref: JobRef, number: int) -> dict[str, Any]:
    """Return the mark of an open dead letter, one of sixty causes; chunk 5 is dead."""
    chunk = 5 if number == 0 else number
    died = iso(BEGAN + 1 if number == 0 else BEGAN - number)
    sk = keys.open_letter_sk(died, ref.job, chunk, 1)
    facts = {"tenant": TENANT, "job": ref.job, "chunk": chunk, "gen": 1}
    facts |= {"pipeline": "plain", "fingerprint": f"{number % 60:016x}"}
    place = {"pk": keys.open_letters_pk(TENANT), "sk": sk, "v": 1}
    return place | facts | {"kind": "open", "dead_lettered_at": died}


def requests_of(rt: Runtime) -> int:
    """Return how many requests a process has sent so far."""
    counts = [account.counts for account in rt.cost.accounts.values()]
    names = {name for count in counts for name in count if name.endswith("__requests")}
    return sum(count.get(name, 0) for count in counts for name in names) // 1000


@pytest.mark.parametrize("path", VIEWS)
async def test_a_view_of_a_large_job_is_small(client: Client, path: str) -> None:
    rt = client.runtime
    async with serve(client) as page:
        await page.get(f"/workers?token={TOKEN}")
        await page.get(path)  # makes the rows
    async with serve(client) as page:
        await page.get(f"/workers?token={TOKEN}")
        before = requests_of(rt)
        tracemalloc.start()
        try:
            status, text = await page.get(path)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert status == 200, text[-800:]
    assert requests_of(rt) - before <= MOST_REQUESTS
    assert peak < MOST_BYTES
    assert len(text) < 2**20


async def test_the_page_of_a_large_ended_job_lists_its_dead_chunks(
    client: Client,
) -> None:
    async with serve(client) as page:
        _, text = await page.get(f"/jobs/{ENDED}?token={TOKEN}")
    assert f"/jobs/{ENDED}/chunks/5" in text
    assert "user.stage.failed" in text
    assert "about 12,000,000 tokens, $0.50, by 300 chunks" in text
    assert f"By 300 of {CHUNKS:,} chunks" in text
    assert f"{CHUNKS:,} of {CHUNKS:,} chunks" in text
    assert f"<dt>Calls</dt><dd><strong>{CHUNKS:,}</strong>" in text


async def test_the_page_of_a_large_running_job_has_its_calls_and_a_chart(
    client: Client,
) -> None:
    async with serve(client) as page:
        _, text = await page.get(f"/jobs/{RUNNING}?token={TOKEN}")
    calls = re.search(r"<dt>Calls</dt><dd><strong>about ([\d,]+)</strong>", text)
    assert calls is not None
    assert abs(int(calls[1].replace(",", "")) - drawn(RUNNING, CHUNKS)) < 300
    assert 'aria-label="Results over time' in text


async def test_the_first_page_counts_the_newest_dead_letters_and_names_causes(
    client: Client,
) -> None:
    async with serve(client) as page:
        _, text = await page.get(f"/?token={TOKEN}")
        _, cause = await page.get(f"/causes/{0:016x}")
    assert f"<strong>{MOST_MARKS:,}+</strong>" in text
    assert "piecework dlq stats" in text
    assert "small-49" in text
    assert f"more than {-(-MOST_MARKS // 60):,} open dead letters" in cause
