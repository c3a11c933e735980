"""Send a request through the client of a provider's SDK, and read its answer.

A client is used by its methods alone, so that no SDK is a dependency. It may be
asynchronous, or plain: a plain one is called in a thread. In place of a client each
adapter takes an `async` function that returns it. A client that must be opened in the
event loop needs one. An adapter tells the SDK not to retry if the SDK can: the
dependency retries.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlsplit

from piecework.errors.stop_reasons import error_in, stop_error
from piecework.llm.mending import count_of
from piecework.llm.request import (
    ModelAnswer,
    ModelRequest,
    malformed_answer,
    merged,
)
from piecework.llm.schema import closed
from piecework.llm.streams import StreamedChat, StreamedMessage, drain

#: The hosts whose providers have a name of their own in keys and price lists.
HOSTS: Final = {"api.openai.com": "openai", "api.anthropic.com": "anthropic"}
#: The most tokens of an answer of Anthropic that is not streamed: the SDK refuses to
#: wait for more, of some of its models.
MOST_UNSTREAMED: Final = 8_192


@dataclass(frozen=True, slots=True)
class Adapter:
    """A caller for `Model` that knows its provider.

    Attributes:
        provider: Part of the key of each call; two providers may use the same id.
        lanes: The tiers that it can ask for.
    """

    provider: str
    send: Callable[[ModelRequest], Awaitable[ModelAnswer]]
    lanes: frozenset[str] = frozenset()

    async def __call__(self, request: ModelRequest) -> ModelAnswer:
        """Send a request."""
        return await self.send(request)


def openai_chat(
    client: Any, *, provider: str = "", max_tokens_name: str = "", stream: bool = False
) -> Adapter:
    """Return a caller for Chat Completions of OpenAI, or of a compatible address.

    Args:
        client: `AsyncOpenAI(…)` or `OpenAI(…)`, or an async function that returns it.
        provider: The name of the provider; default: the host of the client's address.
        max_tokens_name: The parameter for the limit of tokens; default:
            `max_completion_tokens` at OpenAI, `max_tokens` elsewhere.
        stream: Whether to receive the answer in parts, as a long one needs: no proxy
            then closes a connection that has been silent for minutes.
    """
    name = provider or provider_of(client, "openai")
    limit = max_tokens_name or (
        "max_completion_tokens" if name == "openai" else "max_tokens"
    )

    async def send(request: ModelRequest) -> ModelAnswer:
        messages = [{"role": each.role, "content": each.text} for each in request.turns]
        if request.system:
            messages.insert(0, {"role": "system", "content": request.system})
        body = {
            "model": request.model,
            "messages": messages,
            limit: request.max_tokens,
            **temperature_of(request),
            **openai_format(request),
            **openai_lane(request),
        }
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        opened = await without_retries(client)
        method = opened.chat.completions.create
        answer = await invoke(method, merged(body, request.options))
        if stream:
            chat = StreamedChat()
            await drain(answer, chat.add)
            answer = chat
        usage, notes = getattr(answer, "usage", None), list[str]()
        found = ModelAnswer(
            text="",
            tokens_in=count(usage, "prompt_tokens", notes),
            tokens_out=count(usage, "completion_tokens", notes),
            cached_tokens_in=count(
                part(usage, "prompt_tokens_details"), "cached_tokens"
            ),
            notes=tuple(notes),
            response_model=getattr(answer, "model", None) or "",
            service_tier=part(answer, "service_tier") or "",
        )
        require_no_error(answer, found)
        try:
            choice = answer.choices[0]
            require_no_error(choice, found)
            refused = getattr(choice.message, "refusal", None)
            stopped = "refusal" if refused else choice.finish_reason
            text = text_of(choice.message.content)
        except (AttributeError, IndexError, TypeError) as error:
            raise malformed_answer(name, error, found) from error
        return replace(found, text=text, stop_reason=stopped or "")

    return Adapter(name, send, frozenset({"flex"}))


def openai_lane(request: ModelRequest) -> dict[str, Any]:
    """Return the parameters of a lane; the client waits for its slow answers."""
    if not request.lane:
        return {}
    return {"service_tier": request.lane, "timeout": request.timeout}


def openai_format(request: ModelRequest) -> dict[str, Any]:
    """Return the parameter for structured output."""
    if request.schema is None:
        return {}
    enforced = closed(request.schema)
    schema: dict[str, Any] = {
        "name": request.schema_name,
        "schema": enforced or dict(request.schema),
        "strict": enforced is not None,
    }
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def anthropic_messages(
    client: Any, *, provider: str = "", stream: bool = False
) -> Adapter:
    """Return a caller for Anthropic's Messages.

    A schema that the structured output cannot enforce is sent as a tool that the model
    must use. An answer that may have more than 8,192 tokens is streamed.

    Args:
        client: `AsyncAnthropic(…)`, `Anthropic(…)` or one of its variants for Bedrock
            or Vertex, or an async function that returns it.
        provider: The name of the provider; default: the host of the client's address.
        stream: Whether to receive shorter answers in parts, too.
    """
    name = provider or provider_of(client, "anthropic")

    async def send(request: ModelRequest) -> ModelAnswer:
        body = {
            "model": request.model,
            "messages": [
                {"role": each.role, "content": each.text} for each in request.turns
            ],
            "max_tokens": request.max_tokens,
            **({"system": request.system} if request.system else {}),
            **anthropic_format(request),
        }
        if extra := temperature_of(request):  # the SDK has no parameter for it any more
            body["extra_body"] = extra
        body = merged(body, request.options)
        if is_streamed := stream or body["max_tokens"] > MOST_UNSTREAMED:
            body["stream"] = True
        opened = await without_retries(client)
        answer = await invoke(opened.messages.create, body)
        if is_streamed:
            message = StreamedMessage()
            await drain(answer, message.add)
            answer = message
        usage, notes = getattr(answer, "usage", None), list[str]()
        read = count(usage, "cache_read_input_tokens")
        written = count(usage, "cache_creation_input_tokens")
        found = ModelAnswer(
            text="",
            stop_reason=getattr(answer, "stop_reason", None) or "",
            tokens_in=count(usage, "input_tokens", notes) + read + written,
            tokens_out=count(usage, "output_tokens", notes),
            cached_tokens_in=read,
            cache_write_tokens_in=written,
            notes=tuple(notes),
            response_model=getattr(answer, "model", None) or "",
            service_tier=part(usage, "service_tier") or "",
        )
        require_no_error(answer, found)
        try:
            text = text_of(answer.content, request.schema_name)
        except (AttributeError, TypeError) as error:
            raise malformed_answer(name, error, found) from error
        return replace(found, text=text)

    return Adapter(name, send)


def anthropic_format(request: ModelRequest) -> dict[str, Any]:
    """Return the parameters for structured output."""
    if request.schema is None:
        return {}
    enforced = closed(request.schema)
    if enforced is not None:
        return {
            "output_config": {"format": {"type": "json_schema", "schema": enforced}}
        }
    tool = {"name": request.schema_name, "input_schema": dict(request.schema)}
    return {
        "tools": [tool],
        "tool_choice": {"type": "tool", "name": request.schema_name},
    }


def bedrock_converse(client: Any, *, provider: str = "bedrock") -> Adapter:
    """Return a caller for Converse of Amazon Bedrock.

    The schema is sent as a tool that the model must use, which each version of the SDK
    knows. The key of the call is in `requestMetadata`, for the invocation log.

    Args:
        client: A client `bedrock-runtime` of `piecework.aws.session`, aioboto3 or
            boto3, or an async function that returns it. Configure it with
            `retries={"total_max_attempts": 1}`, and with a `read_timeout` as long as
            that of the model or its lane.
        provider: The name of the provider.
    """

    async def send(request: ModelRequest) -> ModelAnswer:
        limits = {"maxTokens": request.max_tokens, **temperature_of(request)}
        body = {
            "modelId": request.model,
            "messages": [
                {"role": each.role, "content": [{"text": each.text}]}
                for each in request.turns
            ],
            "inferenceConfig": limits,
            **({"system": [{"text": request.system}]} if request.system else {}),
            **bedrock_format(request),
            **bedrock_metadata(request),
            **({"serviceTier": {"type": request.lane}} if request.lane else {}),
        }
        opened = await open_client(client)
        answer = await invoke(opened.converse, merged(body, request.options))
        usage, notes = answer.get("usage"), list[str]()
        read = count(usage, "cacheReadInputTokens")
        written = count(usage, "cacheWriteInputTokens")
        found = ModelAnswer(
            text="",
            stop_reason=answer.get("stopReason") or "",
            tokens_in=count(usage, "inputTokens", notes) + read + written,
            tokens_out=count(usage, "outputTokens", notes),
            cached_tokens_in=read,
            cache_write_tokens_in=written,
            notes=tuple(notes),
            service_tier=part(answer.get("serviceTier"), "type") or "",
        )
        # A guardrail or a filter may answer, and be paid, without a message.
        if not answer.get("output") and stop_error(found.stop_reason):
            return found
        try:
            content = answer["output"]["message"]["content"]
            text = text_of(content, request.schema_name)
        except (KeyError, TypeError, AttributeError) as error:
            raise malformed_answer(provider, error, found) from error
        return replace(found, text=text)

    return Adapter(provider, send, frozenset({"flex"}))


def bedrock_format(request: ModelRequest) -> dict[str, Any]:
    """Return the parameter for structured output."""
    if request.schema is None:
        return {}
    schema = closed(request.schema) or dict(request.schema)
    tool = {"name": request.schema_name, "inputSchema": {"json": schema}}
    choice = {"tool": {"name": request.schema_name}}
    return {"toolConfig": {"tools": [{"toolSpec": tool}], "toolChoice": choice}}


def bedrock_metadata(request: ModelRequest) -> dict[str, Any]:
    """Return the parameter with the key of the call; Bedrock allows 256 characters."""
    key = request.idempotency_key[:256]
    return {"requestMetadata": {"idempotency-key": key}} if key else {}


# ── what the adapters share ───────────────────────────────────────────────────


def temperature_of(request: ModelRequest) -> dict[str, float]:
    """Return the temperature, if the stage set one: some models refuse any."""
    if request.temperature is None:
        return {}
    return {"temperature": request.temperature}


def text_of(content: Any, tool: str = "") -> str:
    """Return the texts of an answer, or what its tool was given, as JSON.

    If the request demands a tool, a turn that asks for another one has no answer,
    whatever it says before.

    Raises:
        TypeError: The content is neither a text nor a list of parts.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list | tuple):
        raise TypeError(type(content).__name__)
    texts = []
    for each in content:
        used = part(each, "toolUse")
        if used is None and part(each, "type") == "tool_use":
            used = each
        if used is not None:
            if tool and part(used, "name") != tool:
                return ""
            given = part(used, "input")
            return given if isinstance(given, str) else json.dumps(given)
        texts.append(each if isinstance(each, str) else part(each, "text") or "")
    return "".join(texts)


def part(whole: Any, name: str) -> Any:
    """Return a part of an answer, of an object or of a mapping; None: it has none."""
    if isinstance(whole, Mapping):
        return whole.get(name)
    return getattr(whole, name, None)


def count(usage: Any, name: str, notes: list[str] | None = None) -> int:
    """Return a number of tokens; an odd one leaves a note, and counts as 0."""
    found = count_of(part(usage, name))
    if found is None and notes is not None:
        notes.append(f"{name} is missing or odd: it counts as 0")
    return found or 0


def require_no_error(answer: Any, found: ModelAnswer) -> None:
    """Refuse an answer that states an error although its status is 200.

    Raises:
        StageError: With the code of the status that it states; `found`: its tokens.
    """
    if (error := error_in(answer)) is not None:
        error.facts["answer"] = found
        raise error


def provider_of(client: Any, default: str) -> str:
    """Return the name of the provider behind a client, by the host of its address."""
    host = urlsplit(str(getattr(client, "base_url", "") or "")).hostname
    return HOSTS.get(host, host) if host else default


async def open_client(client: Any) -> Any:
    """Return the client itself, or what the function for it returns."""
    return await client() if inspect.isroutine(client) else client


async def without_retries(client: Any) -> Any:
    """Return the client of an SDK with its own retries switched off."""
    opened = await open_client(client)
    options = getattr(opened, "with_options", None)
    return opened if options is None else options(max_retries=0)


async def invoke(method: Callable[..., Any], body: Mapping[str, Any]) -> Any:
    """Call a method of a client; a plain one runs in a thread."""
    if inspect.iscoroutinefunction(inspect.unwrap(method)):
        return await method(**body)
    answer = await asyncio.to_thread(method, **body)
    return await answer if inspect.isawaitable(answer) else answer
