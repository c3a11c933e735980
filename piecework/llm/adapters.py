"""Send a request through the client of a provider's SDK, and read its answer.

A client is used by its methods alone, so that no SDK is a dependency. It may be
asynchronous, or plain: a plain one is called in a thread. In place of a client each
adapter takes an `async` function that returns it. A client that must be opened in the
event loop needs one. An adapter tells the SDK not to retry if the SDK can: the
dependency retries.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from piecework.llm.batches.anthropic_batches import AnthropicBatches
from piecework.llm.batches.gemini_batches import GeminiBatches
from piecework.llm.batches.openai_batches import OpenAIBatches
from piecework.llm.batches.port import BatchProvider
from piecework.llm.chat import chat_body, chat_lane, read_chat
from piecework.llm.clients import invoke, open_client, provider_of, without_retries
from piecework.llm.converse import (
    converse_body,
    converse_lane,
    converse_mark,
    read_converse,
)
from piecework.llm.gemini import ONCE, gemini_body, read_gemini
from piecework.llm.messages import message_body, message_mark, read_message
from piecework.llm.request import ModelAnswer, ModelRequest, merged
from piecework.llm.streams import StreamedChat, StreamedMessage, drain

#: The most tokens of an answer of Anthropic that is not streamed: the SDK refuses to
#: wait for more, of some of its models.
MOST_UNSTREAMED: Final = 8_192
#: Where the clients of Anthropic's models in other clouds are: those have no batches.
_OTHER_CLOUDS: Final = "anthropic.lib."


@dataclass(frozen=True, slots=True)
class Adapter:
    """A caller for `Model` that knows its provider.

    Attributes:
        provider: Part of the key of each call; two providers may use the same id.
        lanes: The tiers that it can ask for.
        batches: Its batches of the same requests; None: it has none.
        cache_mark: Returns the parameters that ask the provider to keep the prefix of a
            request; None: it keeps prefixes by itself.
    """

    provider: str
    send: Callable[[ModelRequest], Awaitable[ModelAnswer]]
    lanes: frozenset[str] = frozenset()
    batches: BatchProvider | None = None
    cache_mark: Callable[[ModelRequest], dict[str, Any]] | None = None

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
        body = chat_body(request, limit) | chat_lane(request)
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        opened = await without_retries(client)
        method = opened.chat.completions.create
        answer = await invoke(method, merged(body, request.options))
        if stream:
            chat = StreamedChat()
            await drain(answer, chat.add)
            answer = chat
        return read_chat(name, answer)

    batches = OpenAIBatches(client, name, limit)
    return Adapter(name, send, frozenset({"flex"}), batches)


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
        body = merged(message_body(request), request.options)
        if is_streamed := stream or body["max_tokens"] > MOST_UNSTREAMED:
            body["stream"] = True
        opened = await without_retries(client)
        answer = await invoke(opened.messages.create, body)
        if is_streamed:
            message = StreamedMessage()
            await drain(answer, message.add)
            answer = message
        return read_message(name, answer, request.schema_name)

    elsewhere = type(client).__module__.startswith(_OTHER_CLOUDS)
    batches = None if elsewhere else AnthropicBatches(client, name)
    return Adapter(name, send, batches=batches, cache_mark=message_mark)


def gemini_content(client: Any, *, provider: str = "google") -> Adapter:
    """Return a caller for generateContent of Gemini.

    Options of `ask` and `Model` are the arguments of the SDK's method:
    `options={"config": {"seed": 7}}`.

    Args:
        client: `genai.Client()` of the package google-genai, or an async function that
            returns it.
        provider: The name of the provider.
    """

    async def send(request: ModelRequest) -> ModelAnswer:
        opened = await open_client(client)
        body = merged(gemini_body(request), request.options)
        body["config"] = {**ONCE, **body["config"]}
        return read_gemini(provider, await opened.aio.models.generate_content(**body))

    return Adapter(provider, send, batches=GeminiBatches(client, provider))


def bedrock_converse(
    client: Any, *, provider: str = "bedrock", batches: BatchProvider | None = None
) -> Adapter:
    """Return a caller for Converse of Amazon Bedrock.

    The schema is sent as a tool that the model must use, which each version of the SDK
    knows. The key of the call is in `requestMetadata`, for the invocation log.

    Args:
        client: A client `bedrock-runtime` of `piecework.aws.session`, aioboto3 or
            boto3, or an async function that returns it. Configure it with
            `retries={"total_max_attempts": 1}`, and with a `read_timeout` as long as
            that of the model or its lane.
        provider: The name of the provider.
        batches: `BedrockBatches(…)`, which needs two more clients, a bucket and a role;
            None: its models have no batch lane.
    """

    async def send(request: ModelRequest) -> ModelAnswer:
        body = converse_body(request) | converse_lane(request)
        opened = await open_client(client)
        answer = await invoke(opened.converse, merged(body, request.options))
        return read_converse(provider, answer, request.schema_name)

    return Adapter(provider, send, frozenset({"flex"}), batches, converse_mark)
