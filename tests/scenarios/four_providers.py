"""A pipeline that asks four providers in the batch lane, and their stubs.

The stubs are behind the adapters of OpenAI, Anthropic, Bedrock and Gemini, and the
SDKs of the first three. A small client speaks the wire of Gemini, whose SDK is in the
environment of `make beside` alone. No request leaves the process.
"""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import anthropic
import boto3
import openai
from botocore.awsrequest import AWSResponse
from pydantic import BaseModel

from piecework import pipeline
from piecework.llm import (
    BedrockBatches,
    Lane,
    Model,
    ModelAnswer,
    ModelRequest,
    Price,
    anthropic_messages,
    bedrock_converse,
    gemini_content,
    openai_chat,
)
from piecework.llm.adapters import Adapter
from tests.providers.anthropic_stub import AnthropicStub
from tests.providers.bedrock_stub import BedrockStub
from tests.providers.gemini_stub import GeminiStub
from tests.providers.openai_stub import OpenAIStub
from tests.providers.serving import unplugged
from tests.providers.stub import Asked, Reply, Stub

PRICE = Price(input=0.25, output=2.0, tiers={"batch": 0.5})
NAMES = ("openai", "anthropic", "bedrock", "gemini")


class GeminiError(Exception):
    """An error of Gemini, with the fields of its SDK."""

    def __init__(self, status: int) -> None:
        super().__init__(f"Gemini returned {status}.")
        self.code = self.status_code = status


@dataclass(frozen=True)
class Plugless:
    """A plain client of AWS whose requests a stub serves without a socket."""

    stub: Stub

    def client(self, service: str) -> Any:
        """Return a client of a service."""
        session = boto3.Session("k", "s", region_name="eu-west-1")
        found = session.client(service, endpoint_url="http://stub")
        found.meta.events.register("before-send", self.serve)
        return found

    def serve(self, request: Any, **_: Any) -> AWSResponse:
        """Answer a prepared request."""
        place = urlsplit(request.url)
        body = request.body or b""
        asked = Asked(
            request.method,
            unquote(place.path),
            dict(parse_qsl(place.query)),
            {k.lower(): as_text(v) for k, v in request.headers.items()},
            body if isinstance(body, bytes) else body.read(),
        )
        self.stub.asked.append((asked.method, asked.path))
        reply: Reply = self.stub.serve(asked)
        raw = Raw(b"".join(reply.parts))
        return AWSResponse(request.url, reply.status, dict(reply.headers), raw)


def as_text(value: Any) -> str:
    """Return the value of a header."""
    return value.decode() if isinstance(value, bytes) else str(value)


class Raw(io.BytesIO):
    """The body of a response, as botocore reads it."""

    def stream(self, *_: Any, **__: Any) -> Any:
        """Yield it whole."""
        yield self.read()


@dataclass(frozen=True)
class GeminiClient:
    """The part of Gemini's client that the adapter uses, on the wire of its stub."""

    stub: GeminiStub

    @property
    def aio(self) -> Any:
        """The asynchronous client: this one."""
        return SimpleNamespace(batches=self, files=self, models=self)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request; return what came."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        place = urlsplit(path)
        query = dict(parse_qsl(place.query))
        self.stub.asked.append((method, place.path))
        reply = self.stub.serve(Asked(method, place.path, query, {}, content))
        if reply.status >= 400:
            raise GeminiError(reply.status)
        if reply.lines is not None:
            return b"".join(reply.lines)
        return reply.value

    async def upload(self, file: Any, config: Mapping[str, Any]) -> Any:
        """Upload a file."""
        del config
        number = len(self.stub.files)
        said = self.ask("POST", f"/upload/v1beta/files/{number}", file.read())
        return SimpleNamespace(name=said["file"]["name"])

    async def create(self, model: str, src: str, config: Mapping[str, Any]) -> Any:
        """Create a batch."""
        batch = {
            "inputConfig": {"fileName": src},
            "displayName": config["display_name"],
        }
        path = f"/v1beta/models/{model}:batchGenerateContent"
        return job_of(self.ask("POST", path, {"batch": batch}))

    async def get(self, name: str, config: Any) -> Any:
        """Return a batch."""
        del config
        return job_of(self.ask("GET", f"/v1beta/{name}"))

    async def cancel(self, name: str, config: Any) -> None:
        """Cancel a batch."""
        del config
        self.ask("POST", f"/v1beta/{name}:cancel")

    async def list(self, config: Mapping[str, Any]) -> AsyncIterator[Any]:
        """Return all batches, the latest first."""
        size, token = config["page_size"], "0"
        found: list[Any] = []
        while token:
            page = f"pageSize={size}&pageToken={token}"
            said = self.ask("GET", f"/v1beta/batches?{page}")
            found += map(job_of, said["operations"])
            token = said.get("nextPageToken", "")
        return found_in(found)

    async def download(self, file: str, destination: Any) -> None:
        """Download an output."""
        destination.write(self.ask("GET", f"/v1beta/{file}:download"))

    async def generate_content(self, **asked: Any) -> Any:
        """Answer a direct request."""
        raise NotImplementedError(asked)


async def found_in(items: list[Any]) -> AsyncIterator[Any]:
    """Yield items."""
    for each in items:
        yield each


def job_of(said: Mapping[str, Any]) -> Any:
    """Return a batch with the fields of the SDK."""
    told = said["metadata"]
    file = told.get("output", {}).get("responsesFile")
    return SimpleNamespace(
        name=said["name"],
        state=told["state"].replace("BATCH_STATE", "JOB_STATE"),
        display_name=told["displayName"],
        create_time=datetime.fromisoformat(told["createTime"]),
        update_time=datetime.fromisoformat(told["updateTime"]),
        end_time=datetime.fromisoformat(told["endTime"]) if "endTime" in told else None,
        dest=None if file is None else SimpleNamespace(file_name=file),
        error=None,
    )


def providers(clock: Callable[[], float]) -> tuple[dict[str, Stub], dict[str, Adapter]]:
    """Return the stubs and the adapters on them, by their names."""
    one, two, three, four = (
        OpenAIStub(clock=clock),
        AnthropicStub(clock=clock),
        BedrockStub(clock=clock),
        GeminiStub(clock=clock),
    )
    two.address = "http://stub"
    aws = Plugless(three)
    batches = BedrockBatches(
        *map(aws.client, ("bedrock", "s3")),
        bucket="bucket",
        role="arn:aws:iam::1:role/b",
    )
    batches = replace(batches, limits=replace(batches.limits, least_rows=1))
    at = {"base_url": "http://stub", "api_key": "k"}
    adapters = (
        openai_chat(openai.AsyncOpenAI(http_client=unplugged(one), **at)),  # type: ignore[arg-type]
        anthropic_messages(anthropic.AsyncAnthropic(http_client=unplugged(two), **at)),  # type: ignore[arg-type]
        bedrock_converse(aws.client("bedrock-runtime"), batches=batches),
        gemini_content(GeminiClient(four)),
    )
    stubs = (one, two, three, four)
    for each in stubs:
        each.takes_s = 1_000.0
    return dict(zip(NAMES, stubs, strict=True)), dict(zip(NAMES, adapters, strict=True))


# ── the pipeline ──────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Current:
    """Forwards to the adapter of the test that runs, or to its batches."""

    name: str
    lanes: frozenset[str] = frozenset()

    @property
    def provider(self) -> str:
        """The name of the provider."""
        return self.name

    async def __call__(self, request: ModelRequest) -> ModelAnswer:
        """Send a direct request."""
        return await adapters[self.name](request)

    @property
    def batches(self) -> Any:
        """The batches behind a name that stays."""
        return CurrentBatches(self.name)


@dataclass(frozen=True)
class CurrentBatches:
    """Forwards to the batches of the test that runs."""

    name: str

    @property
    def endpoint(self) -> str:
        """The endpoint: the same for all tests."""
        return self.name

    def __getattr__(self, attribute: str) -> Any:
        """Return a method of them."""
        return getattr(adapters[self.name].batches, attribute)


#: The adapters of the test that runs.
adapters: dict[str, Adapter] = {}
models = [
    Model(
        name,
        Current(name),
        model_id="m",
        price=PRICE,
        lane=Lane.batch(within="4h", at_least=2, gather="2m"),
    )
    for name in NAMES
]
openai_model, anthropic_model, bedrock_model, gemini_model = models


class Survey(BaseModel):
    """A chunk: it asks each provider so many questions."""

    n: int
    calls: int = 1


@pipeline
async def surveying_four(survey: Survey) -> int:
    """Ask all four at once."""
    known = (openai_model, anthropic_model, bedrock_model, gemini_model)
    asked = [
        each.ask("Answer.", f"question {survey.n}:{i}")
        for each in known
        for i in range(survey.calls)
    ]
    return len(await asyncio.gather(*asked))
