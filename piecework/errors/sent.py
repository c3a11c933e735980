"""Decide by the type of an error whether its request was sent: the one table.

    no        not connected, or refused on this machine: nothing was executed
    yes       an answer came back, or a part of one
    unknown   it may have been sent, and executed

One call is one request. The error of a function that made several tells only of the
last one. Such a function raises an error with `sent=True` after its first request. The
same holds for a client that repeats a request by itself.

No library is imported: a type is known by the first part of its module, and its name.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType, TracebackType
from typing import Final

from piecework.errors.causes import causes, library_name, mro


class Sent(StrEnum):
    """Whether the request of a failed call was sent."""

    NO = "no"
    YES = "yes"
    UNKNOWN = "unknown"


def sent_of(error: BaseException) -> Sent:
    """Return what the error says, else what the error says that it wraps.

    An error with a row decides; so a timeout of a read hides no cause. An error without
    a row is a wrapper. Of a group all members must agree.
    """
    if isinstance(error, BaseExceptionGroup):
        found = {sent_of(each) for each in error.exceptions}
        return found.pop() if len(found) == 1 else Sent.UNKNOWN
    links = causes(error)
    if any(library_name(type(each))[0] == "h2" for each in links):
        return Sent.UNKNOWN  # httpx calls a connection that h2 lost a local error
    for link in links:
        sent = _sent_of_one(link)
        if sent is not None:
            return sent
    return Sent.UNKNOWN


def _sent_of_one(error: BaseException) -> Sent | None:
    """Return what one error says; None: it says nothing about a request."""
    if (said := said_of(error)) is not None:
        return said
    rows = (_TABLE.get(library_name(each)) for each in mro(error))
    sent = next((each for each in rows if each is not None), None)
    if sent is None and isinstance(error, OSError) and _is_unconnected(error):
        return Sent.NO
    if sent is Sent.NO or not _was_connecting(error.__traceback__):
        return sent
    return Sent.NO


def said_of(error: BaseException) -> Sent | None:
    """Return what the code that raised one of our errors knows; None: nothing."""
    facts = getattr(error, "facts", None)
    said = facts.get("sent") if isinstance(facts, Mapping) else None
    return (Sent.YES if said else Sent.NO) if isinstance(said, bool) else None


def _is_unconnected(error: OSError) -> bool:
    """Return whether only a request that gets no connection fails so.

    With a file name it is about a file.
    """
    return error.errno in _UNCONNECTED and error.filename is None


# ── the table ─────────────────────────────────────────────────────────────────

_NO: Final = """
    builtins ConnectionRefusedError
    socket gaierror herror
    ssl SSLCertVerificationError
    http CannotSendRequest ImproperConnectionState InvalidURL UnknownProtocol
    httpx ConnectError ConnectTimeout InvalidURL LocalProtocolError PoolTimeout
    httpx ProxyError UnsupportedProtocol
    h11 LocalProtocolError
    aiohttp ClientConnectorError ClientHttpProxyError ConnectionTimeoutError InvalidURL
    aiohttp ServerFingerprintMismatch
    requests ConnectTimeout InvalidHeader InvalidProxyURL InvalidSchema InvalidURL
    requests MissingSchema ProxyError URLRequired
    urllib3 ConnectTimeoutError EmptyPoolError LocationParseError LocationValueError
    urllib3 NewConnectionError ProxyError ProxySchemeUnknown URLSchemeUnknown
    botocore ConnectTimeoutError CredentialRetrievalError EndpointConnectionError
    botocore NoCredentialsError NoRegionError ParamValidationError
    botocore PartialCredentialsError ProxyConnectionError TokenRetrievalError
    anyio ConnectionFailed
    smtplib SMTPAuthenticationError SMTPConnectError SMTPHeloError
    smtplib SMTPRecipientsRefused SMTPSenderRefused
    websockets InvalidURI
"""
_YES: Final = """
    http IncompleteRead
    httpx DecodingError HTTPStatusError TooManyRedirects
    aiohttp ClientPayloadError ClientResponseError
    requests ChunkedEncodingError ContentDecodingError HTTPError JSONDecodeError
    requests TooManyRedirects
    urllib HTTPError
    urllib3 DecodeError IncompleteRead ResponseError
    botocore ClientError IncompleteReadError ResponseParserError ResponseStreamingError
"""
# A type that is also a subclass of one above, or whose cause says something else.
_UNKNOWN: Final = """
    httpx TransportError
    aiohttp ClientConnectionError
    requests ReadTimeout
    urllib3 ProtocolError ReadTimeoutError
    botocore ConnectionClosedError ReadTimeoutError
    concurrent BrokenExecutor
"""


def _rows(table: str, sent: Sent) -> Iterator[tuple[tuple[str, str], Sent]]:
    for line in table.strip().splitlines():
        module, *names = line.split()
        for name in names:
            yield (module, name), sent


_TABLE: Final[Mapping[tuple[str, str], Sent]] = MappingProxyType(
    dict([*_rows(_NO, Sent.NO), *_rows(_YES, Sent.YES), *_rows(_UNKNOWN, Sent.UNKNOWN)])
)
# No address or handle is left, or no route: an established connection survives all but
# a quarter of an hour of them, which is longer than a call.
_UNCONNECTED: Final = frozenset(
    {
        errno.EADDRNOTAVAIL,
        errno.EAFNOSUPPORT,
        errno.ECONNREFUSED,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.EMFILE,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.ENFILE,
    }
)


# ── what was cut off or failed while it connected ─────────────────────────────

#: The functions, by module, in which no byte of a request has been sent yet.
_CONNECTING: Final = frozenset(
    {
        ("aiohttp.connector", "connect"),
        ("anyio._core._sockets", "connect_tcp"),
        ("anyio.streams.tls", "wrap"),
        ("asyncio.base_events", "create_connection"),
        ("asyncio.base_events", "create_unix_connection"),
        ("asyncio.selector_events", "sock_connect"),
        ("http.client", "connect"),
        ("socket", "create_connection"),
    }
)


def _was_connecting(trace: TracebackType | None) -> bool:
    """Return whether an error was raised while its function connected.

    So the timeout of a call is told from that of its connection.
    """
    while trace is not None:
        frame = trace.tb_frame
        place = (str(frame.f_globals.get("__name__")), frame.f_code.co_name)
        if place in _CONNECTING:
            return True
        trace = trace.tb_next
    return False
