"""A provider of answers of 2 KB that counts what it receives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random

#: Bytes of an answer.
ANSWER_BYTES = 2048
#: Words of fictitious text: zlib packs it to under a half, as it packs English.
SYLLABLES = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
WORDS = ["".join(Random(n).choices(SYLLABLES, k=1 + n % 4)) for n in range(3000)]
#: Bytes that TLS and TCP add to a request of a few kilobytes, with its part of the
#: acknowledgements of the answer: 22 of a TLS record, 52 of each of five segments.
WIRE_BYTES = 22 + 5 * 52


@dataclass(slots=True)
class Provider:
    """Answers requests of Anthropic's protocol.

    Attributes:
        latency_s: Seconds until an answer.
        received: Bytes of all requests: lines, headers and bodies.
        calls: Requests.
    """

    latency_s: float
    received: int = 0
    calls: int = 0

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer the requests of one connection."""
        while head := await read_head(reader):
            size = length_of(head)
            await reader.readexactly(size)
            self.received += len(head) + size
            self.calls += 1
            await asyncio.sleep(self.latency_s)
            writer.write(answer(size, self.calls))
            await writer.drain()
        writer.close()


async def read_head(reader: asyncio.StreamReader) -> bytes:
    """Return the lines before a body; empty at the end of the connection."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


def length_of(head: bytes) -> int:
    """Return the length of the body."""
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def text(number: int) -> str:
    """Return the text of an answer; each call has another one."""
    words = Random(number).choices(WORDS, k=ANSWER_BYTES // 2)
    return " ".join(words)[:ANSWER_BYTES]


def answer(size: int, number: int) -> bytes:
    """Return the answer to a request with a body of a size."""
    body = json.dumps(
        {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "model",
            "content": [{"type": "text", "text": text(number)}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": size // 4, "output_tokens": ANSWER_BYTES // 4},
        }
    ).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n"
    return head.encode() + b"content-type: application/json\r\n\r\n" + body


@asynccontextmanager
async def running(latency_s: float) -> AsyncIterator[tuple[Provider, str]]:
    """Run a provider; yield it with its address."""
    provider = Provider(latency_s)
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield provider, f"http://127.0.0.1:{port}"
    finally:
        server.close()
