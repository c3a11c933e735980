"""Guarantee: the adapters speak the wire formats of OpenAI, Anthropic and Bedrock."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from piecework import TransientError, envelope_of
from piecework.errors import StageError
from piecework.llm import (
    Model,
    ModelRequest,
    Turn,
    anthropic_messages,
    bedrock_converse,
    gemini_content,
    openai_chat,
)
from piecework.llm.adapters import Adapter


class Line(BaseModel):
    """A part of an answer."""

    kind: Literal["a", "b"] = "a"
    cents: int = Field(ge=0, description="In cents.")


class Bill(BaseModel):
    """An answer."""

    lines: list[Line]
    best: Line | None = None


class Open(BaseModel):
    """An answer with keys that the schema does not name."""

    more: dict[str, int]


def objects(value: Any) -> Any:
    """Return JSON as the objects of an SDK."""
    return json.loads(json.dumps(value), object_hook=lambda d: SimpleNamespace(**d))


class Client:
    """A client of each SDK: it keeps the bodies, and answers with one value."""

    def __init__(self, answer: Any, base_url: str = "") -> None:
        self.bodies: list[dict[str, Any]] = []
        self.retries: list[int] = []
        self.answer, self.base_url = answer, base_url
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self.send))
        self.messages = SimpleNamespace(create=self.send)

    def with_options(self, *, max_retries: int) -> Client:
        self.retries.append(max_retries)
        return self

    async def send(self, **body: Any) -> Any:
        self.bodies.append(body)
        return self.answer

    def converse(self, **body: Any) -> Any:  # a plain client: it runs in a thread
        self.bodies.append(body)
        return self.answer


OPENAI = objects(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "large-2026-11",
        "service_tier": "flex",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": "{}", "refusal": None},
            }
        ],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 7,
            "total_tokens": 107,
            "prompt_tokens_details": {"cached_tokens": 64},
        },
    }
)
ANTHROPIC = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "large-2026-11",
    "content": [
        {"type": "thinking", "thinking": "…"},
        {"type": "text", "text": "{}"},
    ],
    "stop_reason": "end_turn",
    "usage": {
        "input_tokens": 20,
        "cache_read_input_tokens": 64,
        "cache_creation_input_tokens": 16,
        "output_tokens": 7,
        "service_tier": "standard",
    },
}
BEDROCK = {
    "output": {
        "message": {
            "role": "assistant",
            "content": [
                {"toolUse": {"toolUseId": "t1", "name": "Bill", "input": {"lines": []}}}
            ],
        }
    },
    "stopReason": "tool_use",
    "serviceTier": {"type": "flex"},
    "usage": {
        "inputTokens": 20,
        "cacheReadInputTokens": 64,
        "cacheWriteInputTokens": 16,
        "outputTokens": 7,
        "totalTokens": 107,
    },
}
REQUEST = ModelRequest(
    system="Read.",
    turns=(Turn("user", "a"), Turn("assistant", "b"), Turn("user", "c")),
    max_tokens=800,
    temperature=0.5,
    options={"top_p": 0.9},
    model="m-1",
    idempotency_key="key-1",
)
CLOSED_LINE = {
    "title": "Line",
    "type": "object",
    "description": "A part of an answer.",
    "properties": {
        "kind": {"type": "string", "title": "Kind", "enum": ["a", "b"]},
        "cents": {
            "type": "integer",
            "title": "Cents",
            "description": 'In cents. ("minimum": 0)',
        },
    },
    "required": ["kind", "cents"],
    "additionalProperties": False,
}
CLOSED = {
    "title": "Bill",
    "type": "object",
    "description": "An answer.",
    "properties": {
        "lines": {
            "type": "array",
            "title": "Lines",
            "items": {"$ref": "#/$defs/Line"},
        },
        "best": {"anyOf": [{"$ref": "#/$defs/Line"}, {"type": "null"}]},
    },
    "required": ["lines", "best"],
    "additionalProperties": False,
    "$defs": {"Line": CLOSED_LINE},
}


async def sent(adapter: Adapter, client: Client, returns: type[BaseModel]) -> Any:
    """Return the body of a request for a class."""
    schema = returns.model_json_schema()
    name = returns.__name__
    await adapter(ModelRequest("", (Turn("user", "a"),), 9, None, schema, name))
    return client.bodies[-1]


async def test_openai_chat_sends_and_reads_chat_completions() -> None:
    client = Client(OPENAI, "https://api.openai.com/v1/")
    adapter = openai_chat(client)
    answer = await adapter(REQUEST)

    assert client.bodies == [
        {
            "model": "m-1",
            "messages": [
                {"role": "system", "content": "Read."},
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": "b"},
                {"role": "user", "content": "c"},
            ],
            "max_completion_tokens": 800,
            "temperature": 0.5,
            "top_p": 0.9,
        }
    ]
    assert client.retries == [0]
    assert adapter.provider == "openai"
    assert (answer.text, answer.stop_reason) == ("{}", "stop")
    assert (answer.response_model, answer.service_tier) == ("large-2026-11", "flex")
    assert (answer.tokens_in, answer.cached_tokens_in, answer.tokens_out) == (
        100,
        64,
        7,
    )

    form = (await sent(adapter, client, Bill))["response_format"]
    expected = {"name": "Bill", "schema": CLOSED, "strict": True}
    assert form == {"type": "json_schema", "json_schema": expected}
    form = (await sent(adapter, client, Open))["response_format"]["json_schema"]
    assert (form["strict"], form["schema"]) == (False, Open.model_json_schema())


async def test_a_compatible_address_is_another_provider() -> None:
    client = Client(OPENAI, "https://llm.example.org:8000/v1")
    adapter = openai_chat(client)

    assert adapter.provider == "llm.example.org"
    assert (await sent(adapter, client, Bill))["max_tokens"] == 9


async def test_anthropic_messages_sends_and_reads_messages() -> None:
    client = Client(objects(ANTHROPIC), "https://api.anthropic.com")
    adapter = anthropic_messages(client)
    options = {"extra_body": {"top_p": 0.9}}
    answer = await adapter(replace(REQUEST, options=options))

    assert client.bodies == [
        {
            "model": "m-1",
            "messages": [
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": "b"},
                {"role": "user", "content": "c"},
            ],
            "system": "Read.",
            "max_tokens": 800,
            "extra_body": {"temperature": 0.5, "top_p": 0.9},
        }
    ]
    assert client.retries == [0]
    assert (answer.text, answer.stop_reason) == ("{}", "end_turn")
    assert (answer.response_model, answer.service_tier) == ("large-2026-11", "standard")
    assert (answer.tokens_in, answer.cached_tokens_in) == (100, 64)
    assert (answer.cache_write_tokens_in, answer.tokens_out) == (16, 7)

    form = (await sent(adapter, client, Bill))["output_config"]["format"]
    assert form == {"type": "json_schema", "schema": CLOSED}
    used = {"type": "tool_use", "id": "t", "name": "Open", "input": {"more": {"a": 1}}}
    answered = {**ANTHROPIC, "content": [used], "stop_reason": "tool_use"}
    model = Model("claude", anthropic_messages(Client(answered_by(answered))))
    assert await model.ask("", "a", returns=Open) == Open(more={"a": 1})


@pytest.mark.parametrize(
    ("adapt", "answer", "expected"),
    [
        (openai_chat, OPENAI, None),
        (
            anthropic_messages,
            objects(ANTHROPIC),
            [
                {
                    "type": "text",
                    "text": "Read.",
                    "cache_control": {"type": "ephemeral"},
                }
            ],
        ),
        (
            bedrock_converse,
            BEDROCK,
            [{"text": "Read."}, {"cachePoint": {"type": "default"}}],
        ),
    ],
)
async def test_a_warm_model_marks_its_prefix_for_the_cache_of_its_provider(
    adapt: Any, answer: Any, expected: Any
) -> None:
    client = Client(answer)
    for warm in (False, True):
        model = Model("m", adapt(client), warm=warm, options={"extra": 1})
        asked = replace(REQUEST, options={}, schema={}, schema_name="Bill")
        await model.complete(asked)
        await model.complete(replace(asked, system=""))

    plain, plain_alone, marked, alone = client.bodies
    assert alone == plain_alone
    assert marked == (plain if expected is None else {**plain, "system": expected})


def answered_by(answer: dict[str, Any]) -> Any:
    """Return an answer as the objects of an SDK, with the input of a tool as JSON."""
    found = objects(answer)
    found.content[0].input = answer["content"][0]["input"]
    return found


GEMINI = {
    "candidates": [
        {
            "finish_reason": "STOP",
            "content": {
                "parts": [
                    {"text": "hm", "thought": True},
                    {"text": "{}", "thought": None},
                ]
            },
        }
    ],
    "model_version": "large-2026-11",
    "usage_metadata": {
        "prompt_token_count": 100,
        "cached_content_token_count": 64,
        "candidates_token_count": 7,
        "thoughts_token_count": 30,
    },
}


class GeminiClient(Client):
    """A client of google-genai."""

    @property
    def aio(self) -> Any:
        return SimpleNamespace(models=SimpleNamespace(generate_content=self.send))


async def test_gemini_content_sends_and_reads_generate_content() -> None:
    client = GeminiClient(objects(GEMINI))
    adapter = gemini_content(client)
    options = {"config": {"top_p": 0.9}}
    answer = await adapter(replace(REQUEST, options=options))

    parts = [("user", "a"), ("model", "b"), ("user", "c")]
    once = {"retry_options": {"attempts": 1}}
    assert client.bodies == [
        {
            "model": "m-1",
            "contents": [{"role": r, "parts": [{"text": t}]} for r, t in parts],
            "config": {
                "http_options": once,
                "system_instruction": {"parts": [{"text": "Read."}]},
                "max_output_tokens": 800,
                "temperature": 0.5,
                "top_p": 0.9,
            },
        }
    ]
    assert adapter.provider == "google"
    assert (answer.text, answer.stop_reason) == ("{}", "STOP")
    assert (answer.response_model, answer.failure(REQUEST)) == ("large-2026-11", None)
    assert (answer.tokens_in, answer.cached_tokens_in, answer.tokens_out) == (
        100,
        64,
        37,
    )

    config = (await sent(adapter, client, Bill))["config"]
    assert config["response_mime_type"] == "application/json"
    assert config["response_json_schema"] == Bill.model_json_schema()


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (
            {**GEMINI, "candidates": None, "prompt_feedback": {"block_reason": "SPII"}},
            "llm.policy.content_filtered",
        ),
        (
            {**GEMINI, "candidates": [{"finish_reason": "MAX_TOKENS"}]},
            "llm.output.truncated",
        ),
        ({**GEMINI, "candidates": []}, "llm.http.malformed_body"),
    ],
)
async def test_an_answer_of_gemini_without_a_text_has_its_code(
    answer: Any, code: str
) -> None:
    model = Model("m", gemini_content(GeminiClient(objects(answer))))
    with pytest.raises(StageError) as caught:
        await model.ask("", "a")
    assert caught.value.code == code
    assert caught.value.facts["usage"].tokens_in == 100


async def test_bedrock_converse_sends_and_reads_converse() -> None:
    client = Client(BEDROCK)
    options = {"inferenceConfig": {"topP": 0.9}}
    answer = await bedrock_converse(client)(replace(REQUEST, options=options))

    assert client.bodies == [
        {
            "modelId": "m-1",
            "messages": [
                {"role": "user", "content": [{"text": "a"}]},
                {"role": "assistant", "content": [{"text": "b"}]},
                {"role": "user", "content": [{"text": "c"}]},
            ],
            "system": [{"text": "Read."}],
            "inferenceConfig": {"maxTokens": 800, "temperature": 0.5, "topP": 0.9},
            "requestMetadata": {"idempotency-key": "key-1"},
        }
    ]
    assert (answer.text, answer.stop_reason) == ('{"lines": []}', "tool_use")
    assert answer.service_tier == "flex"
    assert (answer.tokens_in, answer.cached_tokens_in) == (100, 64)
    assert (answer.cache_write_tokens_in, answer.tokens_out) == (16, 7)

    async def opened() -> Client:  # a client that must be opened in the event loop
        return client

    config = (await sent(bedrock_converse(opened), client, Bill))["toolConfig"]
    assert config == {
        "tools": [{"toolSpec": {"name": "Bill", "inputSchema": {"json": CLOSED}}}],
        "toolChoice": {"tool": {"name": "Bill"}},
    }


GUARDED = {"stopReason": "guardrail_intervened", "usage": {"inputTokens": 20}}
NO = {"finish_reason": "stop", "message": {"content": None, "refusal": "I cannot."}}
REFUSED = objects({"choices": [NO], "usage": None})
NO_CHOICE = objects({"choices": [], "usage": {"prompt_tokens": 20}})
NO_CONTENT = objects({"usage": {"input_tokens": 20}})
NO_OUTPUT = {"usage": GUARDED["usage"]}


@pytest.mark.parametrize(
    ("adapter", "code"),
    [
        (openai_chat(Client(REFUSED)), "llm.policy.refusal"),
        (openai_chat(Client(NO_CHOICE)), "llm.http.malformed_body"),
        (anthropic_messages(Client(NO_CONTENT)), "llm.http.malformed_body"),
        (bedrock_converse(Client(NO_OUTPUT)), "llm.http.malformed_body"),
        (bedrock_converse(Client(GUARDED)), "llm.policy.content_filtered"),
    ],
    ids=["refusal", "no choice", "no content", "no output", "guardrail"],
)
async def test_an_answer_without_a_message_has_its_code(
    adapter: Adapter, code: str
) -> None:
    with pytest.raises(Exception, match=r"\w") as caught:
        await Model("m", adapter).ask("", "a")
    assert envelope_of(caught.value).code == code
    malformed = code == "llm.http.malformed_body"
    assert isinstance(caught.value, TransientError) is malformed
    used = 0 if "refusal" in code else 20
    assert vars(caught.value)["facts"]["usage"].tokens_in == used
