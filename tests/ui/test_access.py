"""Guarantee: only the operator's own browser reaches the page and changes things."""

from __future__ import annotations

from dataclasses import replace

import aiohttp
import pytest

from piecework.errors import UsageError
from piecework_orchestrator.ui.access import (
    Access,
    Request,
    Verdict,
    make_access,
)
from tests.ui.conftest import TOKEN, Deployment, Page, serve

HOST = "127.0.0.1:8321"
SESSION, PATH = "a-session-of-the-test", "a-path-of-the-test"
ACCESS = Access(frozenset({HOST}), TOKEN, True, True, SESSION, PATH)  # noqa: FBT003
EVIL = "http://evil.example"
OPEN = {"path": PATH, "cookie": SESSION}
OWN = Request("POST", HOST, f"http://{HOST}", **OPEN)


@pytest.mark.parametrize(
    ("request_", "verdict"),
    [
        (Request("GET", HOST), Verdict.NO_SESSION),
        (Request("GET", HOST, path=PATH), Verdict.NO_SESSION),
        (Request("GET", HOST, cookie=SESSION), Verdict.NO_SESSION),
        (Request("GET", HOST, path=PATH[:-1], cookie=SESSION), Verdict.NO_SESSION),
        (Request("GET", HOST, path=PATH, cookie=SESSION[:-1]), Verdict.NO_SESSION),
        (Request("GET", HOST, path=PATH, cookie="é"), Verdict.NO_SESSION),
        (Request("GET", HOST, path=PATH, cookie=TOKEN), Verdict.NO_SESSION),
        (Request("GET", HOST, token=SESSION), Verdict.NO_SESSION),
        (Request("GET", HOST, token=TOKEN), Verdict.SIGN_IN),
        (Request("POST", HOST, f"http://{HOST}", token=TOKEN), Verdict.NO_SESSION),
        (Request("GET", HOST, **OPEN), Verdict.ALLOW),
        (Request("GET", "evil.example", **OPEN), Verdict.WRONG_HOST),
        (Request("GET", "evil.example", token=TOKEN), Verdict.WRONG_HOST),
        (Request("GET", "", **OPEN), Verdict.WRONG_HOST),
        (OWN, Verdict.ALLOW),
        (Request("POST", HOST, EVIL, **OPEN), Verdict.FOREIGN_FORM),
        (Request("POST", HOST, "http://127.0.0.1:1", **OPEN), Verdict.FOREIGN_FORM),
        (Request("POST", HOST, "null", **OPEN), Verdict.FOREIGN_FORM),
        (Request("POST", HOST, **OPEN), Verdict.FOREIGN_FORM),
    ],
    ids=str,
)
def test_each_request_has_its_verdict(request_: Request, verdict: Verdict) -> None:
    assert ACCESS.judge(request_) is verdict


def test_a_page_that_only_reads_refuses_changes() -> None:
    reading = replace(ACCESS, actions=False)
    assert reading.judge(OWN) is Verdict.READ_ONLY
    assert reading.judge(Request("GET", HOST, **OPEN)) is Verdict.ALLOW


@pytest.mark.parametrize(
    ("host", "more"),
    [
        ("127.0.0.1", set()),
        ("localhost", set()),
        ("::1", set()),
        ("127.0.0.2", {"127.0.0.2:8321"}),
    ],
)
def test_loopback_allows_all_with_a_token_of_its_own(host: str, more: set[str]) -> None:
    access = make_access((host, 8321), "")
    assert (access.actions, access.payloads, len(access.token)) == (True, True, 43)
    assert access.hosts == {HOST, "localhost:8321", "[::1]:8321"} | more
    again = make_access((host, 8321), access.token)
    secrets = {access.token, access.session, access.path, again.session, again.path}
    assert len(secrets) == 5
    assert min(len(each) for each in secrets) >= 22  # 128 bits


def test_elsewhere_the_page_only_reads_and_hides_payloads() -> None:
    access = make_access(("10.0.0.5", 80), TOKEN, allowed_hosts=["Ops.example"])
    assert (access.actions, access.payloads) == (False, False)
    assert access.hosts == {"10.0.0.5:80", "10.0.0.5", "ops.example"}
    for host, sent in (("fd00::1", "[fd00::1]:8321"), ("Ops-1", "ops-1:8321")):
        assert make_access((host, 8321), TOKEN).hosts == {sent}
    both = {"allow_actions": True, "show_payloads": True}
    opened = make_access(("10.0.0.5", 80), TOKEN, **both)
    assert (opened.actions, opened.payloads) == (True, True)


@pytest.mark.parametrize("token", ["", "short"])
def test_elsewhere_a_long_token_is_required(token: str) -> None:
    with pytest.raises(UsageError) as refused:
        make_access(("0.0.0.0", 80), token)  # noqa: S104 -- it is refused
    assert refused.value.code == "cli.usage.invalid"


@pytest.mark.parametrize("path", ["/", "/jobs/j-1"])
async def test_the_token_leaves_the_address_for_a_session_below_its_own_path(
    page: Page, path: str
) -> None:
    page.http.cookie_jar.clear()
    assert (await page.get("/static/live.js"))[0] == 401
    for base in ("", page.access.base):
        address = f"{base}{path}?token={TOKEN}&x=1"
        async with page.http.get(address, allow_redirects=False) as reply:
            assert reply.status == 303
            assert reply.headers["Location"] == f"{page.access.base}{path}?x=1"
            cookie = reply.cookies[page.access.cookie]
        assert (cookie["path"], cookie["samesite"]) == (page.access.base, "strict")
        assert cookie["httponly"]
        assert TOKEN not in str(cookie.value)
        assert not cookie["domain"]


async def test_the_session_opens_nothing_outside_of_its_path(page: Page) -> None:
    session = {page.access.cookie: page.access.session}
    async with aiohttp.ClientSession(cookies=session) as thief:
        for path in ("/", "/jobs/j-1", "/static/live.js", "/another-path/"):
            async with thief.get(page.address + path) as reply:
                assert (reply.status, page.access.path in await reply.text()) == (
                    401,
                    False,
                )
        async with thief.get(f"{page.home}/") as reply:
            assert reply.status == 200  # both are needed, and both are enough


async def test_every_answer_forbids_foreign_scripts_and_frames(page: Page) -> None:
    for path in ("/", "/static/live.js", "/nowhere"):
        async with page.http.get(page.home + path) as reply:
            policy = reply.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert reply.headers["Cache-Control"] == "no-store"


async def test_a_form_of_another_start_changes_nothing(
    deployment: Deployment, page: Page
) -> None:
    job = await deployment.submit("j-1", "one")
    path = "/actions/cancel?job=j-1"
    refused = await page.post(path, reason="x", form_token="0" * 64)
    assert refused[0] == 403
    assert (await page.post(path, origin=EVIL, reason="x"))[0] == 403
    assert (await job.facts()).status == "RUNNING"


async def test_hidden_payloads_are_on_no_page(deployment: Deployment) -> None:
    await deployment.submit("j-1", "a secret text", "broken secret text")
    async with deployment.worker():
        await deployment.client.job("j-1").wait(timeout=20)
    async with serve(deployment.client, actions=False, payloads=False) as page:
        await page.get(f"/?token={TOKEN}")
        for path in (
            "/",
            "/dead-letters",
            "/jobs/j-1",
            "/jobs/j-1/report.html",
            "/jobs/j-1/chunks/0",
            "/jobs/j-1/chunks/1",
        ):
            status, text = await page.get(path)
            assert (status, "secret" in text, "/actions/" in text) == (200, 0, 0)
        assert (await page.get("/jobs/j-1/results"))[0] == 403
        assert (await page.get("/actions/retry?job=j-1"))[0] == 403
        assert (await page.post("/actions/retry?job=j-1", reason="x"))[0] == 403
    async with serve(deployment.client, payloads=False) as page:
        await page.get(f"/?token={TOKEN}")
        status, text = await page.get("/actions/edit?job=j-1&chunk=1")
        assert (status, "secret" in text) == (403, False)
