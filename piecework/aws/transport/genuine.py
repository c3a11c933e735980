"""Refuse an answer that AWS did not send: a proxy or a portal stands in between.

Each answer of AWS names its request in a header. An answer of DynamoDB has a checksum,
too. Without them a page of a captive portal with status 200 would be an empty success,
and its 403 would be a lack of rights. Such an answer counts as 503: the SDK sends the
request again, and the caller waits as in an outage. Sources: "DynamoDB low-level API"
(`x-amzn-RequestId`, `X-Amz-Crc32`) and "Amazon S3, common response headers"
(`x-amz-request-id`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

from piecework.aws.transport.answer import Answer

#: The ends of the hosts of AWS. An emulator, or a gateway of one's own, need not answer
#: as AWS does.
HOSTS: Final = (
    ".amazonaws.com",
    ".amazonaws.com.cn",
    ".api.aws",
    ".api.amazonwebservices.com.cn",
)
REQUEST_IDS: Final = ("x-amzn-requestid", "x-amz-request-id")
CHECKSUM: Final = "x-amz-crc32"
MESSAGE: Final = (
    "The answer has no id of a request, or no checksum: a proxy or a portal sent it,"
    " not AWS."
)
_ERROR: Final = f"<Error><Code>ServiceUnavailable</Code><Message>{MESSAGE}</Message>"
_JSON: Final = f'{{"__type": "ServiceUnavailable", "message": "{MESSAGE}"}}'.encode()
#: The error in the form of each protocol; any other one is JSON.
_BODIES: Final = {
    "rest-xml": f"{_ERROR}</Error>".encode(),
    "query": f"<ErrorResponse>{_ERROR}</Error></ErrorResponse>".encode(),
}


def require_genuine(client: Any) -> None:
    """Let an SDK client refuse what AWS did not send; other hosts may send all."""
    if not is_aws(str(client.meta.endpoint_url)):
        return
    service = client.meta.service_model
    name = str(service.service_id.hyphenize())
    body = _BODIES.get(service.resolved_protocol, _JSON)

    def refuse(response_dict: dict[str, Any], **_: Any) -> None:
        status, headers = response_dict["status_code"], response_dict["headers"]
        if not is_genuine(status, headers, name):
            response_dict |= {
                "status_code": HTTPStatus.SERVICE_UNAVAILABLE,
                "body": body,
            }

    events = client.meta.events
    events.register_first(f"before-parse.{name}.*", refuse)
    events.register_first(f"needs-retry.{name}.*", _copy_status)


def _copy_status(response: Any = None, **_: Any) -> None:
    """Let the SDK's rules see the status that the parser has seen."""
    if response is not None:
        http, parsed = response
        http.status_code = parsed["ResponseMetadata"]["HTTPStatusCode"]


def genuine_answer(url: str, service: str, answer: Answer) -> Answer:
    """Return an answer of the thin transport; a 503 for one that is not of AWS."""
    if not is_aws(url) or is_genuine(answer.status_code, answer.headers, service):
        return answer
    return replace(answer, status_code=HTTPStatus.SERVICE_UNAVAILABLE, body=_JSON)


def is_aws(url: str) -> bool:
    """Return whether a URL has a host of AWS."""
    return (urlsplit(url).hostname or "").endswith(HOSTS)


def is_genuine(status: int, headers: Mapping[str, str], service: str) -> bool:
    """Return whether AWS has sent an answer with these headers."""
    known = any(name in headers for name in REQUEST_IDS)
    checked = service != "dynamodb" or status != HTTPStatus.OK or CHECKSUM in headers
    return known and checked
