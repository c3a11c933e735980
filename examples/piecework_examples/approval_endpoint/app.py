"""A page where a person answers one question of a stage, by a signed link.

pip install fastapi uvicorn
export PIECEWORK_WEBHOOK_ANSWER_SECRET=…  # 32 characters or more
export PIECEWORK_ANSWER_URL=https://acme.example/answer
uvicorn --factory piecework_examples.approval_endpoint.app:app

With the same two variables the reconciler adds the link to the webhook events of a
question. Or make links where you send your mails, each for its person:

question = await client.job(job).question(chunk)
links.link(question, to="ada@example.com")

The page asks before it answers: mail programs open links by themselves, to check them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from html import escape
from typing import Any
from urllib.parse import parse_qs

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse

from piecework import Approval
from piecework.client import AnswerLinks, Client
from piecework.errors import NotFoundError, PieceworkError
from piecework.settings import load_settings

#: No script, no frame and no other site sees the page. No referrer has the link.
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
}
#: A form is smaller.
MAX_BYTES = 64 * 1024
FORM = """<form method="post">
<p><label>Reason <input name="reason" required maxlength="500"></label></p>
<p><button name="decision" value="yes">Approve</button>
<button name="decision" value="no">Reject</button></p>
</form>"""


def make_app(links: AnswerLinks, open_client: Callable[[], Client] = Client) -> FastAPI:
    """Return the endpoint; each process of it has one client."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_client() as client:
            app.state.client = client
            yield

    app = FastAPI(title="Approvals", lifespan=lifespan)

    @app.get("/answer")
    async def ask(request: Request, answer: str = "") -> HTMLResponse:
        """Show the question; this answers nothing."""
        link = links.read(answer)
        question = await request.app.state.client.linked_question(link)
        if "outcome" in question:
            return page("This question has ended.", text_of(question), 410)
        if "approved" not in question["schema"].get("properties", {}):
            return page("This question needs a form of its own.", text_of(question))
        return page("Your decision", text_of(question) + FORM)

    @app.post("/answer")
    async def decide(request: Request, answer: str = "") -> HTMLResponse:
        """Answer the question once, with a reason."""
        link = links.read(answer)
        form = parse_qs((await request.body())[:MAX_BYTES].decode(errors="replace"))
        decision, reason = (form.get(name, [""])[0] for name in ("decision", "reason"))
        if decision not in {"yes", "no"} or not reason.strip():
            return page("Choose an answer and give a reason.", FORM, status=400)
        value = Approval(approved=decision == "yes", comment=reason)
        client = request.app.state.client
        return page(
            "Thank you.", text_of(await client.answer_link(link, value, reason))
        )

    @app.exception_handler(PieceworkError)
    async def refuse(_: Request, error: PieceworkError) -> HTMLResponse:
        """Say why a link or an answer does not count, and what was decided."""
        codes = {"approval.link.invalid": 403, "approval.question.timed_out": 410}
        unknown = 404 if isinstance(error, NotFoundError) else 409
        status = codes.get(error.code, unknown)
        return page(
            "This answer does not count.", f"<p>{escape(str(error))}</p>", status
        )

    return app


def text_of(question: dict[str, Any]) -> str:
    """Return what the stage asks, and after the end what was decided, by whom."""
    told = f"<p>{escape(str(question['ask']))}</p>"
    if "outcome" in question:
        told += f"<p>Decided: {escape(question['outcome'])}.</p>"
    return told


def page(title: str, body: str, status: int = 200) -> HTMLResponse:
    """Return a small page of its own."""
    head = '<!doctype html><html lang="en"><meta charset="utf-8">'
    head += '<meta name="viewport" content="width=device-width">'
    text = f"{head}<title>{title}</title><h1>{title}</h1>{body}</html>"
    return HTMLResponse(text, status, HEADERS)


def app() -> FastAPI:
    """Return the endpoint of this process: `uvicorn --factory …:app`."""
    links = AnswerLinks.configured(load_settings())
    if links is None:
        message = "Set PIECEWORK_ANSWER_URL to the address of this endpoint."
        raise SystemExit(message)
    return make_app(links)
