"""Guarantee: a web service submits jobs once, streams results, resumes and cancels."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
import pytest
import uvicorn

from piecework import Context, PermanentError, Stage
from piecework.client import Client
from piecework.declared import as_pipeline
from piecework.errors import StoreError
from piecework.settings import Settings
from piecework_examples.quickstart import Paragraph, word_count
from piecework_examples.service.app import make_app
from piecework_examples.service.errors import status_of
from piecework_simulation.in_process import InProcessAws, ModelClient, worker_beside
from tests.docs.pages import ROOT, fenced

Event = tuple[str, str, Any]


@dataclass
class Service:
    """The service on a port of this machine, and a worker whose chunks it can hold."""

    aws: InProcessAws
    http: aiohttp.ClientSession
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, method: str, path: str, **request: Any) -> tuple[int, Any]:
        """Return status and JSON of an answer."""
        async with self.http.request(method, path, **request) as reply:
            return reply.status, await reply.json()

    async def post(self, key: str, *texts: str) -> tuple[int, Any]:
        """Submit paragraphs under a key."""
        rows = [{"text": text} for text in texts]
        headers = {"Idempotency-Key": key}
        return await self.ask("POST", "/jobs", json=rows, headers=headers)

    async def events(self, job: str, after: str = "") -> AsyncIterator[Event]:
        """Yield kind, id and data of the events of a stream."""
        headers = {"Last-Event-ID": after} if after else {}
        async with self.http.get(f"/jobs/{job}/results", headers=headers) as reply:
            assert reply.headers["Content-Type"].startswith("text/event-stream")
            fields: dict[str, str] = {}
            async for line in reply.content:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name:
                    fields[name] = value
                elif fields:
                    yield fields["event"], fields["id"], json.loads(fields["data"])
                    fields = {}

    async def count(self, ctx: Context[Paragraph]) -> int:
        """Count words as the quickstart does, or as a test wants it."""
        if ctx.payload.text == "hold":
            await self.go_on.wait()
        if ctx.payload.text == "broken":
            raise PermanentError("this text cannot be counted")
        return len(ctx.payload.text.split())

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[None]:
        """Run a worker."""
        declared = as_pipeline(word_count)
        pipeline = replace(declared, stages=[Stage(self.count, name="word_count")])
        async with worker_beside(self.aws, {"word-count": pipeline}, [__name__]):
            yield


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    aws = InProcessAws(Settings(receive_wait_s=1, cancel_poll_s=0.2))
    app = make_app(lambda: Client(runtime=aws.runtime(), actor="service"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(app, log_config=None))
        serving = asyncio.create_task(server.serve([listening]))
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as http:
            yield Service(aws, http)
        server.should_exit = True
        await serving


async def test_a_repeated_request_returns_the_same_job(service: Service) -> None:
    assert await service.post("k-1", "a b") == (202, {"job": "k-1", "created": True})
    assert await service.post("k-1", "a b") == (202, {"job": "k-1", "created": False})
    status, refused = await service.post("k-1", "another text")
    assert (status, refused["error"]["code"]) == (409, "submit.token.conflict")
    _, shown = await service.ask("GET", "/jobs/k-1")
    assert shown == {
        "job": "k-1",
        "status": "RUNNING",
        "chunks": 1,
        "counts": {"PENDING": 1},
        "dead_letters": 0,
    }
    assert await service.aws.runtime().work.default.depth() == 1


async def test_a_client_that_disconnects_resumes_its_stream(service: Service) -> None:
    await service.post("k-1", "one two", "hold", "broken")
    async with service.worker():
        stream = service.events("k-1")
        early = [await anext(stream), await anext(stream)]
        await stream.aclose()  # while the second chunk still runs
        _, shown = await service.ask("GET", "/jobs/k-1")
        assert shown["status"] == "RUNNING"
        service.go_on.set()
        late = [event async for event in service.events("k-1", after=early[-1][1])]
        everything = [event async for event in service.events("k-1")]

    by_chunk = {data["chunk"]: (kind, data) for kind, _, data in early}
    assert by_chunk[0] == (
        "done",
        {"chunk": 0, "label": by_chunk[0][1]["label"], "value": 2},
    )
    kind, failed = by_chunk[2]
    assert (kind, failed["error"]) == (
        "failed",
        {"code": "runtime.stage.permanent", "message": "this text cannot be counted"},
    )
    assert [(kind, data.get("chunk")) for kind, _, data in late] == [
        ("done", 1),
        ("end", None),
    ]
    assert late[-1][2]["status"] == "PARTIAL"
    assert sorted(data.get("chunk", -1) for _, _, data in everything) == [-1, 0, 1, 2]
    again = {"Last-Event-ID": late[-1][1]}
    async with service.http.get("/jobs/k-1/results", headers=again) as reply:
        assert reply.status == 204


async def test_a_cancelled_job_ends_its_stream(service: Service) -> None:
    await service.post("k-1", "hold")
    async with service.worker():
        status, _ = await service.ask("DELETE", "/jobs/k-1")
        events = [event async for event in service.events("k-1")]
    assert status == 202
    assert [kind for kind, _, _ in events] == ["failed", "end"]
    assert events[0][2]["error"]["code"] == "job.cancel.requested"
    assert events[1][2]["status"] == "CANCELLED"
    assert (await service.ask("DELETE", "/jobs/k-1"))[0] == 202  # also repeated


KEY = {"Idempotency-Key": "k-1"}


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status", "code"),
    [
        ("GET", "/jobs/none", None, {}, 404, "job.record.not_found"),
        ("GET", "/jobs/none/results", None, {}, 404, "job.record.not_found"),
        ("DELETE", "/jobs/none", None, {}, 404, "job.record.not_found"),
        ("POST", "/jobs", [{"texts": "a"}], KEY, 422, "input.payload.invalid"),
        ("POST", "/jobs", [{"text": "a"}], {}, 422, "input.payload.invalid"),
        ("POST", "/jobs", [], KEY, 422, "input.rows.empty"),
        (
            "POST",
            "/jobs",
            [{"text": "a"}],
            {"Idempotency-Key": "a/b"},
            422,
            "cli.usage.invalid",
        ),
        *(
            (
                "GET",
                "/jobs/known/results",
                None,
                {"Last-Event-ID": event},
                422,
                "cli.usage.invalid",
            )
            for event in ("x", "1.-5.", "1.2.3,,4", "1.99999999999.", "1.٣.")
        ),
    ],
)
async def test_a_wrong_request_is_answered_with_its_code(
    service: Service,
    method: str,
    path: str,
    body: Any,
    headers: dict[str, str],
    status: int,
    code: str,
) -> None:
    await service.post("known", "a b")
    answered, answer = await service.ask(method, path, json=body, headers=headers)
    assert (answered, answer["error"]["code"]) == (status, code)
    assert answer["error"]["next_step"]


async def test_an_outage_of_aws_names_no_table(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def out_of_reach(*_: Any, **__: Any) -> None:
        message = "piecework-prod-checkpoints could not be reached."
        raise StoreError(message, code="aws.endpoint.unreachable")

    monkeypatch.setattr(ModelClient, "send", out_of_reach)
    async with service.http.get("/jobs/k-1") as reply:
        assert reply.status == 503
        assert reply.headers["Retry-After"] == "5"
        assert await reply.json() == {"error": {"code": "aws.endpoint.unreachable"}}


def test_a_fault_of_aws_or_of_the_service_is_not_the_clients() -> None:
    assert status_of("aws.endpoint.unreachable") == 503
    assert status_of("config.setting.invalid") == 500
    assert status_of("runtime.state.checkpoint_corrupt") == 500


def test_the_page_shows_the_code_of_the_service() -> None:
    service = ROOT / "examples/piecework_examples/service"
    source = "".join(path.read_text("utf-8") for path in service.glob("*.py"))
    shown = fenced(ROOT / "docs/service.md", "python")
    assert len(shown) == 3
    assert all(block in source for block in shown)
