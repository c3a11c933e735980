"""Guarantee: the batches of a provider are made once, found again and read whole.

The true clients of OpenAI and Anthropic ask stubs on loopback that keep books.
"""

from __future__ import annotations

import functools
import inspect
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import boto3
import httpx2 as httpx
import pytest
from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from botocore.config import Config
from pydantic import BaseModel

from piecework import UsageError
from piecework.errors import ErrorEnvelope, PermanentError
from piecework.errors.classify import classify
from piecework.llm import (
    BedrockBatches,
    ModelAnswer,
    ModelRequest,
    Turn,
    anthropic_messages,
    bedrock_converse,
    gemini_content,
    openai_chat,
)
from piecework.llm.adapters import Adapter
from piecework.llm.batches.lines import MOST_LINE
from piecework.llm.batches.port import (
    BatchProvider,
    BatchRow,
    BatchState,
    RowAnswered,
    RowExpired,
    RowFailed,
    RowUnreadable,
)
from piecework.llm.schema import schema_of
from tests.providers.anthropic_stub import AnthropicStub
from tests.providers.bedrock_stub import BedrockStub
from tests.providers.gemini_stub import GeminiStub
from tests.providers.openai_stub import OpenAIStub
from tests.providers.serving import served
from tests.providers.stub import Fate, Stub

anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")

# The SDK of Gemini extends a class of aiohttp.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Inheritance class AiohttpClientSession:DeprecationWarning"
)

NOW = 1_800_000_000.0


@dataclass
class Wire:
    """A client of an SDK, the adapter on it, and the provider that it asks."""

    stub: Stub
    adapter: Adapter

    @property
    def batches(self) -> BatchProvider:
        found = self.adapter.batches
        assert found is not None
        return found

    async def create(self, names: list[str], digest: str = "d1") -> str:
        return await self.batches.create(rows(self.batches, names), digest)

    async def outcomes(self, batch_id: str) -> list[Any]:
        return [each async for each in self.batches.outcomes(batch_id)]


try:  # it is in the environment of `make beside` alone
    from google import genai
except ImportError:
    genai = None

STUBS = {"OpenAI": OpenAIStub, "Anthropic": AnthropicStub, "Bedrock": BedrockStub}
ASYNC = [f"Async{each}" for each in STUBS]
if genai is not None:
    STUBS["Gemini"] = GeminiStub
    ASYNC += ["Gemini"]  # one client has both


@asynccontextmanager
async def wired(kind: str) -> AsyncIterator[Wire]:
    provider = kind.removeprefix("Async")
    stub: Stub = STUBS[provider](clock=lambda: NOW)
    async with served(stub) as address, AsyncExitStack() as opened:
        if isinstance(stub, BedrockStub):
            yield Wire(stub, await bedrock(address, opened, plain=kind == provider))
            return
        if isinstance(stub, GeminiStub):
            stub.address = address
            options = {"base_url": address}
            client = genai.Client(api_key="k", http_options=options)
            yield Wire(stub, gemini_content(client))
            await client.aio.aclose()
            client.close()
            return
        sdk = openai if provider == "OpenAI" else anthropic
        is_async = kind != provider
        http = sdk.DefaultAsyncHttpxClient if is_async else sdk.DefaultHttpxClient
        # Without TLS no certificates are loaded, which takes longer than a test.
        client = getattr(sdk, kind)(
            base_url=address, api_key="k", http_client=http(verify=False)
        )
        if isinstance(stub, AnthropicStub):
            stub.address = address
            yield Wire(stub, anthropic_messages(client))
        else:
            yield Wire(stub, openai_chat(client))
        if inspect.isawaitable(closed := client.close()):
            await closed


async def bedrock(address: str, opened: AsyncExitStack, *, plain: bool) -> Adapter:
    """Return an adapter for Bedrock, on clients of boto3 or of aiobotocore."""
    keys = {"aws_access_key_id": "k", "aws_secret_access_key": "s"}
    place: dict[str, Any] = {"endpoint_url": address, "region_name": "eu-west-1"}
    config = {"retries": {"total_max_attempts": 1}, "s3": {"addressing_style": "path"}}
    names = ("bedrock-runtime", "bedrock", "s3")
    if plain:
        session = aws_session()
        place["config"] = Config(**config)
        found = [session.client(each, **place) for each in names]
        for each in found:
            opened.callback(each.close)
    else:
        place |= keys | {"config": AioConfig(**config)}
        found = [
            await opened.enter_async_context(get_session().create_client(each, **place))
            for each in names
        ]
    role = "arn:aws:iam::123456789012:role/batches"
    batches = BedrockBatches(*found[1:], bucket="bucket", role=role)
    return bedrock_converse(found[0], batches=batches)


@functools.cache
def aws_session() -> boto3.Session:
    return boto3.Session("k", "s", region_name="eu-west-1")


@pytest.fixture(params=["Bedrock", *(each for each in ASYNC if "Bed" not in each)])
async def wire(request: pytest.FixtureRequest) -> AsyncIterator[Wire]:
    async with wired(request.param) as found:
        yield found


@pytest.fixture(params=sorted({*STUBS, *ASYNC}))
async def any_wire(request: pytest.FixtureRequest) -> AsyncIterator[Wire]:
    async with wired(request.param) as found:
        yield found


@pytest.fixture
async def of_openai() -> AsyncIterator[Wire]:
    async with wired("AsyncOpenAI") as found:
        yield found


def request_of(name: str, **more: Any) -> ModelRequest:
    return ModelRequest("Answer.", (Turn("user", f"is {name} odd?"),), 9, **more)


def rows(batches: BatchProvider, names: list[str]) -> list[BatchRow]:
    return [batches.row(each, replace(request_of(each), model="m")) for each in names]


def judged(error: BaseException) -> ErrorEnvelope:
    return classify(error, layer="llm")


def number(batch_id: str) -> str:
    """Return the id in the book of the provider; an ARN ends with it."""
    return batch_id.rpartition("/")[2]


def fates(**of: Fate) -> Callable[[str], Fate]:
    return lambda name: of.get(name, "answered")


# ── a batch from its creation to its last row ─────────────────────────────────


async def test_each_row_ends_as_a_direct_request_for_half_the_price(
    any_wire: Wire,
) -> None:
    stub, names = any_wire.stub, ["a", "b", "broken", "late", "lost"]
    stub.fate = fates(broken="failed", late="expired", lost="absent")
    stub.twice = lambda name: name == "b"
    batch_id = await any_wire.create(names)

    status = await any_wire.batches.status(batch_id)
    is_anthropic = isinstance(stub, AnthropicStub)  # it has no word for the whole
    assert status.state == (BatchState.EXPIRED if is_anthropic else BatchState.ENDED)
    if not isinstance(stub, GeminiStub):  # it does not count
        assert (status.rows, status.answered, status.failed) == (5, 2, 1)
    assert status.created_at == status.ended_at == NOW
    found = await any_wire.outcomes(batch_id)
    by_name: dict[str, list[Any]] = {}
    for each in found:
        by_name.setdefault(each.custom_id, []).append(each)
    late = {} if isinstance(stub, GeminiStub) else {"late": [RowExpired("late")]}
    assert {name: len(each) for name, each in by_name.items()} == {
        "a": 1,
        "b": 2,
        "broken": 1,
        **dict.fromkeys(late, 1),
    }
    for name in "ab":
        direct = await any_wire.adapter(replace(request_of(name), model="m"))
        batched = replace(direct, service_tier="batch")
        assert by_name[name][0] == RowAnswered(name, batched)
    assert {name: each for name, each in by_name.items() if name == "late"} == late
    (failed,) = by_name["broken"]
    assert isinstance(failed, RowFailed)
    assert (
        failed.error.code
        == {
            OpenAIStub: "llm.context.overflow",
            AnthropicStub: "llm.http.529_overloaded",
            BedrockStub: "llm.http.400_bad_request",
            GeminiStub: "llm.http.503_unavailable",
        }[type(stub)]
    )
    assert [each.tier for each in stub.book] == ["batch"] * 2 + ["default"] * 2


class Open(BaseModel):
    """A schema that a provider cannot enforce."""

    more: dict[str, int]


@pytest.mark.parametrize("typed", [True, False])
async def test_a_row_asks_what_a_direct_request_asks(
    wire: Wire, *, typed: bool
) -> None:
    bodies: list[dict[str, Any]] = []
    wire.stub.say = lambda body: bodies.append(body) or "yes"  # type: ignore[func-returns-value]
    more: dict[str, Any] = {"schema": schema_of(Open), "schema_name": "Open"}
    request = replace(
        request_of("a", temperature=0.5, **(more if typed else {})),
        model="m",
        options={"metadata": {"user_id": "u"}, "extra_body": {"top_k": 3}},
    )
    if isinstance(wire.stub, BedrockStub):
        request = replace(request, options={"inferenceConfig": {"topP": 0.9}})
    if isinstance(wire.stub, GeminiStub):
        request = replace(request, options={"config": {"top_p": 0.9}})
    await wire.adapter(request)

    row = wire.batches.row("a", request)
    in_path = {BedrockStub: {"modelId": "m"}, GeminiStub: {"model": "m"}}.get(
        type(wire.stub), {}
    )
    assert row.body == bodies[0] | in_path
    batch_id = await wire.batches.create([row], "d")
    await wire.outcomes(batch_id)
    assert bodies[1] == bodies[0]
    for lost in ({"extra_headers": {"x": "y"}}, {"metadata": {1}}):
        with pytest.raises(UsageError):
            wire.batches.row("a", replace(request, options=lost))


# ── a creation in doubt ───────────────────────────────────────────────────────


async def test_a_creation_whose_answer_is_lost_is_found_again(any_wire: Wire) -> None:
    batches, stub = any_wire.batches, any_wire.stub
    (row,) = rows(batches, ["other"])
    for at in range(250):  # more than two pages of others, of this minute and before
        stub.clock = lambda at=at: NOW - 400 + 2 * at  # type: ignore[misc]
        stub.made([("other", row.body)] * (1 + at % 2), digest=f"other{at}")
    stub.clock, stub.lost_creations = lambda: NOW + 100, 1
    with pytest.raises(Exception) as lost:  # noqa: PT011 -- of any SDK
        await any_wire.create(["a", "b", "c"])
    assert judged(lost.value).retryable

    (found,) = await batches.find("d1", NOW, 3)
    assert number(found.id) == "batch_250"
    if batches.limits.finds_exactly:
        assert await batches.find("d2", NOW, 3) == []
        (other,) = await batches.find("other200", NOW, 1)
        assert number(other.id) == "batch_200"
    else:
        assert [b.id for b in await batches.find("any", NOW, 3)] == ["batch_250"]
    assert await batches.find("d1", NOW + 200, 3) == []
    if isinstance(stub, BedrockStub):  # a repeated creation makes no second job
        again = await any_wire.create(["a", "b", "c"])
        assert number(again) == "batch_250"
    assert len(stub.batches) == 251


# ── how a batch ends ──────────────────────────────────────────────────────────


async def test_a_batch_that_ends_early_has_what_it_answered(wire: Wire) -> None:
    batches, stub, names = wire.batches, wire.stub, [f"r{n}" for n in range(30)]
    stub.takes_s = 100_000.0
    cut, late = await wire.create(names, "d1"), await wire.create(names, "d2")
    assert (await batches.status(cut)).state is BatchState.IN_PROGRESS
    assert (await batches.status(cut)).ended_at is None

    await batches.cancel(cut)
    await batches.cancel(cut)  # it has ended: no error
    assert (await batches.status(cut)).state is BatchState.CANCELLED
    stub.clock = lambda: NOW + 90_000
    assert (await batches.status(late)).state is BatchState.EXPIRED
    for batch_id in (cut, late):
        found = await wire.outcomes(batch_id)
        kinds = [type(each) for each in found]
        if not isinstance(stub, GeminiStub):  # it lists no row that it did not ask
            assert kinds.count(RowAnswered) + kinds.count(RowExpired) == len(names)
        billed = [each for each in stub.book if each.batch_id == number(batch_id)]
        assert kinds.count(RowAnswered) == len(billed) > 0


async def test_a_validation_names_rows_or_the_whole(of_openai: Wire) -> None:
    batches, stub = of_openai.batches, of_openai.stub
    stub.refuses = lambda name: name in {"b", "d"}
    status = await batches.status(await of_openai.create(["a", "b", "c", "d"]))
    assert (status.state, status.reason) == (BatchState.FAILED, None)
    assert {name: error.code for name, error in status.refused.items()} == {
        "b": "llm.http.400_bad_request",
        "d": "llm.http.400_bad_request",
    }

    stub.queue_full = True
    status = await batches.status(await of_openai.create(["a", "c"]))
    assert (status.state, status.refused) == (BatchState.FAILED, {})
    assert status.reason is not None
    assert status.reason.code == "llm.http.429_rate_limited"  # it passes


async def test_results_that_the_provider_has_deleted_are_gone(any_wire: Wire) -> None:
    batch_id = await any_wire.create(["a"])
    assert len(await any_wire.outcomes(batch_id)) == 1
    any_wire.stub.gone = True

    with pytest.raises(PermanentError) as gone:
        await any_wire.outcomes(batch_id)
    assert gone.value.code == "llm.batch.results_gone"


@pytest.mark.parametrize("denied", [401, 403])
async def test_a_wrong_key_has_the_code_of_a_direct_request(
    wire: Wire, denied: int
) -> None:
    batches, batch_id = wire.batches, await wire.create(["a"])
    wire.stub.denied = denied
    with pytest.raises(Exception) as direct:  # noqa: PT011 -- of any SDK
        await wire.adapter(replace(request_of("a"), model="m"))
    expected = judged(direct.value)
    assert expected.http_status == denied
    for asked in (
        lambda: wire.create(["a"]),
        lambda: batches.status(batch_id),
        lambda: batches.find("d1", NOW, 1),
        lambda: batches.cancel(batch_id),
        lambda: wire.outcomes(batch_id),
    ):
        before = len(wire.stub.asked)
        with pytest.raises(Exception) as refused:  # noqa: PT011 -- of any SDK
            await asked()
        found = judged(refused.value)
        assert (found.code, found.http_status) == (expected.code, denied)
        assert len(wire.stub.asked) == before + 1  # neither SDK tries again


# ── what a provider may send ──────────────────────────────────────────────────


async def test_hostile_lines_are_told_and_the_others_stand(any_wire: Wire) -> None:
    deep = b'{"custom_id": "x", "response": ' + b"[" * 100_000
    hostile = {
        b"no JSON\n": "not JSON",
        b"\xff\xfe\n": "not UTF-8",
        b"[1]\n": "not an object",
        b'{"custom_id": 7}\n': "custom",
        b'{"custom_id": "' + b"y" * 65 + b'"}\n': "custom",
        b'{"custom_id": "x", "result": {"type": "of tomorrow"}}\n': "",
        deep + b"\n": "nested",
        b'{"custom_id": "' + b"z" * (MOST_LINE + 5) + b'"}\n': "longer",
    }
    key = {BedrockStub: "recordId", GeminiStub: "key"}.get(type(any_wire.stub))
    if key is not None:
        hostile = {
            line.replace(b"custom_id", key.encode()): why.replace("custom", key)
            for line, why in hostile.items()
        }
    any_wire.stub.more_lines = (b"\r\n", *hostile, b"\n")
    found = await any_wire.outcomes(await any_wire.create(["a", "b"]))

    *odd, first, last = found
    assert [first.custom_id, last.custom_id] == ["a", "b"]
    assert len(odd) == len(hostile)
    for each, (line, why) in zip(odd, hostile.items(), strict=True):
        assert isinstance(each, RowUnreadable)
        assert why in each.why
        assert line.startswith(each.line)
        assert len(each.line) <= 4_096


async def test_an_answer_without_a_message_is_a_paid_failure(wire: Wire) -> None:
    wire.stub.say = lambda _: 7  # type: ignore[assignment, return-value]
    (found,) = await wire.outcomes(await wire.create(["a"]))
    assert found.error.code == "llm.http.malformed_body"
    paid = found.error.facts["answer"]
    assert isinstance(paid, ModelAnswer)
    assert (paid.service_tier, paid.tokens_out) == (
        "batch",
        wire.stub.book[0].tokens_out,
    )


async def test_memory_does_not_grow_with_the_output(wire: Wire) -> None:
    wire.stub.say = lambda _: "yes" * 1_000
    batch_id = await wire.create([f"r{n}" for n in range(3_000)])
    read = 0
    async for _ in wire.batches.outcomes(batch_id):
        read += 1
        if read == 100:  # the SDK is loaded, and the book is written
            tracemalloc.start()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert read == 3_000  # 10 MB
    assert peak < 2_000_000


class Discarding(httpx.AsyncBaseTransport):
    """Reads each request in parts, and keeps none of them."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        assert isinstance(request.stream, httpx.AsyncByteStream)
        size = 0
        async for each in request.stream:
            size += len(each)
        assert size == int(request.headers["content-length"])
        self.sizes.append(size)
        return httpx.Response(200, json={"id": "batch", "object": "x"})


@pytest.mark.parametrize("kind", ["AsyncOpenAI", "AsyncAnthropic"])
async def test_memory_does_not_grow_with_the_input(kind: str) -> None:
    sent = Discarding()
    sdk, adapt = (
        (openai, openai_chat)
        if kind == "AsyncOpenAI"
        else (anthropic, anthropic_messages)
    )
    client = getattr(sdk, kind)(
        api_key="k", http_client=httpx.AsyncClient(transport=sent)
    )
    batches = adapt(client).batches
    assert batches is not None
    (row,) = rows(batches, ["a"])
    body = {**row.body, "system": "x" * 2_000}
    await batches.create([row], "d")  # the SDK is loaded

    tracemalloc.start()
    many = (BatchRow(f"r{n}", dict(body)) for n in range(5_000))
    await batches.create(many, "d")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    await client.close()

    assert max(sent.sizes) > 10_000_000
    assert peak < 2_000_000
