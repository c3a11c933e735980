"""Parse an HTTP/1.1 answer from the bytes that have arrived so far."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from zlib import crc32

#: Longest head of an answer, in bytes; heads of AWS have less than 1 KB.
HEAD_LIMIT = 64 * 1024
#: Longest body of an answer, in bytes. The largest is that of a cancelled transaction,
#: with up to 4 MB of items; JSON writes a byte as six at most.
BODY_LIMIT = 32 * 1024 * 1024
STATUSES_WITHOUT_BODY = frozenset({204, 304})
STATUS = re.compile("[2-9][0-9]{2}", re.ASCII)
LENGTH = re.compile("[0-9]{1,15}", re.ASCII)
CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,12})[ \t]*")

#: The SDK's parser omits nulls and decodes binary values, so it must read a body that
#: may contain one. All names of binary values begin with `"B`.
NULL, BINARY = b"null", b'"B'
BINARY_NAMES = (b'"B"', b'"BS"', b'"BinaryValue"', b'"BinaryListValues"')


class MalformedError(ValueError):
    """The server sent something else than one acceptable answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a request.

    Attributes:
        headers: By name in lower case. The last one of several counts, as in the SDK.
        closes: Whether the connection ends with this answer.
    """

    status_code: int
    headers: dict[str, str]
    body: bytes
    closes: bool

    async def read(self) -> bytes:
        """Return the body; the SDK's parser awaits it."""
        return self.body


def parse_answer(received: bytes, *, ended: bool = False) -> Answer | None:
    """Return the answer, or None while it is incomplete.

    Args:
        received: All bytes since the request was sent.
        ended: Whether the server has closed the connection. An answer without a length
            ends there.

    Raises:
        MalformedError: The bytes are not one answer, or the answer is too large.
    """
    end = received.find(b"\r\n\r\n")
    if end < 0:
        if len(received) > HEAD_LIMIT:
            message = "the head does not end"
            raise MalformedError(message)
        return None
    first, *lines = received[:end].decode("utf-8", "replace").split("\r\n")
    version, _, rest = first.partition(" ")
    status = STATUS.fullmatch(rest.partition(" ")[0])
    if not version.startswith("HTTP/1.") or status is None:
        message = "the first line is not the status line of an answer"
        raise MalformedError(message)
    code = int(status[0])
    headers = parse_headers(lines)
    body = parse_body(code, headers, received[end + 4 :], ended=ended)
    if body is None:
        return None
    closes = version == "HTTP/1.0" or "close" in headers.get("connection", "").lower()
    return Answer(code, headers, body, closes=closes or ended)


def parse_headers(lines: list[str]) -> dict[str, str]:
    """Return the headers by name in lower case.

    Raises:
        MalformedError: A header has no name, or two lengths contradict each other.
    """
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            message = "a header has no name"
            raise MalformedError(message)
        name, value = name.lower(), value.strip()
        if name == "content-length" and headers.get(name, value) != value:
            message = "there are two different lengths"
            raise MalformedError(message)
        headers[name] = value
    return headers


def parse_body(
    status: int, headers: dict[str, str], rest: bytes, *, ended: bool
) -> bytes | None:
    """Return the body, or None while it is incomplete.

    An answer with a length and with chunks is refused. A proxy may believe the other of
    the two: then bytes of one answer are taken for the next one.

    Raises:
        MalformedError: The length is ambiguous, wrong or above `BODY_LIMIT`.
    """
    if "chunked" in headers.get("transfer-encoding", "").lower():
        if "content-length" in headers:
            message = "the body has a length and chunks"
            raise MalformedError(message)
        return parse_chunks(rest)
    length = headers.get(
        "content-length", "0" if status in STATUSES_WITHOUT_BODY else None
    )
    if length is None:
        require_body_size(len(rest))
        return rest if ended else None
    if LENGTH.fullmatch(length) is None:
        message = "the length is not a number"
        raise MalformedError(message)
    size = int(length)
    require_body_size(size)
    if len(rest) > size:
        message = "the body is longer than announced"
        raise MalformedError(message)
    return rest if len(rest) == size else None


def parse_chunks(rest: bytes) -> bytes | None:
    """Return a body of chunks, or None while it is incomplete.

    Raises:
        MalformedError: A chunk is malformed, or chunks and their sizes are longer than
            `BODY_LIMIT` together.
    """
    require_body_size(len(rest))
    parts: list[bytes] = []
    start = 0
    while True:
        end = rest.find(b"\r\n", start)
        if end < 0:
            return None
        size = CHUNK_SIZE.fullmatch(rest[start:end].partition(b";")[0])
        if size is None:
            message = "a chunk has no size"
            raise MalformedError(message)
        length = int(size[1], 16)
        if length == 0:
            return b"".join(parts) if is_complete(rest, end) else None
        start = end + 2 + length + 2
        require_body_size(start)
        if len(rest) < start:
            return None
        if rest[start - 2 : start] != b"\r\n":
            message = "a chunk is longer than its size"
            raise MalformedError(message)
        parts.append(rest[end + 2 : start - 2])


def is_complete(rest: bytes, last: int) -> bool:
    """Return whether a body of chunks is complete.

    Args:
        rest: The body.
        last: Where the line of the last chunk ends. Trailers up to an empty line may
            follow; they are ignored.

    Raises:
        MalformedError: Bytes follow the body.
    """
    end = rest.find(b"\r\n\r\n", last)
    if 0 <= end < len(rest) - 4:
        message = "bytes follow the answer"
        raise MalformedError(message)
    return end >= 0


def require_body_size(size: int) -> None:
    """Refuse a body before more of it is kept.

    Raises:
        MalformedError: The body is longer than `BODY_LIMIT`.
    """
    if size > BODY_LIMIT:
        message = f"the body has more than {BODY_LIMIT:,} bytes"
        raise MalformedError(message)


def matches_checksum(answer: Answer) -> bool:
    """Return whether the body matches its checksum; DynamoDB sends one."""
    checksum = answer.headers.get("x-amz-crc32")
    return checksum is None or checksum == str(crc32(answer.body))


def parse_success(answer: Answer) -> dict[str, Any] | None:
    """Return what the SDK would return; None if only its parser can tell."""
    body = answer.body
    if (
        answer.status_code != HTTPStatus.OK
        or not matches_checksum(answer)
        or NULL in body
        or (BINARY in body and any(name in body for name in BINARY_NAMES))
    ):
        return None
    try:
        parsed = json.loads(body.decode())
    except ValueError:
        return None
    if not isinstance(parsed, dict):
        return None
    metadata: dict[str, Any] = {
        "HTTPStatusCode": answer.status_code,
        "HTTPHeaders": answer.headers,
    }
    if "x-amzn-requestid" in answer.headers:
        metadata["RequestId"] = answer.headers["x-amzn-requestid"]
    parsed["ResponseMetadata"] = metadata
    return parsed
