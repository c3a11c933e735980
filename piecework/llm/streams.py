"""Read the events of a streamed answer as one answer, in the form of the SDK's own.

A stream that ends before its last event has no stop reason then: the answer is cut off.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any


async def drain(stream: Any, add: Callable[[Any], None]) -> None:
    """Hand each event on, and close the stream; a plain one is read in a thread."""
    if hasattr(stream, "__aenter__"):
        async with stream:
            async for event in stream:
                add(event)
        return

    def read() -> None:
        with stream:
            for event in stream:
                add(event)

    await asyncio.to_thread(read)


class StreamedChat:
    """A streamed answer of Chat Completions, as its client returns one whole."""

    def __init__(self) -> None:
        self.usage: Any = None
        self.error: Any = None
        self.model = self.service_tier = ""
        self._parts: list[Any] = []
        self._refusal = ""
        self._reason: Any = None

    def add(self, chunk: Any) -> None:
        """Add the next chunk; the last one may have the usage alone."""
        self.usage = getattr(chunk, "usage", None) or self.usage
        self.error = getattr(chunk, "error", None) or self.error
        self.model = getattr(chunk, "model", None) or self.model
        self.service_tier = getattr(chunk, "service_tier", None) or self.service_tier
        for choice in getattr(chunk, "choices", None) or ():
            if getattr(choice, "index", 0):
                continue  # further answers to the same request
            self._reason = choice.finish_reason or self._reason
            self._refusal += getattr(choice.delta, "refusal", None) or ""
            content = getattr(choice.delta, "content", None)
            self._parts += content if isinstance(content, list) else [content or ""]

    @property
    def choices(self) -> list[Any]:
        """The one answer."""
        message = SimpleNamespace(content=self._parts, refusal=self._refusal)
        return [SimpleNamespace(finish_reason=self._reason, message=message)]


class StreamedMessage:
    """A streamed answer of Anthropic's Messages, as its client returns one whole."""

    def __init__(self) -> None:
        self.usage = SimpleNamespace()
        self.error: Any = None
        self.model = ""
        self._blocks: dict[int, SimpleNamespace] = {}
        self._reason: Any = None
        self._ended = False

    def add(self, event: Any) -> None:
        """Add the next event; events of unknown types are skipped."""
        match event.type:
            case "message_start":
                self._count(event.message.usage)
                self.model = getattr(event.message, "model", None) or ""
            case "content_block_start":
                block = event.content_block
                self._blocks[event.index] = SimpleNamespace(
                    type=block.type,
                    name=getattr(block, "name", None),
                    parts=[getattr(block, "text", None) or ""],
                )
            case "content_block_delta":
                delta, parts = event.delta, self._blocks[event.index].parts
                parts.append(getattr(delta, "text", None) or "")
                parts.append(getattr(delta, "partial_json", None) or "")
            case "message_delta":
                self._reason = event.delta.stop_reason
                self._count(event.usage)
            case "message_stop":
                self._ended = True

    def _count(self, usage: Any) -> None:
        """Take the counts over: a later one is that of the whole answer."""
        found = {
            name: value for name, value in vars(usage).items() if value is not None
        }
        vars(self.usage).update(found)

    @property
    def stop_reason(self) -> Any:
        """Why the model stopped; None before the last event."""
        return self._reason if self._ended else None

    @property
    def content(self) -> list[Any]:
        """The blocks."""
        return [_block(each) for each in self._blocks.values()]


def _block(streamed: SimpleNamespace) -> SimpleNamespace:
    text, given = "".join(streamed.parts), None
    if streamed.type == "tool_use":
        given = text or "{}"
        with suppress(ValueError):  # any other text does not fit, and is repaired
            given = json.loads(given)
    return SimpleNamespace(
        type=streamed.type, name=streamed.name, text=text, input=given
    )
