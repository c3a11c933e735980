"""Guarantee: every page and action works in a browser, by keyboard and screen reader.

Needs Chromium on the path; without it these tests are skipped.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, BrowserContext, Page, async_playwright
from playwright.async_api import Request as Sent

from tests.ui.conftest import TOKEN, Deployment
from tests.ui.conftest import Page as Served
from tests.ui.test_calls import judged
from tests.ui.test_questions import asking

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
#: A browser that looks up nothing outside this machine, also in a container as root.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PAGES = (
    "/",
    "/?q=none&status=FAILED&since=7d",
    "/?all=1",
    "/dead-letters",
    "/workers",
    "/batches",
    "/batches?job=j-2",
    "/jobs/j-1",
    "/jobs/j-1/results",
    "/jobs/j-1/find?q=none",
    "/actions/pause?selection=1&pick=j-1,j-2",
    "/jobs/j-1/chunks/0",
    "/jobs/j-1/chunks/1",
    "/jobs/j-3/chunks/1",
    "/jobs/j-3/chunks/1/calls/1",
    "/actions/redrive?job=j-1",
    "/actions/edit?job=j-1&chunk=1",
    "/actions/pause-pipeline?pipeline=word-count",
    "/jobs/unknown",
    "/questions",
    "/jobs/j-2",
    "/jobs/j-2/chunks/0/question",
    "/jobs/j-2/chunks/1/question",
)


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as driver:
        found = await driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield found
        await found.close()


@pytest.fixture
async def ended(deployment: Deployment, page: Served) -> str:
    """Return the address of the page of a job with a dead chunk."""
    job = await deployment.submit("j-1", "one", "broken", "two words")
    async with deployment.worker():
        await job.wait(timeout=20)
    return page.home


@pytest.fixture
async def questions(deployment: Deployment) -> AsyncIterator[None]:
    """Leave questions of each form open."""
    async with asking(deployment, "correct", "hi", name="j-2"):
        yield


@pytest.fixture
async def calls(deployment: Deployment) -> None:
    """Leave a chunk that died of an answer that did not fit."""
    await judged(deployment, "j-3")


async def open_page(context: BrowserContext, address: str) -> tuple[Page, list[str]]:
    """Return a signed-in tab, and the errors of its console."""
    tab, errors = await context.new_page(), []
    tab.on("console", lambda message: errors.append(message.text))
    tab.on("pageerror", lambda error: errors.append(str(error)))
    await tab.goto(f"{address}/?token={TOKEN}")
    return tab, errors


@pytest.mark.usefixtures("calls", "questions")
async def test_each_page_is_accessible_at_each_width_and_in_each_scheme(
    browser: Browser, ended: str
) -> None:
    tab, errors = await open_page(await browser.new_context(), ended)
    for path in PAGES:
        await tab.goto(ended + path)
        for width in (360, 1400):
            await tab.set_viewport_size({"width": width, "height": 900})
            wide = await tab.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{path} scrolls sideways at {width}"
        for scheme in ("light", "dark"):
            await tab.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            found = await Axe().run(tab)
            broken = [one["id"] for one in found.response["violations"]]
            assert broken == [], (path, scheme)
    assert [text for text in errors if "404" not in text] == []


async def test_another_server_on_this_host_gets_no_session_and_opens_no_page(
    browser: Browser, page: Served
) -> None:
    """Browsers send cookies to all ports of a host: only the path keeps one back."""
    cookies: list[str] = []
    attack = f"""<!doctype html><script>
      for (const path of ["/", "/jobs/j-1", "/static/live.js"])
        fetch("{page.address}" + path, {{credentials: "include", mode: "no-cors"}});
      document.title = "cookie=" + document.cookie + " from=" + document.referrer;
    </script>"""

    async def answer(request: web.Request) -> web.Response:
        cookies.append(request.headers.get("Cookie", ""))
        reply = web.Response(text=attack, content_type="text/html")
        reply.set_cookie("piecework_ui", "planted", path="/")
        return reply

    app = web.Application()
    app.router.add_route("*", "/{any:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    other = f"http://127.0.0.1:{runner.addresses[0][1]}"
    context = await browser.new_context()
    try:
        tab, _ = await open_page(context, page.address)
        assert tab.url == f"{page.home}/"
        sent = list[Sent]()
        tab.on("request", lambda one: sent.append(one))  # noqa: PLW0108 -- Playwright marks it
        # As a link on a page of the operator's would do.
        await tab.evaluate("address => { location.href = address }", f"{other}/jobs")
        await tab.wait_for_function("document.title.startsWith('cookie=')")
        await tab.wait_for_load_state("networkidle")
        title = await tab.title()
        assert (page.access.path in title, page.access.session in title) == (0, 0)
        # Its own page, below its path, may still load; no attack knows that path.
        own = page.access.path
        to_it = [one for one in sent if one.url.startswith(page.address)]
        attacks = [one for one in to_it if own not in one.url]
        assert len(attacks) == 3
        cookies += [str(await one.all_headers()) for one in attacks]
        assert not any(page.access.session in each for each in cookies)
        # The operator's own page still works beside the planted cookie.
        shown = await tab.goto(f"{page.home}/")
        assert shown is not None
        assert shown.status == 200
    finally:
        await context.close()  # a live page holds a server open
        await runner.cleanup()


async def test_a_dead_letter_is_redriven_by_keyboard(
    browser: Browser, deployment: Deployment, ended: str
) -> None:
    tab, errors = await open_page(await browser.new_context(), ended)
    await tab.goto(f"{ended}/jobs/j-1")
    await tab.get_by_role("link", name="Redrive 1 dead letter").focus()
    await tab.keyboard.press("Enter")
    await tab.wait_for_url("**/actions/redrive**")
    await tab.get_by_label("Chunks in the first wave").fill("0")
    await tab.get_by_label("Reason").fill("the parser was mended")
    deployment.mended = True
    await tab.keyboard.press("Enter")
    await tab.wait_for_url("**/tasks/1")
    assert "1 dead letter redriven." in await tab.inner_text("main")
    await tab.get_by_role("link", name="Back").click()
    await tab.wait_for_url("**/jobs/j-1")
    assert "the parser was mended" in await tab.inner_text("main")
    async with deployment.worker():
        await tab.get_by_text("SUCCEEDED · 3 of 3 chunks").wait_for(timeout=20_000)
    assert errors == []


async def test_a_question_is_answered_by_keyboard(
    browser: Browser, deployment: Deployment, page: Served
) -> None:
    async with asking(deployment, "correct", "hi") as job:
        tab, errors = await open_page(await browser.new_context(), page.home)
        await tab.get_by_role("link", name="Questions").click()
        await tab.get_by_role("link", name="sum").focus()
        await tab.keyboard.press("Enter")
        await tab.get_by_label("Amount").fill("3")
        await tab.get_by_label("Urgent").select_option("no")
        await tab.get_by_label("Reason").fill("the invoice is right")
        await tab.keyboard.press("Enter")
        await tab.wait_for_url("**/tasks/1")
        assert "The answer counts" in await tab.inner_text("main")
        await tab.goto(f"{page.home}/jobs/j-1/chunks/1/question")
        await tab.get_by_label("Reason").fill("Enter alone decides nothing")
        await tab.keyboard.press("Enter")
        await tab.get_by_text("choose to approve or to reject").wait_for()
        await tab.get_by_role("button", name="Reject").press("Enter")
        await tab.wait_for_url("**/tasks/*")
        await job.wait(timeout=20)
        results = {done.chunk: str(done.value) async for done in job.results()}  # type: ignore[union-attr]
    assert "approved=False comment='Enter alone" in results[1]
    assert [text for text in errors if "422" not in text] == []


async def test_a_pipeline_is_paused_by_keyboard_and_a_job_shows_how_to_resume_it(
    browser: Browser, deployment: Deployment, page: Served
) -> None:
    async with deployment.worker():
        await deployment.submit("j-2", "hold")
        tab, errors = await open_page(await browser.new_context(), page.home)
        await tab.goto(f"{page.home}/actions/pause-pipeline?pipeline=word-count")
        await tab.get_by_label("Reason").fill("the prompt is wrong")
        await tab.keyboard.press("Enter")
        await tab.wait_for_url("**/tasks/1")
        assert "1 job of pipeline word-count paused." in await tab.inner_text("main")
        await tab.get_by_role("link", name="Back").press("Enter")
        await tab.get_by_text("Pipeline word-count is paused:").wait_for()
        row = tab.get_by_role("row", name="word-count").filter(has_text="Resume")
        assert "PAUSED" in await row.inner_text()
        await tab.goto(f"{page.home}/jobs/j-2")
        await tab.get_by_role("link", name="Resume the pipeline").press("Enter")
        await tab.wait_for_url("**/actions/resume-pipeline**")
        await tab.get_by_label("Reason").fill("a new prompt")
        await tab.keyboard.press("Enter")
        await tab.wait_for_url("**/tasks/2")
        deployment.go_on.set()
        await deployment.client.job("j-2").wait(timeout=20)
    assert errors == []


async def test_a_selection_outlives_the_updates_of_its_page(
    browser: Browser, deployment: Deployment, page: Served
) -> None:
    for name in ("j-1", "j-2"):
        await deployment.submit(name, "hold")
    context = await browser.new_context()
    context.set_default_timeout(20_000)
    try:
        tab, errors = await open_page(context, page.home)
        box = tab.get_by_label("Select j-2")
        await box.check()
        await box.focus()
        await deployment.submit("j-3", "one")
        await tab.get_by_label("Select j-3").wait_for()  # the page has followed
        assert await box.is_checked()
        assert await box.evaluate("box => document.activeElement === box")
        pause = tab.get_by_role("group", name="With the selected jobs")
        await pause.get_by_role("button", name="Pause").click()
        await tab.get_by_text("1 job will change.").wait_for()
        await tab.get_by_label("Reason").fill("price change")
        await tab.keyboard.press("Enter")
        await tab.get_by_text("Job j-2 is PAUSED.").wait_for()
        await tab.get_by_role("link", name="Back").click()
        await tab.get_by_label("Search").fill("j-2")
        await tab.keyboard.press("Enter")
        await tab.get_by_role("link", name="Show all").wait_for()
        assert await tab.locator("td.main a").all_inner_texts() == ["j-2"]
        assert errors == []
    finally:
        await context.close()  # a live page holds a server open
