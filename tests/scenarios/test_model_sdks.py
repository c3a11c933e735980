"""Guarantee: an odd answer of a provider is read or named, through the true SDKs.

The clients of OpenAI, Anthropic and Bedrock ask a server on loopback that answers with
one body. What the SDKs know of stop reasons is read from them.
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from types import ModuleType
from typing import Any, get_args

import boto3
import botocore.session
import pytest
from aiohttp import web
from pydantic import BaseModel

from piecework import PolicyError, SemanticError, TransientError, envelope_of
from piecework.errors import StageError
from piecework.errors.stop_reasons import FINISHED, UNFINISHED
from piecework.llm import (
    Model,
    ModelRequest,
    Turn,
    anthropic_messages,
    bedrock_converse,
    openai_chat,
)
from piecework.telemetry.emit import listening
from tests.docs.pages import ROOT, fenced

anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")


class Invoice(BaseModel):
    """A typed answer."""

    number: str
    total_cents: int


GOOD = '{"number": "A-1", "total_cents": 5}'
OTHER = '{"number": "B-2", "total_cents": 7}'
READ = Invoice(number="A-1", total_cents=5)


class Provider:
    """A server that answers each request with the next body; the last one repeats."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.requests: list[dict[str, Any]] = []
        self.address = ""
        self.clients: list[Any] = []

    def model(self, wire: str, plain: str = "", **options: Any) -> Model:
        """Return a model behind the client of an SDK, which asks this server."""
        tokens = {"max_tokens": options.pop("max_tokens", 4_096)}
        sdk = anthropic if wire == "anthropic" else openai
        is_plain = plain and not plain.startswith("Async")
        http = sdk.DefaultHttpxClient if is_plain else sdk.DefaultAsyncHttpxClient
        # Without TLS no certificates are loaded, which takes longer than a test.
        address: dict[str, Any] = {"base_url": self.address, "api_key": "k"}
        address["http_client"] = http(verify=False)
        if wire == "bedrock":
            session = aws_session()
            client = session.client("bedrock-runtime", endpoint_url=self.address)
            adapter = bedrock_converse(client)
        elif wire == "openai":
            client = getattr(openai, plain or "AsyncOpenAI")(**address)
            adapter = openai_chat(client, **options)
        else:
            client = getattr(anthropic, plain or "AsyncAnthropic")(**address)
            adapter = anthropic_messages(client, **options)
        self.clients.append(client)
        return Model("m", adapter, **tokens)

    async def answer(self, request: web.Request) -> web.Response:
        self.requests.append(await request.json())
        found = self.answers[min(len(self.requests), len(self.answers)) - 1]
        if isinstance(found, list):
            events = "".join(found)
            return web.Response(text=events, content_type="text/event-stream")
        text = found if isinstance(found, str) else json.dumps(found)
        kind = "text/html" if text.startswith("<") else "application/json"
        return web.Response(text=text, content_type=kind)


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    found = Provider()
    app = web.Application()
    app.add_routes([web.post("/{path:.*}", found.answer)])
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield found
    for client in found.clients:
        closed = client.close()
        if inspect.isawaitable(closed):
            await closed
    await runner.cleanup()


@functools.cache
def aws_session() -> boto3.Session:
    return boto3.Session("k", "s", region_name="eu-west-1")


# ── the three providers, each with its client and the form of its answers ─────


def chat(content: Any, reason: Any = "stop", **more: Any) -> dict[str, Any]:
    """Return an answer of Chat Completions."""
    message = {"role": "assistant", "content": content, **more.pop("message", {})}
    choice = {"index": 0, "finish_reason": reason, "message": message}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    whole = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
    return {**whole, "choices": [choice], "usage": usage, **more}


def message(content: Any, reason: Any = "end_turn", **more: Any) -> dict[str, Any]:
    """Return an answer of Messages."""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    usage = {"input_tokens": 3, "output_tokens": 2}
    whole = {"id": "x", "type": "message", "role": "assistant", "model": "m"}
    return {**whole, "content": parts, "stop_reason": reason, "usage": usage, **more}


def converse(content: Any, reason: Any = "end_turn", **more: Any) -> dict[str, Any]:
    """Return an answer of Converse."""
    parts = [{"text": content}] if isinstance(content, str) else content
    usage = {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}
    output = {"message": {"role": "assistant", "content": parts}}
    whole = {"output": output, "stopReason": reason, "metrics": {"latencyMs": 1}}
    return {**whole, "usage": usage, **more}


BODIES: dict[str, Callable[..., dict[str, Any]]] = {
    "openai": chat,
    "anthropic": message,
    "bedrock": converse,
}


async def error_of(asked: Awaitable[Any]) -> Any:
    """Return the error of a stage that a request ended with; None: an answer."""
    try:
        await asked
    except StageError as error:
        return error
    return None


async def failure(asked: Awaitable[Any]) -> tuple[type[BaseException], str, Any]:
    """Return type and code of an error, and the usage that is booked for it."""
    error = await error_of(asked)
    return type(error), error.code, error.facts.get("usage")


# ── each stop reason of today's SDKs is judged ────────────────────────────────


def words_of(annotation: Any) -> set[str]:
    """Return the texts of a Literal, also of an optional one."""
    found = {each for each in get_args(annotation) if isinstance(each, str)}
    return found.union(*map(words_of, get_args(annotation)))


def sdk_reasons() -> dict[str, set[str]]:
    from anthropic.types import StopReason
    from anthropic.types.beta import BetaStopReason
    from openai.types.chat import chat_completion, chat_completion_chunk
    from openai.types.responses import ResponseStatus
    from openai.types.responses.response import IncompleteDetails

    service = botocore.session.get_session().get_service_model("bedrock-runtime")
    whole, chunk = chat_completion.Choice, chat_completion_chunk.Choice
    return {
        "anthropic": words_of(StopReason) | words_of(BetaStopReason),
        "bedrock": {*service.shape_for("StopReason").enum},
        "openai": words_of(whole.model_fields["finish_reason"].annotation)
        | words_of(chunk.model_fields["finish_reason"].annotation),
        "openai responses": words_of(ResponseStatus)
        | words_of(IncompleteDetails.model_fields["reason"].annotation),
    }


def test_each_stop_reason_of_the_installed_sdks_is_judged() -> None:
    reasons = sdk_reasons()

    assert all(len(each) >= 5 for each in reasons.values()), reasons
    assert not FINISHED & UNFINISHED.keys()
    unjudged = set().union(*reasons.values()) - FINISHED - UNFINISHED.keys()
    assert not unjudged, "judge them in piecework/errors/stop_reasons.py"


GOOD_ENDS = {
    "openai": {"stop"},
    "anthropic": {"end_turn", "stop_sequence"},
    "bedrock": {"end_turn", "stop_sequence"},
}
#: What gateways and servers of open models send beside the words of the SDKs.
OTHERS = (
    *("abort", "error", "overloaded", "ERROR", "load", "function_call", "unknown"),
    *("SAFETY", "insufficient_system_resource", "malformed_model_output", "7"),
)


@pytest.mark.parametrize("wire", BODIES)
async def test_only_a_good_end_is_an_answer(wire: str, provider: Provider) -> None:
    body = BODIES[wire]
    model = provider.model(wire)
    finished = set()
    for reason in {*sdk_reasons()[wire], *OTHERS}:
        provider.answers = [body("half an ans", reason)]
        if (error := await error_of(model.ask("", "t"))) is None:
            finished.add(reason)
        else:
            assert reason in error.message
            assert error.facts["usage"].tokens_out == 2  # it is paid for

    assert finished == GOOD_ENDS[wire]


REASONS = [
    ("abort", TransientError, "llm.model.failed"),
    ("error", TransientError, "llm.model.failed"),
    ("ERROR", TransientError, "llm.model.failed"),
    (None, TransientError, "llm.http.malformed_body"),
    ("", TransientError, "llm.http.malformed_body"),
    ("pause_turn", SemanticError, "llm.output.invalid"),
    ("tool_calls", SemanticError, "llm.output.invalid"),
    ("malformed_model_output", SemanticError, "llm.output.invalid"),
    ("of tomorrow", SemanticError, "llm.output.invalid"),
    ("length", SemanticError, "llm.output.truncated"),
    ("content_filter", PolicyError, "llm.policy.content_filtered"),
    ("SAFETY", PolicyError, "llm.policy.content_filtered"),
]


@pytest.mark.parametrize(("reason", "kind", "code"), REASONS)
@pytest.mark.parametrize("wire", BODIES)
async def test_another_end_is_an_error_of_its_class(
    wire: str, reason: Any, kind: type[Exception], code: str, provider: Provider
) -> None:
    body = BODIES[wire]
    provider.answers = [body(GOOD, reason)]
    model = provider.model(wire)

    for returns in (str, Invoice):
        found = await failure(model.ask("", "t", returns=returns))
        assert found[:2] == (kind, code)
        assert found[2].tokens_in == 3  # it is paid for


# ── an answer with status 200 that is an error ───────────────────────────────


FAILED_502 = {"error": {"message": "Provider returned error", "code": 502}}
FAILED_CHOICE = chat("", "error") | FAILED_502
NO_ANSWERS = [
    ("openai", FAILED_502, TransientError, "llm.http.502_bad_gateway"),
    ("openai", {"error": {"code": "429"}}, TransientError, "llm.http.429_rate_limited"),
    ("openai", {"error": "busy"}, TransientError, "llm.model.failed"),
    ("openai", FAILED_CHOICE, TransientError, "llm.http.502_bad_gateway"),
    ("openai", chat("x", choices=None), TransientError, "llm.http.malformed_body"),
    ("openai", chat("x", choices=[]), TransientError, "llm.http.malformed_body"),
    ("openai", "<html>Wait</html>", TransientError, "llm.http.malformed_body"),
    ("openai", chat({"a": 1}), TransientError, "llm.http.malformed_body"),
    ("openai", chat(None), SemanticError, "llm.output.invalid"),
    ("openai", chat(" \n"), SemanticError, "llm.output.invalid"),
    ("openai", chat([]), SemanticError, "llm.output.invalid"),
    ("anthropic", message([]), SemanticError, "llm.output.invalid"),
    ("anthropic", message(None), SemanticError, "llm.output.invalid"),
    (
        "anthropic",
        {"type": "error", "error": {"type": "overloaded_error", "message": "x"}},
        TransientError,
        "llm.http.529_overloaded",
    ),
    ("bedrock", converse([]), SemanticError, "llm.output.invalid"),
    ("bedrock", converse("x", output=None), TransientError, "llm.http.malformed_body"),
    ("bedrock", {}, TransientError, "llm.http.malformed_body"),
]


@pytest.mark.parametrize(("wire", "body", "kind", "code"), NO_ANSWERS)
async def test_what_is_no_answer_is_an_error(
    wire: str, body: Any, kind: type[Exception], code: str, provider: Provider
) -> None:
    provider.answers = [body]
    model = provider.model(wire)

    assert (await failure(model.ask("", "t")))[:2] == (kind, code)


@pytest.mark.parametrize("wire", BODIES)
async def test_a_call_may_allow_an_answer_without_text(
    wire: str, provider: Provider
) -> None:
    body = BODIES[wire]
    provider.answers = [body("")]

    model = provider.model(wire)
    assert await model.ask("", "t", may_be_empty=True) == ""


# ── a paid answer is read in spite of its form ────────────────────────────────


TYPED = {
    "a sentence around": f"Here you go:\n{GOOD}\nAnything else?",
    "a thought": f'<think>hm {{"number": 1}}</think>{GOOD}',
    "a thought that looks like it": f"<think>{GOOD.replace('5', '6')}</think>\n{GOOD}",
    "the end of a thought": f"it is 5, so …</think>{GOOD}",
    "a broken draft in a thought": f'<thinking>{{"number": [[</thinking>{GOOD}',
    "a broken draft before its end": f'so {{"number": [</THINK>{GOOD}',
    "many drafts in a thought": f"<think>{OTHER * 120}</think>{GOOD}",
    "many drafts before its end": f"{OTHER * 120}</think>{GOOD}",
    "two thoughts": f"<think>{OTHER}</think><reasoning>{OTHER}</reasoning>{GOOD}",
    "a thought after it": f"{GOOD}<think>or {OTHER}?</think>",
    "an open thought after it": f"{GOOD}\n<Reasoning effort='low'>or {OTHER}?",
    "the tag of a thought in it": f'So: {GOOD[:-1]}, "x": "<think></think>"}}.',
    "a fence": f"```json\n{GOOD}\n```",
    "a fence in sentences": f"Sure [1]:\n```JSON\n{GOOD}\n```\nDone.",
    "a mark": f"\ufeff{GOOD}",
    "half a character": '{"number": "A-1", "total_cents": 5, "x": "\\ud83d"}',
    "the same twice": f"{GOOD} — again: {GOOD}",
    "an example of another form": f'As in {{"a": 1}}: {GOOD}',
}


@pytest.mark.parametrize("wire", BODIES)
@pytest.mark.parametrize("form", TYPED)
async def test_json_is_found_without_a_second_request(
    form: str, wire: str, provider: Provider
) -> None:
    body = BODIES[wire]
    provider.answers = [body(TYPED[form])]
    model = provider.model(wire)

    noted: list[Any] = []
    with listening(lambda _, fields: noted.append(fields["note"])):
        assert await model.ask("", "t", returns=Invoice) == READ
    assert len(provider.requests) == 1
    assert len(noted) == (form == "half a character")


DOUBTS = {
    "a doubled key": GOOD.replace("}", ', "total_cents": 7}'),
    "two that differ": f"{GOOD} or {GOOD.replace('5', '7')}",
    "a part of a broken list": f"[{GOOD}, {GOOD[:-1]}",
    "an open list": f"[{GOOD}",
    "inside of a broken object": f'{{"invoice": {GOOD}, oops}}',
    "only in a thought": f"<think>{GOOD}</think>I cannot find it.",
    "only in a thought, with another form": f'<think>{GOOD}</think>{{"a": 1}}',
    "in an open thought": f"<think>maybe {GOOD} no wait",
    "in a thought of another name": f"Hm. <THINKING>{GOOD}</Thinking>\nNo.",
    "in an open thought with a thought": f"<reasoning><think></think>{GOOD}",
    "in a thought within a thought": f"<think><think></think>{GOOD}</think>No.",
    "before the end of a thought": f"maybe {GOOD}, no</think>I cannot find it.",
    "in a fence in a thought": f"<think>\n```json\n{GOOD}\n```\n</think>\nNo.",
    "a thought in the middle of it": GOOD.replace(",", "<think>hm</think>,"),
    "no number": GOOD.replace("5", "NaN"),
    "no JSON": "I found nothing.",
    "nothing": "",
}


@pytest.mark.parametrize("form", DOUBTS)
async def test_a_doubt_is_repaired_as_often_as_declared(
    form: str, provider: Provider
) -> None:
    model = provider.model("openai")
    for repairs, requests in ((0, 1), (1, 2), (3, 4)):
        provider.answers, provider.requests = [chat(DOUBTS[form])], []
        asked = model.ask("", "t", returns=Invoice, repairs=repairs)
        assert (await failure(asked))[:2] == (SemanticError, "llm.output.invalid")
        assert len(provider.requests) == requests

    provider.answers, provider.requests = [chat(DOUBTS[form])] * 2 + [chat(GOOD)], []
    assert await model.ask("", "t", returns=Invoice, repairs=2) == READ
    assert len(provider.requests[-1]["messages"]) == 5


PARTS = [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]
THINKING = [{"type": "thinking", "thinking": [{"type": "text", "text": "?"}]}, *PARTS]
TEXTS = [
    ("openai", chat(PARTS), "hello"),
    ("openai", chat(THINKING), "hello"),
    ("openai", chat(["hel", "lo"]), "hello"),
    ("anthropic", message(PARTS), "hello"),
    ("bedrock", converse([{"text": "hel"}, {"text": "lo"}]), "hello"),
    ("openai", chat("cut \ud83d here"), "cut \ufffd here"),
    ("anthropic", message("cut \ude00 here"), "cut \ufffd here"),
    ("openai", chat("whole \ud83d\ude00"), "whole \U0001f600"),
    ("openai", chat("a\0b"), "a\0b"),
]


@pytest.mark.parametrize(("wire", "body", "text"), TEXTS)
async def test_a_text_is_whole(
    wire: str, body: Any, text: str, provider: Provider
) -> None:
    provider.answers = [body]
    model = provider.model(wire)

    assert await model.ask("", "t") == text


REQUESTED = ModelRequest("", (Turn("user", "t"),), 9)
ODD_COUNTS = (-3, 2.5, 10**30, "many", None, True, [], float("inf"))
COUNTS = {
    "openai": ("prompt_tokens", "completion_tokens"),
    "anthropic": ("input_tokens", "output_tokens"),
    "bedrock": ("inputTokens", "outputTokens"),
}


@pytest.mark.parametrize("wire", ["openai", "anthropic"])  # botocore refuses them
@pytest.mark.parametrize("odd", ODD_COUNTS, ids=repr)
async def test_an_odd_count_is_none_and_leaves_a_note(
    odd: Any, wire: str, provider: Provider
) -> None:
    body = BODIES[wire]
    tokens_in, tokens_out = COUNTS[wire]
    provider.answers = [body("hello", usage={tokens_in: odd, tokens_out: 2})]
    model = provider.model(wire)

    noted: list[str] = []
    with listening(lambda name, fields: noted.append(f"{name} {fields['note']}")):
        assert await model.ask("", "t") == await model.ask("", "t") == "hello"
    answer = await model.complete(REQUESTED)
    assert (answer.tokens_in, answer.tokens_out) == (0, 2)
    assert tokens_in in answer.notes[0]
    assert noted == [f"model.answer_mended {answer.notes[0]}"]  # once


@pytest.mark.parametrize("wire", BODIES)
@pytest.mark.parametrize("usage", [None, {}, "left out"])
async def test_an_answer_without_usage_is_an_answer(
    usage: Any, wire: str, provider: Provider
) -> None:
    body = BODIES[wire]
    found = body("hello", usage=usage)
    if usage == "left out":
        del found["usage"]
    provider.answers = [found]
    model = provider.model(wire)

    answer = await model.complete(REQUESTED)
    assert (answer.text, answer.tokens_in, len(answer.notes)) == ("hello", 0, 2)


async def test_a_cached_part_that_is_too_large_is_no_part(provider: Provider) -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    usage |= {"prompt_tokens_details": {"cached_tokens": 64}}
    provider.answers = [chat("hello", usage=usage)]

    answer = await provider.model("openai").complete(REQUESTED)
    assert (answer.tokens_in, answer.cached_tokens_in) == (3, 0)


# ── long and streamed answers ─────────────────────────────────────────────────


def events(*found: dict[str, Any]) -> list[str]:
    """Return the events of a stream of Messages."""
    return [f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in found]


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[str]:
    """Return the events of one block."""
    at = {"index": index}
    begin = {"type": "content_block_start", **at, "content_block": start}
    parts = [{"type": "content_block_delta", **at, "delta": each} for each in deltas]
    return events(begin, *parts, {"type": "content_block_stop", **at})


def text_block(index: int, *texts: str) -> list[str]:
    deltas = [{"type": "text_delta", "text": each} for each in texts]
    return block(index, {"type": "text", "text": ""}, *deltas)


STARTED = message([], None, usage={"input_tokens": 3, "output_tokens": 1})
START = events({"type": "message_start", "message": STARTED}, {"type": "ping"})
THOUGHT = block(
    0,
    {"type": "thinking", "thinking": "", "signature": ""},
    {"type": "thinking_delta", "thinking": "hm"},
)
DELTA = {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}
END = events({"type": "message_delta", **DELTA}, {"type": "message_stop"})
STREAMED_MESSAGE = [*START, *THOUGHT, *text_block(1, GOOD[:9], GOOD[9:]), *END]


def chunks(*texts: str, reason: str = "stop") -> list[str]:
    """Return the events of a stream of Chat Completions."""
    deltas: list[Any] = [({"role": "assistant", "content": ""}, None)]
    deltas += [({"content": each}, None) for each in texts]
    deltas.append(({}, reason))
    whole = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    said = [
        {**whole, "choices": [{"index": 0, "delta": delta, "finish_reason": why}]}
        for delta, why in deltas
    ]
    said.append({**whole, "choices": [], "usage": chat("")["usage"]})
    return [f"data: {json.dumps(each)}\n\n" for each in said] + ["data: [DONE]\n\n"]


STREAMED_CHAT = chunks(GOOD[:9], GOOD[9:])
STREAMED = {"openai": STREAMED_CHAT, "anthropic": STREAMED_MESSAGE}


CLIENTS = [
    ("openai", "AsyncOpenAI"),
    ("openai", "OpenAI"),
    ("anthropic", "AsyncAnthropic"),
    ("anthropic", "Anthropic"),
]


@pytest.mark.parametrize(("wire", "kind"), CLIENTS)
async def test_a_streamed_answer_is_one_answer(
    wire: str, kind: str, provider: Provider
) -> None:
    model = provider.model(wire, kind, stream=True)
    provider.answers = [STREAMED[wire]]

    assert await model.ask("", "t", returns=Invoice) == READ
    assert provider.requests[0]["stream"] is True
    answer = await model.complete(REQUESTED)
    assert (answer.text, answer.tokens_in, answer.tokens_out) == (GOOD, 3, 2)
    assert answer.notes == ()


@pytest.mark.parametrize("wire", STREAMED)
async def test_a_stream_that_ends_early_is_cut_off(
    wire: str, provider: Provider
) -> None:
    model = provider.model(wire, stream=True)
    whole = STREAMED[wire]
    # OpenAI's SDK hides the very last event; the stop reason comes in that before.
    last = {"openai": len(whole) - 2, "anthropic": len(whole)}[wire]
    for sent in range(1, last):
        provider.answers = [whole[:sent]]
        found = await failure(model.ask("", "t"))
        assert found[:2] == (TransientError, "llm.http.malformed_body"), sent


async def test_an_error_inside_of_a_stream_is_that_of_the_provider(
    provider: Provider,
) -> None:
    busy = {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}
    model = provider.model("anthropic")
    provider.answers = [[*START, *events(busy)]]

    with pytest.raises(anthropic.APIStatusError) as caught:
        await model.ask("", "t", max_tokens=64_000)
    assert envelope_of(caught.value).code == "llm.http.529_overloaded"


async def test_anthropic_is_asked_for_64_000_tokens(provider: Provider) -> None:
    model = provider.model("anthropic", max_tokens=64_000)
    provider.answers = [STREAMED_MESSAGE]

    assert await model.ask("", "t") == GOOD
    assert provider.requests[0]["max_tokens"] == 64_000


async def test_the_input_of_a_streamed_tool_is_the_answer(provider: Provider) -> None:
    class Open(BaseModel):
        more: dict[str, int]

    tool = {"type": "tool_use", "id": "t", "name": "Open", "input": {}}
    given = [
        {"type": "input_json_delta", "partial_json": each}
        for each in ("", '{"more": {"a"', ": 1}}")
    ]
    used = {"delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}}
    end = events({"type": "message_delta", **used}, {"type": "message_stop"})
    provider.answers = [
        [*START, *text_block(0, "Let me."), *block(1, tool, *given), *end]
    ]
    model = provider.model("anthropic", stream=True)

    assert await model.ask("", "t", returns=Open) == Open(more={"a": 1})
    found = await failure(model.ask("", "t"))  # the request demanded no tool
    assert found[:2] == (SemanticError, "llm.output.invalid")


@pytest.mark.filterwarnings("ignore:The model:DeprecationWarning")  # it ages
async def test_the_streamed_calls_of_the_page_are_true(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    (program,) = fenced(ROOT / "docs/model-answers.md", "py")
    for name in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{name}_API_KEY", "k")
        monkeypatch.setenv(f"{name}_BASE_URL", provider.address)
    module = ModuleType("streams_page")
    monkeypatch.setitem(sys.modules, "streams_page", module)
    exec(compile(program, "models.md", "exec"), vars(module))  # noqa: S102 -- our own page
    provider.clients += [module.gpt, module.claude]

    for wire, model, call in (
        ("anthropic", module.book, module.ask_claude),
        ("openai", module.report, module.ask_gpt),
    ):
        provider.answers, provider.requests = [STREAMED[wire]], []
        assert await model.ask("", "t") == await call("t") == GOOD
        assert [each["stream"] for each in provider.requests] == [True, True]
        provider.answers = [STREAMED[wire][:3]]
        cut = await failure(model.ask("", "t")), await failure(call("t"))
        for found in cut:
            assert found[:2] == (TransientError, "llm.http.malformed_body")
