"""Answers on their way out: of AWS's JSON protocols, and the bytes of any of them."""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Any, TypeAlias

from botocore.exceptions import ClientError

JSON = "application/x-amz-json-1.0"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request is answered with.

    Attributes:
        size: What is said to be the body's length; None: what it is.
        units: What DynamoDB bills for it.
    """

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": JSON})
    size: int | None = None
    units: float = 0

    def encode(self, now: float) -> bytes:
        """Return it, as it is sent."""
        size = len(self.body) if self.size is None else self.size
        lines = "".join(f"{name}: {text}\r\n" for name, text in self.headers.items())
        return (
            f"{first_lines(self.status, int(now))}{lines}Content-Length: {size}\r\n\r\n"
        ).encode() + self.body


Respond: TypeAlias = Callable[[Answer], None]


@lru_cache(maxsize=64)
def first_lines(status: int, second: int) -> str:
    """Return how an answer of this second begins."""
    date = formatdate(second, usegmt=True)
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nDate: {date}\r\n"


def encode_binary(content: bytes) -> str:
    """Return a binary value as JSON carries it."""
    return b64encode(content).decode()


#: No answer holds itself, which would have to be looked for.
written = json.JSONEncoder(default=encode_binary, check_circular=False).encode


def ok_answer(document: Mapping[str, Any], units: float = 0) -> Answer:
    """Return the answer of a request that was done."""
    return Answer(HTTPStatus.OK, written(document).encode(), units=units)


def unknown_operation(why: object) -> Answer:
    """Return the error for an unmodelled operation; the log shows it."""
    sys.stderr.write(f"not modelled: {why}\n")
    said = {"__type": "NotImplemented", "message": f"not modelled: {why}"}
    return Answer(HTTPStatus.NOT_IMPLEMENTED, json.dumps(said).encode())


def error_document(error: ClientError) -> dict[str, Any]:
    """Return the body of an error."""
    said: Mapping[str, Any] = error.response
    parts = {k: v for k, v in said.items() if k not in {"Error", "ResponseMetadata"}}
    code = said["Error"]["Code"].rpartition(".")[2]
    return {"__type": code, **parts, "message": said["Error"]["Message"]}
