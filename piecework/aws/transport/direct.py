"""Read the tables without the SDK, where its rules cannot matter.

The SDK takes a second of CPU until its first request. A command that shows a job takes
less for all else. So two reads of DynamoDB, and an object of the embedded AWS, are
requested here. The SDK repeats each read without a plain success, and sends all else.
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

import botocore
from botocore.exceptions import BotoCoreError

from piecework.aws.endpoint import Endpoint, is_loopback
from piecework.aws.transport.answer import Answer, parse_success
from piecework.aws.transport.connections import Connections
from piecework.aws.transport.genuine import genuine_answer
from piecework.aws.transport.request import Route, encode, new_invocation_id

#: The variables with which the SDK would send a request elsewhere or sign it otherwise.
SPECIAL_VARIABLES: Final = frozenset(
    {
        "AWS_DEFAULT_PROFILE",
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
        "AWS_PROFILE",
        "AWS_USE_DUALSTACK_ENDPOINT",
        "AWS_USE_FIPS_ENDPOINT",
    }
)
#: The variables of proxies, which no request to this machine goes through.
PROXY_VARIABLES: Final = frozenset({"ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY"})
#: The variables with which it would trust another certificate.
CERTIFICATE_VARIABLES: Final = frozenset({"AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"})
TARGET: Final = "DynamoDB_20120810"
EMPTY_SHA256: Final = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#: The regions of the public partition; hosts of the others have another domain.
_REGION: Final = re.compile(
    r"(af|ap|ca|eu|il|me|mx|sa|us)-(central|(north|south)?(east|west)?)-[0-9]"
)


@dataclass(frozen=True, slots=True)
class Credentials:
    """The keys of an AWS user; the token is empty for a permanent key."""

    access_key: str
    secret_key: str
    token: str = ""


@dataclass(frozen=True, slots=True)
class Access:
    """The address of an endpoint, its region, and the keys to sign with."""

    url: str
    region: str
    credentials: Credentials


def find_access(endpoint: Endpoint, environ: Mapping[str, str]) -> Access | None:
    """Return the access that the SDK would find; None if only the SDK can tell.

    For the embedded AWS, the endpoint has the keys. For AWS or an endpoint on this
    machine, region and keys must be in the environment. Then no configuration file may
    exist.
    """
    special = SPECIAL_VARIABLES | (
        frozenset() if endpoint.loopback else PROXY_VARIABLES
    )
    if special & {name.upper() for name in environ}:
        return None
    if endpoint.source == "embedded":
        keys = Credentials(*endpoint.embedded_keys())
        return Access(endpoint.url, endpoint.region, keys)
    credentials, url = keys_of(environ), url_of(endpoint, environ)
    if credentials is None or not url or has_configuration(environ):
        return None
    return Access(url, endpoint.region, credentials)


def keys_of(environ: Mapping[str, str]) -> Credentials | None:
    """Return the keys in the environment."""
    key = environ.get("AWS_ACCESS_KEY_ID", "")
    secret = environ.get("AWS_SECRET_ACCESS_KEY", "")
    token = environ.get("AWS_SESSION_TOKEN", "")
    return Credentials(key, secret, token) if key and secret else None


def url_of(endpoint: Endpoint, environ: Mapping[str, str]) -> str:
    """Return the address of DynamoDB; empty if only the SDK can tell."""
    if not _REGION.fullmatch(endpoint.region):
        return ""
    if endpoint.source == "aws":
        own_certificates = CERTIFICATE_VARIABLES & environ.keys()
        host = f"dynamodb.{endpoint.region}.amazonaws.com"
        return "" if own_certificates else f"https://{host}"
    whole = environ.get("AWS_ENDPOINT_URL", "")
    url = environ.get("AWS_ENDPOINT_URL_DYNAMODB") or whole
    return url if url.startswith("http://") and is_loopback(url) else ""


def tls_context() -> ssl.SSLContext:
    """Return a context with the certificates that the SDK trusts."""
    bundle = Path(str(botocore.__file__)).with_name("cacert.pem")
    return ssl.create_default_context(cafile=str(bundle))


def has_configuration(environ: Mapping[str, str]) -> bool:
    """Return whether the SDK would read a configuration file."""
    named = environ.get("AWS_CONFIG_FILE")
    return Path(named or "~/.aws/config").expanduser().exists()


class DirectReads:
    """A client of one service that requests plain reads itself.

    Args:
        sdk: Returns the client of the SDK, which it opens at the first use.
    """

    def __init__(
        self,
        access: Access,
        connections: Connections,
        sdk: Callable[[], Awaitable[Any]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._access, self._connections = access, connections
        self._sdk, self._clock = sdk, clock
        self._routes: dict[str, Route] = {}

    async def get_item(self, **request: Any) -> Any:
        """Read an item, as the SDK does."""
        return await self._read("GetItem", request)

    async def query(self, **request: Any) -> Any:
        """Read a page of items, as the SDK does."""
        return await self._read("Query", request)

    async def get_object(self, **request: Any) -> Any:
        """Read an object of a bucket that is a path of the endpoint."""
        answer = None
        if request.keys() == {"Bucket", "Key"}:
            path = quote(f"/{request['Bucket']}/{request['Key']}", safe="/-_.~")
            headers = {"X-Amz-Content-SHA256": EMPTY_SHA256}
            route = self._route(path, headers, "s3", "GET")
            answer = await self._send(route, b"")
        if answer is None or answer.status_code != 200:  # noqa: PLR2004 -- a success
            return await (await self._sdk()).get_object(**request)
        return {"Body": Body(answer.body), "ContentLength": len(answer.body)}

    def __getattr__(self, name: str) -> Any:
        """Return any other operation, which the SDK sends."""

        async def send(**request: Any) -> Any:
            return await getattr(await self._sdk(), name)(**request)

        return send

    async def _read(self, operation: str, request: dict[str, Any]) -> Any:
        headers = {
            "X-Amz-Target": f"{TARGET}.{operation}",
            "Content-Type": "application/x-amz-json-1.0",
        }
        route = self._routes.get(operation)
        if route is None:
            route = self._route("/", headers, "dynamodb", "POST")
            self._routes[operation] = route
        answer = await self._send(route, encode(request))
        if answer is not None:
            answer = genuine_answer(route.url, "dynamodb", answer)
        parsed = None if answer is None else parse_success(answer)
        if parsed is None:
            names = {"GetItem": "get_item", "Query": "query"}
            return await getattr(await self._sdk(), names[operation])(**request)
        return parsed

    def _route(
        self, path: str, headers: dict[str, str], service: str, method: str
    ) -> Route:
        access = self._access
        return Route(
            access.url.rstrip("/") + path,
            headers,
            access.credentials,
            access.region,
            service,
            method=method,
        )

    async def _send(self, route: Route, body: bytes) -> Answer | None:
        """Return the answer; None if there is not one. A read may be repeated."""
        attempt = {"invocation-id": new_invocation_id(), "attempt": 1}
        request = route.request(body, self._clock(), attempt)
        try:
            return await self._connections.send(route, request)
        except BotoCoreError:
            return None


@dataclass(frozen=True, slots=True)
class Body:
    """The body of an object, with the part of the SDK's interface that we use."""

    content: bytes

    async def __aenter__(self) -> Self:
        """Return the body itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Do nothing: the whole body is in memory."""

    async def read(self) -> bytes:
        """Return the whole body."""
        return self.content
