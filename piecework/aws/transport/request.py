"""The address, the bytes and the signature of the requests of one operation."""

from __future__ import annotations

import hmac
import json
import json.encoder
import os
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

PORTS = {"http": 80, "https": 443}
#: Operations whose parameters and answers are plain JSON, without times or headers.
JSON_OPERATIONS = {
    "update_item": "UpdateItem",
    "put_item": "PutItem",
    "delete_item": "DeleteItem",
    "get_item": "GetItem",
    "batch_get_item": "BatchGetItem",
    "query": "Query",
    "transact_write_items": "TransactWriteItems",
    "batch_execute_statement": "BatchExecuteStatement",
    "batch_write_item": "BatchWriteItem",
    "receive_message": "ReceiveMessage",
    "send_message_batch": "SendMessageBatch",
    "delete_message_batch": "DeleteMessageBatch",
    "change_message_visibility_batch": "ChangeMessageVisibilityBatch",
}


class Route:
    """One operation of one service, with one pair of keys.

    Raises:
        ValueError: A header contains a line break, so it would end too early.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        credentials: Any,
        region: str,
        service: str,
        *,
        method: str = "POST",
    ) -> None:
        if credentials.token:
            headers = {**headers, "X-Amz-Security-Token": credentials.token}
        parts = urlsplit(url)
        self.url = url
        self.host = parts.hostname or ""
        self.port = parts.port or PORTS[parts.scheme]
        self.encrypted = parts.scheme == "https"
        self._signer = Signer(url, headers, credentials, region, service, method)
        own = {"Host": self._signer.host, "Accept-Encoding": "identity"}
        lines = {**own, **headers}
        for text in (*lines.values(), credentials.access_key):
            if "\r" in text or "\n" in text:
                message = "a header contains a line break"
                raise ValueError(message)
        self._head = f"{method} {parts.path or '/'} HTTP/1.1\r\n" + "".join(
            f"{name}: {value}\r\n" for name, value in lines.items()
        )

    def request(self, body: bytes, now: float, retries: Mapping[str, object]) -> bytes:
        """Return the bytes of a request."""
        fields = ("ttl", "attempt", "max")
        attempt = "; ".join(f"{key}={retries[key]}" for key in fields if key in retries)
        head = (
            f"{self._head}{self._signer.sign(body, now)}"
            f"amz-sdk-invocation-id: {retries['invocation-id']}\r\n"
            f"amz-sdk-request: {attempt}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


#: The JSON encoder in C; None if this Python does not have it.
_MAKE: Any = getattr(json.encoder, "c_make_encoder", None)
#: Its arguments: no check for cycles, no indent, no sorting, no skipped keys, NaN.
_NO_CYCLES, _INDENT, _SORTED, _SKIPS, _NAN = None, None, False, False, True


def _base64(value: Any) -> str:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    message = f"JSON has no {type(value).__name__}"
    raise TypeError(message)


def make_encoder() -> Callable[[Any], bytes]:
    """Return a function that writes a value as the JSON that the SDK writes.

    `json.dumps` makes an encoder for each value and searches the value for cycles; this
    takes longer than the writing. Parameters of our requests have no cycles. Bytes
    become Base64, as the SDK writes binary values. The function raises `TypeError` for
    any other value that JSON does not have.
    """
    plain = json.JSONEncoder(default=_base64)
    if _MAKE is None:
        return lambda value: plain.encode(value).encode()
    parts = _MAKE(
        _NO_CYCLES,
        plain.default,
        json.encoder.encode_basestring_ascii,
        _INDENT,
        plain.key_separator,
        plain.item_separator,
        _SORTED,
        _SKIPS,
        _NAN,
    )
    return lambda value: "".join(parts(value, 0)).encode()


encode = make_encoder()

ALGORITHM = "AWS4-HMAC-SHA256"
TIMESTAMP = "%Y%m%dT%H%M%SZ"
#: Headers that a proxy may change, so that the SDK does not sign them.
UNSIGNED = frozenset({"expect", "transfer-encoding", "user-agent", "x-amzn-trace-id"})
#: Marks the place of a request's time; no other header can contain it.
TIME_PLACEHOLDER = "00000000T000000Z"


def host_header(url: str) -> str:
    """Return the `Host` header of a URL; the usual port is omitted."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    usual = parts.port in (None, PORTS[parts.scheme])
    return host if usual else f"{host}:{parts.port}"


class Signer:
    """Signs the requests of one operation with one pair of keys: Signature Version 4.

    The canonical form is made once. A request then costs two hashes and one HMAC.

    Attributes:
        host: The `Host` header, which is signed too.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        credentials: Any,
        region: str,
        service: str,
        method: str = "POST",
    ) -> None:
        self.host = host_header(url)
        signed = {
            name.lower(): " ".join(text.split()) for name, text in headers.items()
        }
        signed |= {"host": self.host, "x-amz-date": TIME_PLACEHOLDER}
        names = sorted(signed.keys() - UNSIGNED)
        self._signed = ";".join(names)
        lines = "".join(f"{name}:{signed[name]}\n" for name in names)
        path = urlsplit(url).path or "/"
        canonical = f"{method}\n{path}\n\n{lines}\n{self._signed}\n"
        self._before, self._after = canonical.split(TIME_PLACEHOLDER)
        self._access_key = credentials.access_key
        self._secret = f"AWS4{credentials.secret_key}".encode()
        self._region, self._service = region, service
        self._second = -1
        self._stamp = self._scope = ""
        self._mac = hmac.new(b"", digestmod=sha256)

    def sign(self, body: bytes, now: float) -> str:
        """Return the date header and the signature header of a request."""
        if int(now) != self._second:
            self._set_second(int(now))
        stamp = self._stamp
        canonical = f"{self._before}{stamp}{self._after}{sha256(body).hexdigest()}"
        digest = sha256(canonical.encode()).hexdigest()
        text = f"{ALGORITHM}\n{stamp}\n{self._scope}\n{digest}"
        mac = self._mac.copy()
        mac.update(text.encode())
        return (
            f"X-Amz-Date: {stamp}\r\n"
            f"Authorization: {ALGORITHM} Credential={self._access_key}/{self._scope}, "
            f"SignedHeaders={self._signed}, Signature={mac.hexdigest()}\r\n"
        )

    def _set_second(self, second: int) -> None:
        """Set the date, and derive the key of a new day."""
        before, stamp = self._stamp, time.strftime(TIMESTAMP, time.gmtime(second))
        self._second, self._stamp = second, stamp
        if stamp[:8] == before[:8]:
            return
        parts = (stamp[:8], self._region, self._service, "aws4_request")
        key = self._secret
        for part in parts:
            key = hmac.digest(key, part.encode(), "sha256")
        self._scope, self._mac = "/".join(parts), hmac.new(key, digestmod=sha256)


def new_invocation_id() -> str:
    """Return an id for a request and its retries, in the SDK's form.

    `uuid4` takes a twentieth of the CPU of a whole request.
    """
    h = os.urandom(16).hex()
    return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-a{h[17:20]}-{h[20:]}"
