"""An answer of HTTP/1.1, read from the bytes that have come so far."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Bytes of a head beyond which it is none.
HEAD_LIMIT = 64 * 1024
NO_BODY = frozenset({204, 304})
#: What a length may be; more digits are none that anybody means.
LENGTH = re.compile("[0-9]{1,15}", re.ASCII)
CHUNK = re.compile(rb"([0-9a-fA-F]{1,12})[ \t]*")


class MalformedError(ValueError):
    """What came is no answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back.

    Attributes:
        headers: By their names in small letters; of several the last, as in the SDK.
        last: The connection carries no further one.
    """

    status_code: int
    headers: dict[str, str]
    body: bytes
    last: bool

    async def read(self) -> bytes:
        """Return the body, to whoever expects it to be on its way."""
        return self.body


def read(received: bytes, *, ended: bool = False) -> Answer | None:
    """Return the answer; None while it is not complete.

    `ended`: no more will come, which is how some answers say that they are complete.

    Raises:
        MalformedError: It is no answer, or there is more than one.
    """
    end = received.find(b"\r\n\r\n")
    if end < 0:
        if len(received) > HEAD_LIMIT:
            message = "the head does not end"
            raise MalformedError(message)
        return None
    first, *lines = received[:end].decode("utf-8", "replace").split("\r\n")
    version, _, rest = first.partition(" ")
    code = rest[:3]
    if not version.startswith("HTTP/1.") or not code.isdigit() or code < "200":
        message = "it does not begin as an answer does"
        raise MalformedError(message)
    status = int(code)
    headers = headers_of(lines)
    body = body_of(status, headers, received[end + 4 :], ended=ended)
    if body is None:
        return None
    closing = version == "HTTP/1.0" or "close" in headers.get("connection", "").lower()
    return Answer(status, headers, body, last=closing or ended)


def headers_of(lines: list[str]) -> dict[str, str]:
    """Return the headers, by their names in small letters."""
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            message = "a header has no name"
            raise MalformedError(message)
        headers[name.lower()] = value.strip()
    return headers


def body_of(
    status: int, headers: dict[str, str], rest: bytes, *, ended: bool
) -> bytes | None:
    """Return the body, if all of it is there."""
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return in_chunks(rest)
    length = headers.get("content-length", "0" if status in NO_BODY else None)
    if length is None:
        return rest if ended else None
    if LENGTH.fullmatch(length) is None:
        message = "its length is no number"
        raise MalformedError(message)
    if len(rest) > int(length):
        message = "there is more than was announced"
        raise MalformedError(message)
    return rest if len(rest) == int(length) else None


def in_chunks(rest: bytes) -> bytes | None:
    """Return a body that came in chunks, if all of it is there."""
    parts: list[bytes] = []
    at = 0
    while True:
        end = rest.find(b"\r\n", at)
        if end < 0:
            return None
        size = CHUNK.fullmatch(rest[at:end].partition(b";")[0])
        if size is None:
            message = "a chunk has no size"
            raise MalformedError(message)
        length = int(size[1], 16)
        if length == 0:
            return b"".join(parts) if ends(rest, end) else None
        at = end + 2 + length + 2
        if len(rest) < at:
            return None
        if rest[at - 2 : at] != b"\r\n":
            message = "a chunk is longer than it says"
            raise MalformedError(message)
        parts.append(rest[end + 2 : at - 2])


def ends(rest: bytes, last: int) -> bool:
    """Say whether a body in chunks is complete; `last`: where its last line ends.

    What may follow the last chunk, up to an empty line, says nothing of the body.
    """
    end = rest.find(b"\r\n\r\n", last)
    if 0 <= end < len(rest) - 4:
        message = "there is more than an answer"
        raise MalformedError(message)
    return end >= 0
