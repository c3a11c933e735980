"""Decide which requests the page answers. Pure: no request is sent from here.

The page can change jobs and may show payloads, so each request needs the session of
this start: a secret in a cookie, which the token opens. A page of another site cannot
use an operator's browser to reach it. The `Host` must be the page's own, and browsers
do not send the cookie from other sites. A change needs a form of this page.

Browsers share cookies between all ports of a host. So all addresses of a start are
below a random path, and the cookie belongs to that path. A server on another port does
not know the path, so no browser sends it the cookie.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from hashlib import sha256
from http.client import HTTP_PORT
from typing import Final

from piecework.errors import UsageError

#: The shortest token of an operator's own; one that is generated has 43 characters.
MIN_TOKEN_LENGTH = 16
#: The methods that change nothing.
SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
#: Sent with every answer. Pages load only their own files, and run no script of a
#: document. No page of another site can frame them.
SECURITY_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; "
        "base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # With `no-referrer`, browsers send `Origin: null` with the page's own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Verdict(Enum):
    """The decision about a request."""

    ALLOW = auto()
    #: The address carries the token: set the cookie, and lead to the session's path.
    SIGN_IN = auto()
    #: The `Host` is not this page: another site's name leads to this machine.
    WRONG_HOST = auto()
    #: The path or the cookie is not that of this start.
    NO_SESSION = auto()
    #: The request changes something, but a page of another site sent it.
    FOREIGN_FORM = auto()
    READ_ONLY = auto()


@dataclass(frozen=True, slots=True)
class Request:
    """The parts of a request on which the decision depends.

    Attributes:
        host, origin: The headers; empty if they are missing.
        path: The first part of the path.
        token: The token in the address.
        cookie: The session in the cookie.
    """

    method: str
    host: str
    origin: str = ""
    path: str = ""
    token: str = ""
    cookie: str = ""


@dataclass(frozen=True, slots=True)
class Access:
    """What this start of the page allows.

    Attributes:
        hosts: The values of `Host` that are this page.
        token: The secret that opens a session; it is in no cookie and in no form.
        actions: Whether jobs can be changed.
        payloads: Whether inputs and results are shown.
        session: The secret in the cookie; new at each start.
        path: The first part of every address of this start; new at each start.
    """

    hosts: frozenset[str]
    token: str
    actions: bool
    payloads: bool
    session: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    path: str = field(default_factory=lambda: secrets.token_urlsafe(16))

    @property
    def base(self) -> str:
        """The path of the first page, without a slash at its end."""
        return f"/{self.path}"

    @property
    def form_token(self) -> str:
        """The token in the page's forms; a page of another site cannot read it."""
        return hmac.new(self.session.encode(), b"form", sha256).hexdigest()

    @property
    def cookie(self) -> str:
        """The name of the cookie: no server on another port can plant one beside it."""
        return f"piecework_ui_{self.path}"

    def judge(self, request: Request) -> Verdict:
        """Decide about a request."""
        if request.host.lower() not in self.hosts:
            return Verdict.WRONG_HOST
        if request.method in SAFE_METHODS and equal(request.token, self.token):
            return Verdict.SIGN_IN
        own_path = equal(request.path, self.path)
        if not (equal(request.cookie, self.session) and own_path):
            return Verdict.NO_SESSION
        if request.method in SAFE_METHODS:
            return Verdict.ALLOW
        if request.origin not in {f"http://{request.host}", f"https://{request.host}"}:
            return Verdict.FOREIGN_FORM
        return Verdict.ALLOW if self.actions else Verdict.READ_ONLY

    def is_own_form(self, token: object) -> bool:
        """Return whether a form with this token came from this page."""
        return isinstance(token, str) and equal(token, self.form_token)


def equal(given: str, expected: str) -> bool:
    """Compare two secrets in the same time, whatever the first difference is."""
    return bool(expected) and hmac.compare_digest(given.encode(), expected.encode())


def make_access(
    listen: tuple[str, int],
    token: str,
    *,
    allowed_hosts: Iterable[str] = (),
    allow_actions: bool = False,
    show_payloads: bool = False,
) -> Access:
    """Return what a start allows: all on loopback, only reading elsewhere.

    Args:
        listen: The address and the port on which the page listens.
        token: The operator's own token; empty: one is generated, on loopback only.
        allowed_hosts: Further values of `Host`, such as that of a load balancer.
        allow_actions: Allow changes elsewhere too.
        show_payloads: Show inputs and results elsewhere too.

    Raises:
        UsageError: `cli.usage.invalid`: the token is missing, or too short.
    """
    host, port = listen
    local = is_loopback(host)
    if not (local or token):
        message = f"{host} can be reached from other machines, so a token is required."
        raise UsageError(message, next_step="Set PIECEWORK_UI_TOKEN, or omit --host.")
    if token and len(token) < MIN_TOKEN_LENGTH:
        message = f"The token has fewer than {MIN_TOKEN_LENGTH} characters."
        step = "export PIECEWORK_UI_TOKEN=$(openssl rand -hex 32)"
        raise UsageError(message, next_step=step)
    names = {"127.0.0.1", "localhost", "[::1]"} if local else set()
    names.add(in_url(host).lower())
    own = {f"{name}:{port}" for name in names}
    if port == HTTP_PORT:
        own |= names  # clients leave the port out
    return Access(
        frozenset(own.union(map(str.lower, allowed_hosts))),
        token or secrets.token_urlsafe(32),
        actions=local or allow_actions,
        payloads=local or show_payloads,
    )


def in_url(host: str) -> str:
    """Return a host as it stands in a URL: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
