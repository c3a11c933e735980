"""What an answer says: a plain success at a glance, all else as the SDK reads it."""

from __future__ import annotations

import json
from typing import Any
from zlib import crc32

from aiobotocore.awsrequest import AioAWSResponse

from piecework.wire.answer import Answer
from piecework.wire.sdk import Sdk

#: With these in it the SDK's parser does more than read the JSON: it leaves out what
#: is null, and decodes what is binary: all of that begins alike.
NULL, BINARY = b"null", b'"B'
NAMES = (b'"B"', b'"BS"', b'"BinaryValue"', b'"BinaryListValues"')


def plainly(answer: Answer) -> dict[str, Any] | None:
    """Return what the SDK would; None if only its parser can tell."""
    body = answer.body
    checksum = answer.headers.get("x-amz-crc32")
    if (
        answer.status_code != 200  # noqa: PLR2004 -- the one that AWS answers with
        or (checksum is not None and checksum != str(crc32(body)))
        or NULL in body
        or (BINARY in body and any(name in body for name in NAMES))
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


async def thoroughly(
    sdk: Sdk, model: Any, url: str, answer: Answer
) -> tuple[AioAWSResponse, dict[str, Any]]:
    """Return an answer as the SDK holds it, and what its parser makes of it."""
    response = {
        "headers": answer.headers,
        "status_code": answer.status_code,
        "context": {"operation_name": model.name},
        "body": answer.body,
    }
    parsed = await sdk.parser.parse(response, model.output_shape)
    if answer.status_code >= 300:  # noqa: PLR2004 -- where the SDK begins, too
        await sdk.add_error_fields(response, parsed, model, sdk.parser)
    headers: Any = answer.headers
    return AioAWSResponse(url, answer.status_code, headers, answer), parsed
