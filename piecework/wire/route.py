"""Where the requests of one operation go, and their bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from piecework.wire.signing import Signer

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
