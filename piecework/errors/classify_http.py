"""Errors that carry an HTTP response: aiohttp, httpx, requests, urllib."""

from __future__ import annotations

import errno
import re
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final

from piecework.errors.causes import causes, library_name, mro, type_names
from piecework.errors.classify_exhaustion import lacks_resources
from piecework.errors.codes import ErrorClass, lookup
from piecework.errors.verdict import Verdict

_OK: Final = range(200, 300)
#: The statuses of errors.
FAILED: Final = range(400, 600)


def from_http_response(
    error: BaseException, layer: str, now: float | None
) -> Verdict | None:
    """Classify by the status; a wrong content type with a 2xx is a malformed body."""
    answer = http_answer(error)
    if answer is None:
        return None
    code = status_code(layer, answer.status)
    own = answer.own_class(code, is_conflict_retried=hasattr(error, "http_status"))
    if answer.status in _OK and "ContentTypeError" in type_names(error):
        code = f"{layer}.http.malformed_body"
    code_attribute = vars(error).get("code")
    return Verdict(
        code,
        http_status=answer.status,
        provider_code=code_attribute if isinstance(code_attribute, str) else None,
        retry_after=answer.retry_after(now),
        own_class=own,
    )


# ── find the HTTP response of an error ────────────────────────────────────────

_STATUSES: Final = range(100, 600)
_ERRORS: Final = range(400, 600)
_CONFLICT: Final = 409
#: The headers with which a provider says whether to retry.
_SHOULD_RETRY: Final = ("x-should-retry", "stripe-should-retry")


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The status and the headers of a response."""

    status: int
    headers: object

    def retry_after(self, now: float | None) -> float | None:
        """Return the seconds of the Retry-After; None without the header."""
        return retry_after(self.headers, now)

    def own_class(
        self, code: str, *, is_conflict_retried: bool = False
    ) -> ErrorClass | None:
        """Return the class that the provider asks for; None: that of the code.

        Model providers and Stripe say in a header whether to retry, and their SDKs obey
        it. A refusal by a rule stays one. Stripe's SDK also retries a conflict.
        """
        known = lookup(code).error_class
        if known not in {ErrorClass.TRANSIENT, ErrorClass.PERMANENT}:
            return None
        said = {_lower(self.headers).get(name) for name in _SHOULD_RETRY}
        if "false" in said:
            return ErrorClass.PERMANENT
        if "true" in said or (is_conflict_retried and self.status == _CONFLICT):
            return ErrorClass.TRANSIENT
        return None


def http_answer(error: BaseException) -> HttpAnswer | None:
    """Return the response of an error; None: it has none."""
    response = getattr(error, "response", None)
    status = _status(response)  # httpx, requests, Anthropic, OpenAI
    if status is not None:
        return HttpAnswer(status, getattr(response, "headers", None))
    # aiohttp, urllib, Cohere, Mistral · Stripe · Google
    status = _status(error) or _status_in(error, "http_status", "code")
    if status is not None:
        return HttpAnswer(status, getattr(error, "headers", None))
    return None


def _status_in(error: BaseException, *names: str) -> int | None:
    """Read a status of an error from an attribute that could mean something else.

    No property is read: some libraries warn in one.
    """
    own, shared = vars(error), type(error)
    values = (own.get(name, getattr(shared, name, None)) for name in names)
    return next((v for v in values if isinstance(v, int) and v in _ERRORS), None)


def _status(holder: object) -> int | None:
    """Read `status_code`, or `status` if the object also has headers."""
    value = getattr(holder, "status_code", None)
    if value is None and hasattr(holder, "headers"):
        value = getattr(holder, "status", None)
    is_status = isinstance(value, int) and value in _STATUSES
    return value if is_status else None


# ── map an HTTP status to a code ──────────────────────────────────────────────

_KNOWN: Final = {
    400: "400_bad_request",
    401: "401_unauthenticated",
    403: "403_forbidden",
    404: "404_not_found",
    408: "408_timeout",
    409: "409_conflict",
    413: "413_too_large",
    422: "422_unprocessable",
    425: "425_too_early",
    429: "429_rate_limited",
    500: "500_server_error",
    502: "502_bad_gateway",
    503: "503_unavailable",
    504: "504_gateway_timeout",
    529: "529_overloaded",
}
_FAMILIES: Final = {4: "4xx_rejected", 5: "5xx_failed"}


def status_code(layer: str, status: int) -> str:
    """Return the code of a status; a status without a row uses that of its family."""
    family = _FAMILIES.get(status // 100, "unexpected_status")
    return f"{layer}.http.{_KNOWN.get(status, family)}"


# ── errors of the operating system ────────────────────────────────────────────

_NETWORK: Final = frozenset(
    {
        errno.EADDRNOTAVAIL,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.ENETRESET,
        errno.ENETUNREACH,
        errno.ENOTCONN,
    }
)


def from_operating_system(
    error: BaseException, layer: str, _now: float | None
) -> Verdict | None:
    """Classify by errno; a missing or forbidden file is an error of the stage."""
    if not isinstance(error, OSError):
        return None
    # asyncio joins failed connections to several addresses in an OSError without errno
    has_no_errno = type(error) is OSError and error.errno is None
    is_signal = isinstance(error, InterruptedError)
    if error.errno in _NETWORK or has_no_errno or is_signal:
        return Verdict(f"{layer}.connection.failed")
    return None


# ── read a Retry-After ────────────────────────────────────────────────────────

_SECONDS: Final = re.compile(r"\d{1,9}(\.\d{1,9})?")


def retry_after(headers: object, now: float | None) -> float | None:
    """Return the seconds to wait; None: there is no valid Retry-After."""
    values = _lower(headers)
    if _SECONDS.fullmatch(exact := values.get("retry-after-ms", "")):
        return float(exact) / 1000  # sent by OpenAI and Azure
    return _seconds(values.get("retry-after", ""), now)


def _lower(headers: object) -> dict[str, str]:
    """Return headers by their names in lower case."""
    items = getattr(headers, "items", None)  # the headers of every HTTP library have it
    if not callable(items):
        return {}
    return {str(name).lower(): str(value).strip() for name, value in items()}


def _seconds(value: str, now: float | None) -> float | None:
    if _SECONDS.fullmatch(value):
        return float(value)
    if now is not None:
        # OverflowError: a year out of range
        with suppress(ValueError, OverflowError):
            return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    return None


# ── answers that cannot be decoded: only a call may be repeated for one ──────

# The first part of the module of a type, and its name. JSON decoders derive their
# errors from ValueError, as much else does, so the name alone would not tell.
_DECODING: Final = frozenset(
    {
        ("aiohttp", "ClientPayloadError"),
        ("builtins", "UnicodeDecodeError"),
        ("httpx", "DecodingError"),
        ("json", "JSONDecodeError"),
        ("msgspec", "DecodeError"),
        ("orjson", "JSONDecodeError"),
        ("pydantic", "ValidationError"),
        ("pydantic_core", "ValidationError"),
        ("requests", "ContentDecodingError"),
        ("requests", "JSONDecodeError"),
        ("simplejson", "JSONDecodeError"),
        ("urllib3", "DecodeError"),
        ("xml", "ParseError"),
    }
)


def from_decoding(
    error: BaseException, layer: str, _now: float | None
) -> Verdict | None:
    """Classify by module and name of the error's type and its bases."""
    names = {library_name(each) for each in mro(error)}
    return Verdict(f"{layer}.http.malformed_body") if names & _DECODING else None


# ── calls without an answer ───────────────────────────────────────────────────


def _types(names: str) -> frozenset[tuple[str, str]]:
    pairs = (each.partition(".") for each in names.split())
    return frozenset((library, name) for library, _, name in pairs)


# By library and name: other libraries have the same names with another meaning.
_BY_LIBRARY: Final = (
    # what a client refuses to send
    (
        _types(
            "aiohttp.InvalidURL http.InvalidURL httpx.InvalidURL"
            " httpx.LocalProtocolError httpx.UnsupportedProtocol"
            " requests.InvalidHeader requests.InvalidSchema requests.InvalidURL"
            " requests.MissingSchema urllib3.LocationValueError"
        ),
        "request.invalid",
    ),
    (
        _types("httpx.TooManyRedirects requests.TooManyRedirects"),
        "http.unexpected_status",
    ),
    (
        _types(
            "http.BadStatusLine http.IncompleteRead http.LineTooLong"
            " requests.ChunkedEncodingError requests.ContentDecodingError"
            " urllib3.DecodeError urllib3.IncompleteRead"
        ),
        "http.malformed_body",
    ),
    (_types("requests.RetryError urllib3.ResponseError"), "http.5xx_failed"),
    (_types("urllib3.TimeoutError"), "connection.timeout"),
    (
        _types(
            "builtins.EOFError httpx.StreamError stripe.APIConnectionError"
            " urllib3.NewConnectionError urllib3.ProtocolError urllib3.ProxyError"
        ),
        "connection.failed",
    ),
)

# The order matters: many timeouts are also errors of the connection.
_DETAILS: Final = (
    # builtin and asyncio; aiohttp's are subclasses · httpx · requests
    (frozenset({"TimeoutError", "TimeoutException", "Timeout"}), "connection.timeout"),
    # aiohttp: the body ended early · http.client · httpx
    (
        frozenset({"ClientPayloadError", "IncompleteRead", "DecodingError"}),
        "http.malformed_body",
    ),
    # builtin, requests · aiohttp · httpx · name lookup · TLS · asyncio streams
    (
        frozenset(
            {
                "ConnectionError",
                "ClientConnectionError",
                "TransportError",
                "gaierror",
                "SSLError",
                "IncompleteReadError",
            }
        ),
        "connection.failed",
    ),
)


def from_transport(
    error: BaseException, layer: str, _now: float | None
) -> Verdict | None:
    """Classify by the names of the error's type and its bases.

    No handle for a connection is a failure of this machine.
    """
    if any(map(lacks_resources, causes(error))):
        return Verdict("runtime.worker.exhausted")
    by_library = {library_name(each) for each in mro(error)}
    for known_types, detail in _BY_LIBRARY:
        if by_library & known_types:
            return Verdict(f"{layer}.{detail}")
    names = type_names(error)
    for known, detail in _DETAILS:
        if names & known:
            return Verdict(f"{layer}.{detail}")
    return None
