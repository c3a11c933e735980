"""The page on a port of this machine, with seeded jobs on the models of AWS."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from random import Random

import aiohttp
import pytest
import uvicorn

from piecework import Context, PermanentError, Pipeline, Stage
from piecework.client import Client, JobHandle
from piecework.settings import Settings
from piecework_examples.quickstart import Paragraph
from piecework_orchestrator.ui.access import Access, make_access
from piecework_orchestrator.ui.app import make_app
from piecework_simulation.in_process import InProcessAws, worker_beside

TOKEN = "a-token-of-the-test"
#: A payload that would run in a page that does not escape it.
SCRIPT = "<script>alert(1)</script>"


@dataclass
class Deployment:
    """Jobs on the models of AWS, and a worker that a test can hold or mend."""

    aws: InProcessAws
    client: Client
    mended: bool = False
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def count(self, ctx: Context[Paragraph]) -> int:
        """Count words; fail on `broken` until it is mended, wait on `hold`."""
        text = ctx.payload.text
        if text == "hold":
            await self.go_on.wait()
        if text.startswith("broken") and not self.mended:
            message = f"cannot count {SCRIPT}"
            raise PermanentError(message)
        return len(text.split())

    @property
    def pipeline(self) -> Pipeline[Paragraph]:
        """The pipeline of the jobs."""
        stages = [Stage(self.count, name="count")]
        return Pipeline("word-count", payload=Paragraph, stages=stages)

    async def submit(self, job: str, *texts: str, pin: bool = False) -> JobHandle[int]:
        """Submit paragraphs."""
        rows = [Paragraph(text=text) for text in texts]
        return await self.client.submit(
            self.pipeline, rows, id=job, budget_tokens=7_000, pin=pin
        )

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[None]:
        """Run a worker."""
        async with worker_beside(self.aws, {"word-count": self.pipeline}, [__name__]):
            yield


@dataclass
class Page:
    """The page of one start, as a browser with its token reaches it."""

    http: aiohttp.ClientSession
    address: str
    access: Access

    @property
    def home(self) -> str:
        """The address of the first page, without the slash at its end."""
        return self.address + self.access.base

    async def get(self, path: str, **request: object) -> tuple[int, str]:
        """Return status and text of an address below the path of this start."""
        path = self.access.base + path
        async with self.http.get(path, **request) as reply:  # type: ignore[arg-type]
            return reply.status, await reply.text()

    async def post(
        self, path: str, origin: str | None = None, **fields: str
    ) -> tuple[int, str]:
        """Send a form as the page does, and return the answer to it."""
        form = {"form_token": self.access.form_token, **fields}
        headers = {"Origin": origin or self.address}
        path = self.access.base + path
        async with self.http.post(path, data=form, headers=headers) as reply:
            return reply.status, await reply.text()


def kept_in(form: str, name: str) -> str:
    """Return the value of a hidden field of a form; empty: it has none."""
    _, _, rest = form.partition(f'name="{name}" value="')
    return rest.partition('"')[0]


@pytest.fixture
async def deployment() -> AsyncIterator[Deployment]:
    settings = Settings(receive_wait_s=1, cancel_poll_s=0.2)
    aws = InProcessAws(settings, rng=Random(7))
    async with Client(runtime=aws.runtime(), actor="ann@desk") as client:
        yield Deployment(aws, client)


@asynccontextmanager
async def serve(client: Client, **changes: bool) -> AsyncIterator[Page]:
    """Serve the page; `changes`: to what a start on loopback allows."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        access = replace(make_access(("127.0.0.1", port), TOKEN), **changes)
        config = uvicorn.Config(make_app(client, access), log_config=None)
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve([listening]))
        address = f"http://127.0.0.1:{port}"
        jar = aiohttp.CookieJar(unsafe=True)  # it keeps cookies of an IP address
        async with aiohttp.ClientSession(address, cookie_jar=jar) as http:
            yield Page(http, address, access)
        server.should_exit = True
        await serving


@pytest.fixture
async def page(deployment: Deployment) -> AsyncIterator[Page]:
    async with serve(deployment.client) as found:
        status, _ = await found.get(f"/?token={TOKEN}")
        assert status == 200
        yield found
