"""Calls without an answer: timeouts and broken connections of HTTP libraries."""

from __future__ import annotations

from typing import Final

from piecework.classify.verdict import Verdict, type_names

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
    """Classify by the names of the error's type and its bases."""
    names = type_names(error)
    if "UnsupportedProtocol" in names:  # httpx: the scheme of the URL is not supported
        return None
    for known, detail in _DETAILS:
        if names & known:
            return Verdict(f"{layer}.{detail}")
    return None
