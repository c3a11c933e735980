"""The pages as an ASGI application: routes, and the guard before them.

`make_app` takes an open client; it opens no port.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from piecework.domain.moments import iso
from piecework.domain.tags import tags_text
from piecework.errors import PieceworkError
from piecework_orchestrator.client import Client
from piecework_orchestrator.dead_letters.letters import chunk_name
from piecework_orchestrator.reading.numbers import dollars
from piecework_orchestrator.reading.times import (
    count,
    format_ago,
    format_between,
    format_span,
)
from piecework_orchestrator.ui.access import (
    SECURITY_HEADERS,
    Access,
    Request,
    Verdict,
)
from piecework_orchestrator.ui.job_search import SPANS, STATUSES
from piecework_orchestrator.ui.pages import Pages
from piecework_orchestrator.ui.tasks import Tasks

HERE: Final = Path(__file__).parent
#: From here on a number is written without a fraction.
ROUNDED = 10
#: The status and the text of a refusal.
REFUSALS: Final = {
    Verdict.WRONG_HOST: (421, "This address does not lead to this page."),
    Verdict.NO_SESSION: (401, "Open the address that `piecework ui` printed."),
    Verdict.FOREIGN_FORM: (403, "The form is not from this page. Load the page again."),
    Verdict.READ_ONLY: (403, "This page only reads. Start it with --allow-actions."),
}


def make_app(client: Client, access: Access, poll_s: float | None = None) -> Starlette:
    """Return the application; `poll_s` is as in `Pacing`."""
    tasks, environment = Tasks(), make_environment(client, access.base)
    pages = Pages(client, access, tasks, environment, poll_s)
    own = [
        Route("/", pages.overview),
        Route("/live", pages.overview_live),
        Route("/jobs/{job}", pages.job),
        Route("/jobs/{job}/live", pages.live),
        Route("/jobs/{job}/report.html", pages.report),
        Route("/jobs/{job}/results", pages.results),
        Route("/jobs/{job}/find", pages.find),
        Route("/jobs/{job}/chunks/{chunk:int}", pages.chunk),
        Route("/jobs/{job}/chunks/{chunk:int}/calls/{call:int}", pages.call),
        Route("/jobs/{job}/chunks/{chunk}/question", pages.question),
        Route("/questions", pages.questions),
        Route("/dead-letters", pages.dead_letters),
        Route("/causes/{fingerprint}", pages.cause),
        Route("/batches", pages.batches),
        Route("/workers", pages.workers),
        Route("/actions/{action}", pages.action, methods=["GET", "POST"]),
        Route("/tasks/{task:int}", pages.task),
        Mount("/static", StaticFiles(directory=HERE / "static")),
    ]
    handlers: dict[Any, Callable[[HttpRequest, Exception], Awaitable[Response]]] = {
        PieceworkError: pages.error,
        HTTPException: pages.http_error,
    }

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await tasks.close()

    guard = Middleware(Guard, access=access)
    return Starlette(
        routes=[Mount(access.base, routes=own)],
        middleware=[guard],
        exception_handlers=handlers,
        lifespan=lifespan,
    )


def make_environment(client: Client, base: str) -> Environment:
    """Return the environment of the templates; every value is escaped.

    `base`: what every address of the page starts with.
    """
    clock = client.runtime.clock
    found = Environment(
        loader=PackageLoader("piecework_orchestrator.ui"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "ago": lambda moment: format_ago(moment, clock()),
        "amount": amount,
        "chunk": chunk_name,
        "clock": lambda moment: clock_of(moment, clock()),
        "count": count,
        "money": dollars,
        "number": "{:,}".format,
        "span": format_span,
        "tagged": tags_text,
        "ticks": ticks,
        "used": used,
        "words": words,
        "compact": lambda value: json.dumps(value, ensure_ascii=False),
        "pretty": lambda value: json.dumps(value, indent=2, ensure_ascii=False),
    }
    found.globals |= {"base": base, "between": format_between}
    found.globals |= {"spans": SPANS, "statuses": STATUSES}
    return found


# ── what the templates write ──────────────────────────────────────────────────


def clock_of(moment: str, now: float) -> str:
    """Return an ISO time as a clock shows it in UTC, with the day if it is another."""
    day, clock = moment[:10], moment[11:19]
    return f"{clock} UTC" if day == iso(now)[:10] else f"{day} {clock[:5]} UTC"


def amount(number: float) -> str:
    """Return a number of any size in three figures or more."""
    return f"{number:,.0f}" if number >= ROUNDED else f"{number:.2g}"


def used(number: float, kind: str) -> str:
    """Return an amount of `usd` or of `tokens` with its unit."""
    return dollars(number) if kind == "usd" else count(round(number), "token")


def words(found: Any) -> Any:
    """Return a map or a list as people write it; any other value as it is."""
    if isinstance(found, Mapping):
        return ", ".join(f"{words(each)} {name}" for name, each in found.items())
    if isinstance(found, list | tuple | set | frozenset):
        return ", ".join(str(words(each)) for each in found)
    return found


def ticks(text: str) -> Markup:
    """Return a text, escaped, with code for what is between backticks."""
    parts = escape(text).split("`")
    words = (
        Markup("<code>%s</code>") % part if place % 2 else part
        for place, part in enumerate(parts)
    )
    return Markup("").join(words)


class Guard:
    """Answers only the requests that `Access.judge` allows, with safe headers."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app = app
        self.access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Judge a request; hand an allowed one on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._refusal(HttpRequest(scope))
        await (answer or self.app)(scope, receive, send_safely)

    def _refusal(self, request: HttpRequest) -> Response | None:
        """Return the answer to a request that goes no further."""
        origin = request.headers.get("origin", "")
        seen = Request(
            request.method,
            request.headers.get("host", ""),
            origin,
            first_part(request.url.path),
            request.query_params.get("token", ""),
            request.cookies.get(self.access.cookie, ""),
        )
        verdict = self.access.judge(seen)
        if verdict is Verdict.ALLOW:
            return None
        if verdict is Verdict.SIGN_IN:
            return self._sign_in(request)
        status, text = REFUSALS[verdict]
        page = f"<!doctype html><title>{status}</title><p>{text}</p>"
        return HTMLResponse(page, status)

    def _sign_in(self, request: HttpRequest) -> Response:
        """Set the cookie, and lead to the same page below this start's path."""
        address = request.url.remove_query_params("token")
        is_own = first_part(address.path) == self.access.path
        path = address.path if is_own else self.access.base + address.path
        answer = RedirectResponse(path + f"?{address.query}" * bool(address.query), 303)
        answer.set_cookie(
            self.access.cookie,
            self.access.session,
            path=self.access.base,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer


def first_part(path: str) -> str:
    """Return the first part of a path, without slashes."""
    return path.removeprefix("/").partition("/")[0]
