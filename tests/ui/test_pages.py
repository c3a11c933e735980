"""Guarantee: the pages show every chunk, follow a job live, and escape every value."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from piecework.cost.meter import CostMeter
from piecework.domain import keys
from piecework.domain.moments import iso, moment
from piecework.errors import StoreError
from piecework.explain.situation import ACCESS_DENIED
from piecework.store.breakers import Breakers
from piecework.store.table import Table
from piecework_orchestrator.operate.pipelines import list_pipelines
from piecework_orchestrator.ui import overview
from piecework_orchestrator.ui.grid import MAX_CELLS, make_grid
from piecework_orchestrator.ui.pacing import Pacing
from piecework_orchestrator.ui.reading import JobReads
from piecework_orchestrator.ui.timeline import make_timeline
from tests.client.planted import let_wait, plant
from tests.ui.conftest import SCRIPT, TOKEN, Deployment, Page, serve


async def updates(page: Page, job: str) -> AsyncIterator[tuple[str, Any]]:
    """Yield kind and data of the events of a job's page."""
    async with page.http.get(f"{page.home}/jobs/{job}/live") as reply:
        assert reply.headers["Content-Type"].startswith("text/event-stream")
        kind = ""
        async for line in reply.content:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                yield kind, json.loads(value)


async def test_a_running_job_updates_its_page_until_it_ends(
    deployment: Deployment, page: Page
) -> None:
    await deployment.submit("j-1", "one", "hold", "broken")
    async with deployment.worker():
        seen = updates(page, "j-1")
        kind, parts = await anext(seen)
        while "2 of 3 chunks" not in parts.get("summary", ""):
            kind, parts = await anext(seen)
        assert kind == "update"
        deployment.go_on.set()
        rest = [event async for event in seen]
    assert "3 of 3 chunks" in rest[-2][1]["summary"]
    assert "DEAD <strong>1</strong>" in rest[-2][1]["chunks"]
    assert rest[-1] == ("ended", {})


async def test_a_stuck_job_says_why_and_a_worker_appears(
    deployment: Deployment, page: Page
) -> None:
    await deployment.submit("j-1", "hold")
    _, shown = await page.get("/jobs/j-1")
    assert "workers.none" in shown
    assert "0 of 7,000 tokens spent" in shown
    assert "No worker has reported" in (await page.get("/workers"))[1]
    async with deployment.worker():
        deployment.go_on.set()
        await deployment.client.job("j-1").wait(timeout=20)
        _, shown = await page.get("/workers")
    assert "ALIVE" in shown
    assert "word-count" in shown


async def test_values_of_users_are_text_on_every_page(
    deployment: Deployment, page: Page
) -> None:
    job = await deployment.submit("j-1", f"broken {SCRIPT}", SCRIPT)
    async with deployment.worker():
        await job.wait(timeout=20)
    for path in (
        "/",
        "/dead-letters",
        "/jobs/j-1",
        "/jobs/j-1/results",
        "/jobs/j-1/chunks/0",
        "/jobs/j-1/chunks/1",
        "/jobs/j-1/report.html",
        "/actions/edit?job=j-1&chunk=0",
        "/actions/redrive?job=j-1",
        f"/actions/redrive?fingerprint={SCRIPT}",
        f"/jobs/{SCRIPT.replace('/', '%2F')}",
    ):
        _, text = await page.get(path)
        assert SCRIPT not in text
    _, chunk = await page.get("/jobs/j-1/chunks/0")
    assert "broken &lt;script&gt;" in chunk


async def test_an_ended_job_is_saved_and_read_until_its_costs_are_recorded(
    deployment: Deployment, page: Page
) -> None:
    job = await deployment.submit("j-1", "one", "broken")
    async with deployment.worker():
        await job.wait(timeout=20)
    async with page.http.get(f"{page.home}/jobs/j-1/report.html") as reply:
        name = reply.headers["Content-Disposition"]
        text = await reply.text()
    assert name == "attachment; filename=piecework-j-1.html"
    assert "DEAD <strong>1</strong>" in text
    for needed in ("src=", "href=", "<script", "<form"):
        assert needed not in text
    record = await deployment.client.runtime.jobs.read(job.ref)
    assert record is not None
    now = moment(record.finished_at)
    rt = replace(deployment.client.runtime, clock=lambda: now)
    reads = JobReads(rt, Pacing(rt))
    early = await reads.table(record)
    now += 36
    recorded = await reads.table(record)
    assert recorded is not early
    now += 3600
    assert recorded is await reads.table(record)
    assert await reads.effects(record, early) is await reads.effects(record, early)


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/jobs/unknown", 404, "job.record.not_found"),
        ("/jobs/j-1/chunks/9", 404, "job.chunk.not_found"),
        ("/jobs/j-1/live-not", 404, "cannot be shown"),
        ("/tasks/9", 404, "not known any more"),
        ("/jobs/j-1/chunks/0/question?name=x", 404, "approval.question.not_found"),
        ("/jobs/j-1/chunks/join/question", 404, "job.chunk.not_found"),
        ("/jobs/j-1/chunks/x/question", 400, "is not the number"),
        ("/questions?job=none", 404, "job.record.not_found"),
    ],
)
async def test_an_address_without_a_page_says_so(
    deployment: Deployment, page: Page, path: str, status: int, words: str
) -> None:
    await deployment.submit("j-1", "one")
    found, text = await page.get(path)
    assert (found, words in text) == (status, True)


async def test_a_read_is_repeated_after_a_time_by_its_price(
    deployment: Deployment,
) -> None:
    now, units = 0.0, 10
    rt = replace(
        deployment.client.runtime, clock=lambda: now, cost=CostMeter(trusted=True)
    )
    pacing = Pacing(rt)

    async def read() -> float:
        rt.cost.account(None).counts["op__Query__units"] += units * 1000
        return now

    async def get(**how: Any) -> float:
        return await pacing.get("key", read, 0.5, **how)

    assert await get() == 0.0
    now = 19.9
    assert await get() == 0.0
    now = 20.0
    assert await get() == 20.0
    assert await get(state="another") == 20.0
    now, units = 100.0, 0
    assert await get(state="another", final=True) == 20.0
    assert await get(state="third") == 100.0
    now = 101.9
    assert await get(state="third") == 100.0
    now = 102.0
    assert await get(state="third") == 102.0


async def test_a_store_on_this_machine_is_read_within_a_second_and_rests(
    deployment: Deployment,
) -> None:
    now, rt = 0.0, deployment.client.runtime
    pacing = Pacing(rt, timer=lambda: now)
    assert (pacing.poll_s, Pacing(rt, 9.0).poll_s) == (0.5, 9.0)

    async def read(seconds: float) -> float:
        nonlocal now
        now += seconds
        return now

    for seconds, shown_s in ((0.01, 0.5), (3.0, 12.0)):
        await pacing.get(seconds, lambda took=seconds: read(took), 0.5)
        assert pacing.for_s(seconds) == shown_s


async def test_the_first_page_sums_the_fleet_up_and_says_what_needs_attention(
    deployment: Deployment,
) -> None:
    client = deployment.client
    rt = client.runtime
    hook = {"format": "json", "url": "https://x.example", "last_error": "HTTP 503"}
    hook["failed_at"] = iso(rt.clock())
    pk = keys.webhooks_pk(rt.settings.tenant)
    await rt.table.put(rt.table.item_write("Put", pk, "pager", item=hook))
    await Breakers(rt.table, "w", rt.clock).open("bank", 0, rt.clock() + 60, "a.b.c")
    await client.pause_dependency("model", "price change")
    async with deployment.worker():
        await (await deployment.submit("j-1", *["one"] * 12, "broken")).wait(timeout=20)
    await client.pause_pipeline("word-count", "look at j-1")
    async with serve(client) as page:
        _, text = await page.get(f"/?token={TOKEN}")
    for words in (
        "no job is active",
        "1 cause",
        "<dt>Cost today</dt><dd><strong>$0.0000",
        "Circuit breaker of bank is open",
        "Dependency model is paused:</strong> price change",
        "Pipeline word-count is paused:</strong> look at j-1",
        "Webhook pager did not accept an event:</strong> HTTP 503",
    ):
        assert words in text, words


async def test_a_role_of_one_tenant_sees_what_it_may_read(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    await deployment.submit("j-1", "one")
    read, rt = Table._pages, deployment.client.runtime

    def only_own(table: Table, send: Any, request: dict[str, Any]) -> Any:
        pk = request.get("ExpressionAttributeValues", {}).get(":pk", {"S": ""})["S"]
        if pk.startswith("T#") or pk == keys.ACTIVE_PK:
            return read(table, send, request)
        raise StoreError("denied", code=ACCESS_DENIED)

    monkeypatch.setattr(Table, "_pages", only_own)
    async with serve(deployment.client) as page:
        _, first = await page.get(f"/?token={TOKEN}")
        assert "cannot read workers, breakers and limits." in first
        assert "<span>cannot be read</span>" in first
        for path, cannot in (("/", True), ("/dead-letters", False), ("/workers", True)):
            status, text = await page.get(path)
            found = [words in text for words in ("cannot read", "No dead", "No worker")]
            assert (status, found) == (200, [cannot, path != "/workers", False])
        path = "/actions/pause-pipeline?pipeline=word-count"
        _, done = await page.post(path, reason="a look")
        assert "1 job of pipeline word-count paused." in done
    [row] = await list_pipelines(rt, rt.settings.tenant)
    assert (row["jobs"], row["workers"]) == (1, None)


async def test_a_damaged_letter_is_named_on_each_page(deployment: Deployment) -> None:
    letters = deployment.client.runtime.dead_letters
    job = await deployment.submit("j-1", "broken 0", "broken 1")
    async with deployment.worker():
        await job.wait(timeout=20)
    damage: dict[str, Any] = {"update": "SET error_history = :n", "values": {"n": 1}}
    sk = keys.dead_letter_sk(0, 1)
    await letters.update(letters.item_write("Update", job.ref.pk, sk, **damage))
    async with serve(deployment.client) as page:
        for path in (f"/?token={TOKEN}", "/dead-letters", "/jobs/j-1"):
            status, text = await page.get(path)
            named = "(runtime.record.unreadable): j-1/0." in text
            assert (status, named) == (200, True)
        _, text = await page.get("/actions/discard?job=j-1")
        assert "1 open dead letter" in text
        found, *_ = (await job.explain())["findings"]
        _, text = await page.get("/actions/delete?job=j-1")
        assert "2 open dead letters will be deleted, too." in text
        _, asked = await page.get("/actions/retry?job=j-1")
        _, text = await page.post("/actions/retry?job=j-1", reason="again")
        for path in ("/", "/dead-letters"):
            assert "No dead letter is open." not in (await page.get(path))[1]
    assert "1 chunk without a result will run again." in asked
    assert "Damaged dead letters are left out, because" in asked
    assert "1 chunk of job j-1 will run again; left out, because" in text
    assert "2 dead letters are open. Damaged ones among them: 1." == found["message"]


async def test_the_first_page_reads_past_deleted_jobs(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "MAX_JOBS", 1)
    await deployment.submit("j-1", "one")
    newest = await deployment.submit("j-2", "one")
    await newest.cancel("why")
    await newest.delete("why")
    async with serve(deployment.client) as page:
        _, text = await page.get(f"/?token={TOKEN}")
    assert ('/jobs/j-1"' in text, "of the newest 1" in text) == (True, False)
    await deployment.submit("j-3", "one")
    async with serve(deployment.client) as page:
        _, text = await page.get(f"/?token={TOKEN}")
    assert ('/jobs/j-1"' in text, "of the newest 1" in text) == (False, True)


async def test_the_page_of_a_chunk_draws_its_attempts_waits_and_takeovers() -> None:
    spans = [
        span("claim", 0, 10, attempt=1, end="lost", worker="w-1"),
        span("wait", 10, 30, reason="runtime.worker.lost"),
        span("claim", 30, 40, attempt=1, end="succeeded", worker="w-2"),
        span("stage", 30, 35, attempt=1, worker="w-2"),
    ]
    drawn = make_timeline({"spans": spans})
    assert (drawn.seconds, drawn.began) == (40.0, spans[0]["from"])
    places = [(bar.x, bar.width, bar.tone) for bar in drawn.bars]
    assert places == [
        (0, 250, "lost"),
        (250, 500, "wait"),
        (750, 250, "succeeded"),
        (750, 125, "stage"),
    ]
    assert drawn.bars[0].facts == "taken over: its worker lost the lease, worker w-1"
    instant = make_timeline({"spans": [span("claim", 0, 0, end="running")]})
    assert instant.bars[0].width > 0
    assert make_timeline({"spans": []}).bars == ()


def span(kind: str, began: int, ended: int, **facts: Any) -> dict[str, Any]:
    """Return a span of a timeline, in seconds after a moment."""
    times = {"from": iso(began), "to": iso(ended), "seconds": ended - began}
    return {"name": "0", "kind": kind, **times, **facts}


# ── the grid ──────────────────────────────────────────────────────────────────


def cells(statuses: list[str]) -> list[str]:
    """Return the status of each cell that the rectangles draw."""
    grid = make_grid(statuses)
    drawn = [""] * (grid.columns * grid.rows)
    for one in grid.rectangles:
        for step in range(one.width):
            assert not drawn[one.y * grid.columns + one.x + step]
            drawn[one.y * grid.columns + one.x + step] = one.status
    return drawn


def test_each_chunk_has_its_cell() -> None:
    statuses = ["SUCCEEDED"] * 95 + ["DEAD", "DEAD", "RUNNING"] + ["PENDING"] * 2
    assert cells(statuses)[:100] == statuses
    linked = [one.chunk for one in make_grid(statuses).rectangles if one.linked]
    assert linked == [95, 96, 97]


def test_a_cell_of_several_chunks_shows_the_most_urgent() -> None:
    statuses = ["SUCCEEDED"] * (3 * MAX_CELLS)
    statuses[31] = "DEAD"
    grid = make_grid(statuses)
    assert grid.chunks_per_cell == 3
    assert cells(statuses).count("DEAD") == 1
    assert cells(statuses)[10] == "DEAD"


def test_a_job_without_chunks_has_no_cell() -> None:
    assert make_grid([]).rectangles == []


async def test_the_batches_of_a_job_are_listed(
    deployment: Deployment, page: Page
) -> None:
    _, shown = await page.get("/batches")
    assert "No batch is known" in shown
    job = await deployment.submit("j-1", "hold", "hold")
    rt = deployment.client.runtime
    await plant(rt, "j-1")
    await let_wait(rt, job.ref)
    _, shown = await page.get("/batches?job=j-1")
    for word in ("batch_abc", "GATHERED", "CREATED", "batch_old", "batches cancel"):
        assert word in shown
    _, shown = await page.get("/batches?job=none")
    assert "No batch is known" in shown
    _, shown = await page.get("/jobs/j-1")
    assert "2 gathered, 3 in batches, 0 answered, 0 gone direct" in shown
    assert "Chunks wait for batch_abc of openai, 1 of 3 answered" in shown
