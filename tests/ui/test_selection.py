"""Guarantee: an operator finds jobs and chunks, and acts on those that he selects."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from urllib.parse import parse_qsl, quote

import pytest

from piecework_examples.quickstart import Paragraph
from piecework_orchestrator.ui.job_search import JobSearch
from tests.ui.conftest import SCRIPT, TOKEN, Deployment, Page, serve
from tests.ui.test_actions import perform, shop

FACTS = {"job": "invoices-11", "source": "s3://in/Rows.csv", "submitted_by": "ann@desk"}
FACTS |= {"pipeline": "invoices", "status": "PARTIAL"}
TAGGED = FACTS | {"tags": {"team": "legal", "run": "7"}}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, True),
        ({"q": "rows ANN"}, True),
        ({"q": "rows bob"}, False),
        ({"status": "partial"}, True),
        ({"status": "RUNNING"}, False),
        ({"q": "invoices", "status": "PARTIAL"}, True),
    ],
)
def test_each_word_and_the_status_must_match(
    query: dict[str, str], *, found: bool
) -> None:
    assert JobSearch.read(query).matches(FACTS) is found


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"tag": "team=legal"}, True),
        ({"tag": "run=7, team=legal"}, True),
        ({"tag": "team=sales"}, False),
        ({"q": "legal"}, True),
    ],
)
def test_the_tags_must_match(query: dict[str, str], *, found: bool) -> None:
    search = JobSearch.read(query)
    assert search.matches(TAGGED) is found
    assert "tag" not in query or not search.matches(FACTS)
    assert JobSearch.read(dict(parse_qsl(search.address()[1:]))) == search


def test_an_address_has_the_search() -> None:
    query = {"q": "a b&c", "pipeline": "p", "status": "FAILED", "since": "7d"}
    search = JobSearch.read(query)
    assert search.address() == "?q=a+b%26c&pipeline=p&status=FAILED&since=7d"
    assert search.address(everything=True).endswith("&all=1")
    assert JobSearch.read({"q": " "}).address() == ""


def jobs_in(text: str) -> set[str]:
    """Return the jobs that the table of a first page lists."""
    part = text.partition('<div id="jobs">')[2].partition('<div id="rest">')[0]
    return set(re.findall(r'/jobs/([\w-]+)"', part))


@pytest.fixture
async def three(deployment: Deployment) -> None:
    """Leave a job that ended PARTIAL, one that runs, and one of another pipeline."""
    job = await deployment.submit("partial-1", "one", "broken", "broken two")
    async with deployment.worker():
        await job.wait(timeout=20)
    await deployment.submit("open-2", "one")
    other = shop(lambda _: None)
    tags = {"team": "<b>legal"}
    await deployment.client.submit(
        other, [{"text": "x"}], id="shop-3", source="till", tags=tags
    )


@pytest.mark.usefixtures("three")
async def test_the_first_page_lists_what_its_address_says(page: Page) -> None:
    every = {"partial-1", "open-2", "shop-3"}
    for query, found in (
        ("", every),
        ("?q=TILL", {"shop-3"}),
        ("?pipeline=word-count", {"partial-1", "open-2"}),
        ("?status=partial", {"partial-1"}),
        ("?since=1h", every),
        ("?tag=team%3D%3Cb%3Elegal", {"shop-3"}),
        ("?q=none", set[str]()),
    ):
        status, text = await page.get(f"/{query}")
        assert (status, jobs_in(text)) == (200, found), query
    assert "No job matches" in text
    status, text = await page.get("/?status=x")
    assert (status, "x is not a status." in text) == (400, True)
    status, text = await page.get("/?tag=team")
    assert (status, "is not a tag" in text) == (400, True)
    _, text = await page.get("/jobs/shop-3")
    assert "team=&lt;b&gt;legal</a>" in text
    assert "<b>legal" not in text
    _, text = await page.get(f"/?q={quote(SCRIPT)}&pipeline={quote(SCRIPT)}")
    assert SCRIPT not in text
    async with page.http.get(f"{page.home}/live?pipeline=shop") as reply:
        async for line in reply.content:
            if line.startswith(b"data:"):
                break
    listed = json.loads(line.removeprefix(b"data: "))["jobs"]
    assert ("/jobs/shop-3" in listed, "/jobs/partial-1" in listed) == (True, False)


@pytest.mark.usefixtures("three")
async def test_one_preview_and_one_reason_act_on_the_selected_jobs(
    deployment: Deployment, page: Page
) -> None:
    path = "/actions/pause?selection=1&pick=open-2&pick=shop-3&pick=partial-1"
    _, form = await page.get(path)
    assert "2 jobs will change. 1 job will be left out." in form
    assert "1 open chunk will wait" in form
    assert "Left out: The job is PARTIAL." in form
    text = await perform(page, path, reason="price change")
    for words in ("Job open-2 is PAUSED", "Job shop-3 is PAUSED", "partial-1 was left"):
        assert words in text
    for job in ("open-2", "shop-3"):
        pause = (await deployment.client.job(job).facts()).document["pause"]
        assert pause["message"] == "price change"
    assert jobs_in((await page.get("/?status=PAUSED"))[1]) == {"open-2", "shop-3"}
    await perform(page, "/actions/resume?pick=shop-3", reason="agreed")
    assert jobs_in((await page.get("/?status=PAUSED"))[1]) == {"open-2"}
    _, form = await page.get("/actions/retry?pick=open-2")
    assert "0 jobs will change. 1 job will be left out." in form
    assert "<form" not in form


@pytest.mark.usefixtures("three")
async def test_a_cause_leads_to_its_chunks_and_only_the_selected_are_redriven(
    deployment: Deployment, page: Page
) -> None:
    _, first = await page.get("/")
    [address] = set(re.findall(r'href="[^"]*(/causes/\w+)"', first))
    _, shown = await page.get(address)
    assert set(re.findall(r"/jobs/partial-1/chunks/(\d)", shown)) == {"1", "2"}
    assert SCRIPT not in shown
    mark = address.rpartition("/")[2]
    path = f"/actions/redrive?selection=1&fingerprint={mark}&pick=partial-1/2"
    _, form = await page.get(path)
    assert "1 open dead letter of 1 selected chunk" in form
    deployment.mended = True
    assert "1 dead letter redriven." in await perform(
        page, path, canary="0", reason="the fix"
    )
    async with deployment.worker():
        view = await deployment.client.job("partial-1").wait(timeout=20)
    assert view.counts == {"DEAD": 1, "SUCCEEDED": 2}
    assert (await page.get("/causes/0123456789ab"))[0] == 404


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(
    "query",
    [
        "selection=1",
        "selection=1&job=partial-1",
        "selection=1&pick=" + ",".join(f"partial-1/{n}" for n in range(201)),
        "pick=partial-1/x",
    ],
)
async def test_an_empty_or_odd_selection_is_not_all_dead_letters(
    deployment: Deployment, page: Page, query: str
) -> None:
    for name in ("redrive", "discard"):
        path = f"/actions/{name}?{query}"
        assert (await page.get(path))[0] == 400
        status, _ = await page.post(path, reason="all of them", canary="0")
        assert status == 400
    assert len(await deployment.client.dead_letters()) == 2


@pytest.mark.usefixtures("three")
async def test_a_page_that_only_reads_has_no_selection(deployment: Deployment) -> None:
    async with serve(deployment.client, actions=False) as page:
        await page.get(f"/?token={TOKEN}")
        for path in ("/", "/jobs/partial-1", "/dead-letters"):
            _, text = await page.get(path)
            assert ('name="pick"' in text, "formaction" in text) == (False, False)


async def test_a_chunk_is_found_by_its_number_and_by_a_part_of_its_label(
    deployment: Deployment, page: Page
) -> None:
    rows = [Paragraph(text=SCRIPT), Paragraph(text="Receipt 2")]
    labelled = replace(deployment.pipeline, label=lambda row: row.text)
    await deployment.client.submit(labelled, rows, id="j-1")
    _, chunk = await page.get("/jobs/j-1/find?q=1")
    assert "Chunk 1" in chunk
    _, found = await page.get("/jobs/j-1/find?q=receipt")
    assert ("chunks/1" in found, "chunks/0" in found) == (True, False)
    _, found = await page.get(f"/jobs/j-1/find?q={quote(SCRIPT)}")
    assert ("chunks/0" in found, SCRIPT in found) == (True, False)
    _, found = await page.get("/jobs/j-1/find?q=x")
    assert "No label of a chunk matches." in found
    assert (await page.get("/jobs/j-1/find?q=7"))[0] == 404
