"""Send one delivery: sign its body, and post it without redirects, within its time.

The signature is that of Standard Webhooks, so that receivers may use their libraries:
`v1,` and the HMAC-SHA256 of `<id>.<timestamp>.<body>`, in base64.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeAlias

from piecework.errors import UsageError
from piecework.webhooks.address import (
    LOOPBACK,
    MIN_SECRET,
    Network,
    check_url,
    is_open,
    literal_address,
)

if TYPE_CHECKING:
    from aiohttp import ClientSession, ThreadedResolver
    from aiohttp.abc import ResolveResult

#: A secret with this beginning is base64, as Standard Webhooks writes secrets.
ENCODED_SECRET = "whsec_"  # noqa: S105 -- the beginning of every secret, not one
USER_AGENT = "piecework-webhooks"


@dataclass(frozen=True, slots=True)
class Post:
    """One attempt: where to, what, and how it is signed; no `repr` shows a secret."""

    url: str = field(repr=False)
    secret: str = field(repr=False)
    event: str
    body: str
    at: float


@dataclass(frozen=True, slots=True)
class Answer:
    """The end of an attempt.

    Attributes:
        reason: Why it failed, without any text of the receiver; empty: it succeeded.
    """

    reason: str = ""


#: Sends one delivery; a failure is an answer.
Send: TypeAlias = Callable[[Post], Awaitable[Answer]]


def headers_of(post: Post) -> dict[str, str]:
    """Return the headers of an attempt; without a secret it is not signed."""
    timestamp = str(int(post.at))
    headers = {
        "content-type": "application/json",
        "user-agent": USER_AGENT,
        "webhook-id": post.event,
        "webhook-timestamp": timestamp,
    }
    if post.secret:
        signed = sign(post.secret, post.event, timestamp, post.body)
        headers["webhook-signature"] = signed
    return headers


def sign(secret: str, event: str, timestamp: str, body: str) -> str:
    """Return the signature of a body."""
    key = secret.encode()
    if secret.startswith(ENCODED_SECRET):
        key = base64.b64decode(secret.removeprefix(ENCODED_SECRET))
    content = f"{event}.{timestamp}.{body}".encode()
    digest = hmac.digest(key, content, hashlib.sha256)
    return f"v1,{base64.b64encode(digest).decode()}"


def check_secret(secret: str) -> None:
    """Refuse a secret that could be guessed, or is not base64.

    Raises:
        UsageError: `webhook.secret.weak`.
    """
    if secret.startswith(ENCODED_SECRET):
        try:
            base64.b64decode(secret.removeprefix(ENCODED_SECRET), validate=True)
        except ValueError as error:
            message = "The secret begins with `whsec_`, but is not base64."
            raise UsageError(message, code="webhook.secret.weak") from error
    if secret and len(secret) < MIN_SECRET:
        message = f"The secret of the webhook is shorter than {MIN_SECRET} characters."
        raise UsageError(message, code="webhook.secret.weak")


@dataclass(slots=True)
class Sender:
    """Posts deliveries over HTTPS; the answer's body is never read.

    A proxy of the environment is not used: it would connect to unchecked addresses.
    """

    timeout_s: float
    networks: Sequence[Network] = ()

    async def __call__(self, post: Post) -> Answer:
        """Post a delivery; return why that failed, or success."""
        import aiohttp  # a process without webhooks does not load it

        try:
            host = check_url(post.url, self.networks)
            check_secret(post.secret)
            async with self._session(host) as session:
                reply = await session.post(
                    post.url,
                    data=post.body.encode(),
                    headers=headers_of(post),
                    allow_redirects=False,
                )
                status = reply.status
                reply.close()
        except UsageError as error:
            return Answer(error.message)
        except TimeoutError:
            return Answer(f"no answer within {self.timeout_s:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Answer(reason_of(error))
        if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            return Answer()
        return Answer(f"HTTP {status}")

    def _session(self, host: str) -> ClientSession:
        """Return a session for one attempt: no cookie, no connection outlives it."""
        import aiohttp

        connector = aiohttp.TCPConnector(
            resolver=checked_resolver(host, self.networks),
            use_dns_cache=False,
            force_close=True,
        )
        return aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=self.timeout_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )


def reason_of(error: Exception) -> str:
    """Return why a connection failed; no text of the error, which may quote the URL."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, RefusedAddressError):
            return "the name of the host leads to a private address"
        cause = cause.__cause__ or getattr(cause, "_os_error", None)
    return type(error).__name__


class RefusedAddressError(OSError):
    """A name has no address that a webhook may have."""


def checked_resolver(name: str, networks: Sequence[Network]) -> ThreadedResolver:
    """Return a resolver that yields only addresses which a webhook may have."""
    from aiohttp import ThreadedResolver

    class Checked(ThreadedResolver):
        async def resolve(
            self, host: str, port: int = 0, *args: Any, **more: Any
        ) -> list[ResolveResult]:
            found = await super().resolve(host, port, *args, **more)
            allowed = [each for each in found if self.allows(each["host"])]
            if not allowed:
                raise RefusedAddressError
            return allowed

        def allows(self, host: str) -> bool:
            address = literal_address(host.partition("%")[0])
            if address is None:
                return False
            if name in LOOPBACK:
                return address.is_loopback
            return is_open(address, networks)

    return Checked()
