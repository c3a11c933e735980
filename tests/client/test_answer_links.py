"""Guarantee: a person answers one question by a signed link that ends with it."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
import uvicorn
from rich.console import Console

from piecework import Context, Pipeline, Stage
from piecework.client import AnswerLinks, Client
from piecework.domain.moments import iso
from piecework.errors import UsageError
from piecework.reconciler import loop
from piecework.settings import Settings
from piecework.webhooks import answer_links
from piecework_examples.approval_endpoint.app import make_app
from piecework_examples.quickstart import Paragraph
from piecework_examples.webhook_receiver.receiver import Inbox, serve
from piecework_orchestrator.cli.approvals import draw, with_link
from piecework_orchestrator.operate.webhooks import (
    Subscription,
    set_webhook,
    show_webhook,
)
from piecework_simulation.in_process import InProcessAws, worker_beside

LINKS = AnswerLinks("s" * 32, "http://127.0.0.1/answer", "acme")
ASKED: dict[str, Any] = {
    "job": "j",
    "chunk": 3,
    "stage": "publish",
    "question": "approval",
    "asked_at": iso(1_000.0),
    "until": iso(2_000.0),
    "ask": "a fact that the link does not need",
}


def token_of(link: str) -> str:
    """Return the token of a link."""
    (token,) = parse_qs(urlsplit(link).query)["answer"]
    return token


def code_of(token: str, links: AnswerLinks = LINKS) -> str:
    """Return the code of the error of a token; empty: it is valid."""
    try:
        links.read(token)
    except UsageError as error:
        return error.code
    return ""


def test_a_link_says_its_question_and_no_more() -> None:
    link = LINKS.link(ASKED, to="ada@example.com")
    said = LINKS.read(token_of(link))
    assert ("j", 3, "ada@example.com") == (said.job, said.chunk, said.to)
    assert "a fact" not in link


def test_each_changed_character_of_a_token_is_refused() -> None:
    token = token_of(LINKS.link(ASKED))
    for other in (
        AnswerLinks("t" * 32, LINKS.url),
        AnswerLinks(LINKS.secret, LINKS.url, "another tenant"),
    ):
        assert "approval.link.invalid" == code_of(token, other)
    for place, was in enumerate(token):
        changed = token[:place] + ("A" if was != "A" else "B") + token[place + 1 :]
        assert "approval.link.invalid" == code_of(changed), place
    unsigned = token.rpartition(".")[0]
    for odd in ("", ".", "a1..", "é.é", "\ud800", unsigned, token + "=", token * 9):
        assert "approval.link.invalid" == code_of(odd)


def test_a_question_is_shown_with_what_it_asks() -> None:
    shown = Console(width=100)
    steps = [{"kind": kind, "at": kind.upper()} for kind in ("ask", "remind")]
    with shown.capture() as drawn:
        draw(shown, {**ASKED, "steps": steps, "schema": {}})
    assert all(word in drawn.get() for word in ("a fact that", "REMIND"))


def test_a_token_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_links, "VERSION", "a2")
    token = token_of(LINKS.link(ASKED))
    monkeypatch.undo()
    assert "approval.link.invalid" == code_of(token)


@pytest.mark.parametrize("to", ["x" * 255, "ada\n[red]bob", "\x1b[2J"])
def test_a_name_that_no_record_should_have_is_refused(to: str) -> None:
    with pytest.raises(UsageError, match="printable"):
        LINKS.link(ASKED, to=to)
    assert "é" * 254 == LINKS.read(token_of(LINKS.link(ASKED, "é" * 254))).to


@pytest.mark.parametrize(
    ("secret", "url"), [("x1y2", LINKS.url), ("s" * 32, "ftp://x"), ("s" * 32, "/a")]
)
def test_a_weak_secret_and_an_odd_address_are_refused(secret: str, url: str) -> None:
    with pytest.raises(UsageError) as refused:
        AnswerLinks(secret, url)
    assert "approval.link.invalid" == refused.value.code
    assert secret not in str(refused.value)


async def publish(ctx: Context[Paragraph]) -> bool:
    """Ask before the text is published."""
    question = f"Publish <{ctx.payload.text}>?"
    hours = [timedelta(hours=n) for n in (20, 24)]
    answer = await ctx.wait_for(
        "approval", ask=question, timeout=hours[1], remind=hours[:1]
    )
    return answer.approved


publishing = Pipeline("publishing", payload=Paragraph, stages=[Stage(publish)])


@asynccontextmanager
async def endpoint(aws: InProcessAws) -> AsyncIterator[aiohttp.ClientSession]:
    """Run the example on a port of this machine."""
    app = make_app(LINKS, lambda: Client(runtime=aws.runtime(), actor="endpoint"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(app, log_config=None))
        serving = asyncio.create_task(server.serve([listening]))
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as http:
            yield http
        server.should_exit = True
        await serving


async def asked(client: Client) -> dict[str, Any]:
    """Return the open question as soon as there is one."""
    async with asyncio.timeout(100):
        while not (found := [each async for each in client.approvals()]):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return found[0]


async def test_a_person_answers_once_what_the_link_asks() -> None:
    aws = InProcessAws(Settings(receive_wait_s=1, cancel_poll_s=0.2))
    names = {"publishing": publishing}
    async with (
        worker_beside(aws, names, [__name__]),
        endpoint(aws) as http,
        Client(runtime=aws.runtime(), actor="tester") as client,
    ):
        job = await client.submit(publishing, [Paragraph(text="b")], id="j")
        question = await asked(client)
        link = LINKS.link(question, to="ada@example.com")
        query = f"/answer?{urlsplit(link).query}"
        for _ in range(2):  # a mail program opens the link, and answers nothing
            async with http.get(query) as page:
                assert "Publish &lt;b&gt;?" in await page.text()
            assert "no-referrer" == page.headers["Referrer-Policy"]
        for form in ({}, {"decision": "yes"}, {"decision": "?", "reason": "x"}):
            async with http.post(query, data=form) as answered:
                assert 400 == answered.status
        # A link from before a retry does not answer what was asked again after it.
        earlier = {**question, "asked_at": iso(time.time() - 3_600)}
        old = LINKS.read(token_of(LINKS.link(earlier)))
        with pytest.raises(UsageError, match="asked again") as refused:
            await client.answer_link(old, {"approved": True}, "why")
        assert "approval.question.asked_again" == refused.value.code
        again = f"/answer?{urlsplit(LINKS.link(earlier)).query}"
        async with http.get(again) as answered:
            assert 409 == answered.status
        assert "OPEN" == (await asked(client))["state"]

        yes = {"decision": "yes", "reason": "it is right"}
        replies = await asyncio.gather(
            http.post(query, data=yes), http.post(query, data=yes)
        )
        assert [200, 409] == sorted(reply.status for reply in replies)
        (late,) = [await reply.text() for reply in replies if reply.status == 409]
        assert "ada@example.com (by link) answered" in late
        async with http.get(f"{query}x") as answered:
            assert 403 == answered.status
        elsewhere = urlsplit(LINKS.link({**question, "job": "none"})).query
        async with http.get(f"/answer?{elsewhere}") as answered:
            assert 404 == answered.status
        await job.wait()
        assert [True] == [done.value async for done in job.results()]  # type: ignore[union-attr]
        told = await job.events()
        (answered,) = [each for each in told if each["event"] == "answered"]
        assert "ada@example.com (by link)" in str(answered)


def test_an_open_question_is_shown_with_its_link(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PIECEWORK_WEBHOOK_ANSWER_SECRET", LINKS.secret)
    on, off = Settings(answer_url=LINKS.url, tenant=LINKS.tenant), Settings()
    url = with_link(ASKED, on, "ada")["answer_url"]
    assert ("j", "ada") == (LINKS.read(token_of(url)).job, LINKS.read(token_of(url)).to)
    assert ASKED == with_link(ASKED, off, "")
    with pytest.raises(UsageError, match="PIECEWORK_ANSWER_URL"):
        with_link(ASKED, off, "ada")
    ended = {**ASKED, "outcome": "ada answered"}
    assert ended == with_link(ended, on, "ada")


async def test_the_link_of_a_webhook_answers_and_then_says_what_was_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIECEWORK_WEBHOOK_SECRET", "w" * 32)
    monkeypatch.setattr(loop, "IDLE_S", 0.2)  # an idle reconciler looks that often
    settings = Settings(
        receive_wait_s=1, cancel_poll_s=0.2, reconcile_s=0.2, answer_url=LINKS.url
    )
    aws, inbox = InProcessAws(settings), Inbox.open(tmp_path / "events.db")
    aws.settings = replace(settings, tenant=LINKS.tenant)
    rt = aws.runtime()
    receiver = serve("w" * 32, tmp_path / "events.db")
    url = f"http://127.0.0.1:{receiver.server_port}/"
    threading.Thread(target=receiver.serve_forever, args=(0.02,), daemon=True).start()
    async with (
        endpoint(aws) as http,
        Client(runtime=rt, actor="tester") as client,
    ):
        hook = Subscription("ops", url, "env:PIECEWORK_WEBHOOK_SECRET")
        await set_webhook(rt, hook, "tester")
        job = await client.submit(publishing, [Paragraph(text="b")], id="j")
        aws.settings = settings  # the reconciler is of another tenant
        async with worker_beside(aws, {"publishing": publishing}, [__name__]):
            await asked(client)
            missing = "no variable PIECEWORK_WEBHOOK_ANSWER_SECRET"
            async with asyncio.timeout(100):
                while missing not in str(await show_webhook(rt, "ops")):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
                monkeypatch.setenv("PIECEWORK_WEBHOOK_ANSWER_SECRET", LINKS.secret)
                while not inbox.bodies():  # noqa: ASYNC110 -- of another thread
                    await asyncio.sleep(0.05)
            query = urlsplit(inbox.bodies()[0]["data"]["answer_url"]).query
            assert query not in str(aws.dynamodb.tables)
            yes = {"decision": "yes", "reason": "it is right"}
            async with http.post(f"/answer?{query}", data=yes) as answered:
                assert 200 == answered.status
            await job.wait()
        async with http.get(f"/answer?{query}") as page:
            assert 410 == page.status
            assert "endpoint answered" in await page.text()
    receiver.shutdown()
    receiver.server_close()
