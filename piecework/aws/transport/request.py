"""Where the requests of one operation go, and their bytes."""

from __future__ import annotations

import hmac
import json
import json.encoder
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from botocore.auth import EMPTY_SHA256_HASH, SIGV4_TIMESTAMP, SigV4Auth
from botocore.awsrequest import AWSRequest

PORTS = {"http": 80, "https": 443}


class Route:
    """The way to one operation with one pair of keys.

    Raises:
        ValueError: A header would end before its end.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        credentials: Any,
        region: str,
        service: str,
    ) -> None:
        if credentials.token:
            headers = {**headers, "X-Amz-Security-Token": credentials.token}
        parts = urlsplit(url)
        self.url = url
        self.host = parts.hostname or ""
        self.port = parts.port or PORTS[parts.scheme]
        self.encrypted = parts.scheme == "https"
        self._signer = Signer(url, headers, credentials, region, service)
        own = {"Host": self._signer.host, "Accept-Encoding": "identity"}
        lines = {**own, **headers}
        for text in (*lines.values(), credentials.access_key):
            if "\r" in text or "\n" in text:
                message = "a header holds a line break"
                raise ValueError(message)
        self._head = f"POST {parts.path or '/'} HTTP/1.1\r\n" + "".join(
            f"{name}: {value}\r\n" for name, value in lines.items()
        )

    def request(self, body: bytes, now: float, retries: Mapping[str, object]) -> bytes:
        """Return a request as it is sent."""
        told = ("ttl", "attempt", "max")
        tries = "; ".join(f"{key}={retries[key]}" for key in told if key in retries)
        head = (
            f"{self._head}{self._signer.sign(body, now)}"
            f"amz-sdk-invocation-id: {retries['invocation-id']}\r\n"
            f"amz-sdk-request: {tries}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


# Parameters as JSON: the very bytes that the SDK writes, by an encoder made once.
#
# `json.dumps` makes one for each text, and looks for circles in it, for longer than the
# writing takes; what we send is built in one place and has none.

#: The one in C; None where Python has none.
_MAKE: Any = getattr(json.encoder, "c_make_encoder", None)
#: What it is told: no spaces are left out, nothing is sorted or skipped.
_NO_CIRCLES, _INDENT, _SORTED, _SKIPS, _NAN = None, None, False, False, True


def encoder() -> Callable[[Any], bytes]:
    """Return what writes a value as JSON, and raises `TypeError` for what it cannot."""
    plain = json.JSONEncoder()
    if _MAKE is None:
        return lambda value: plain.encode(value).encode()
    parts = _MAKE(
        _NO_CIRCLES,
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


encoded = encoder()


# AWS's Signature Version 4, of which all but the body and the time is kept.
#
# The canonical form is asked of botocore once for each operation and each pair of keys;
# a request then costs two hashes and one HMAC.

ALGORITHM = "AWS4-HMAC-SHA256"
#: Stands where a request's time goes; no other header can hold it.
SOME_TIME = "00000000T000000Z"


class Signer:
    """Signs the requests of one operation with one pair of keys.

    Attributes:
        host: The header, which is signed, too.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        credentials: Any,
        region: str,
        service: str,
    ) -> None:
        request = AWSRequest(
            "POST", url, {**headers, "X-Amz-Date": SOME_TIME}, data=b""
        )
        botocore = SigV4Auth(credentials, service, region)
        canonical = botocore.canonical_request(request)
        before, after = canonical.removesuffix(EMPTY_SHA256_HASH).split(SOME_TIME)
        self._before, self._after = before, after
        signed = botocore.headers_to_sign(request)
        self._signed = botocore.signed_headers(signed)
        self.host = str(signed["host"])
        self._access_key = credentials.access_key
        self._secret = f"AWS4{credentials.secret_key}".encode()
        self._region, self._service = region, service
        self._second = -1
        self._stamp = self._scope = ""
        self._mac = hmac.new(b"", digestmod=sha256)

    def sign(self, body: bytes, now: float) -> str:
        """Return the headers that date and sign a request."""
        if int(now) != self._second:
            self._begin(int(now))
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

    def _begin(self, second: int) -> None:
        """Take over a second's date, and derive the key of a new day."""
        before, stamp = self._stamp, time.strftime(SIGV4_TIMESTAMP, time.gmtime(second))
        self._second, self._stamp = second, stamp
        if stamp[:8] == before[:8]:
            return
        parts = (stamp[:8], self._region, self._service, "aws4_request")
        key = self._secret
        for part in parts:
            key = hmac.digest(key, part.encode(), "sha256")
        self._scope, self._mac = "/".join(parts), hmac.new(key, digestmod=sha256)
