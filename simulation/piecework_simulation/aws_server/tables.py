"""The HTTP side of DynamoDB: its JSON protocol."""

from __future__ import annotations

import json
from base64 import b64decode
from http import HTTPStatus
from typing import Any

from botocore.exceptions import ClientError

from piecework_simulation.aws.dynamodb import KNOWN, DynamoDB
from piecework_simulation.aws_server.http import (
    Answer,
    error_document,
    ok_answer,
    unknown_operation,
    written,
)

#: The method of the model for each operation of AWS.
OPERATIONS = {name.title().replace("_", ""): name for name in KNOWN}
#: What only a binary value has in its request.
BINARY, BINARIES = b'"B"', b'"BS"'


class Tables:
    """The tables that the model has from its start."""

    def __init__(self, model: DynamoDB) -> None:
        self._model = model

    @property
    def took_s(self) -> float:
        """Seconds after which the answer to the last request is sent."""
        return self._model.took_s

    def handle(self, action: str, body: bytes) -> Answer:
        """Answer a request."""
        request = read_request(body)
        request.pop("ReturnConsumedCapacity", None)
        try:
            if action == "DescribeTable":
                return self._describe(request["TableName"])
            if action not in OPERATIONS:
                return unknown_operation(action)
            return ok_answer(self._model.call(OPERATIONS[action], request))
        except ClientError as error:
            said = written(error_document(error))
            return Answer(HTTPStatus.BAD_REQUEST, said.encode())
        except NotImplementedError as why:
            return unknown_operation(why)

    def _describe(self, name: str) -> Answer:
        """Return that a table exists, or the error of a read."""
        self._model.call("scan", {"TableName": name, "Limit": 1})
        return ok_answer({"Table": {"TableName": name, "TableStatus": "ACTIVE"}})


def read_request(body: bytes) -> dict[str, Any]:
    """Return the document of a request."""
    request: dict[str, Any] = json.loads(body)
    if BINARY in body or BINARIES in body:
        decoded: dict[str, Any] = decode_binary(request)
        return decoded
    return request


def decode_binary(document: Any) -> Any:
    """Return a request with its binary values as bytes."""
    if isinstance(document, list):
        return [decode_binary(part) for part in document]
    if not isinstance(document, dict):
        return document
    match document:
        case {"B": str(text), **rest} if not rest:
            return {"B": b64decode(text)}
        case {"BS": list(texts), **rest} if not rest:
            return {"BS": [b64decode(text) for text in texts]}
    return {name: decode_binary(part) for name, part in document.items()}
