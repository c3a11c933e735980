"""Calls that had no answer: timeouts and connections, in the libraries' own types."""

from __future__ import annotations

from typing import Final

from piecework.classify.verdict import Verdict, type_names

# In this order: many a timeout is also an error of the connection.
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
    """Judge by the names of the error's type and its bases."""
    names = type_names(error)
    if "UnsupportedProtocol" in names:  # httpx, of an address that it cannot call
        return None
    for known, detail in _DETAILS:
        if names & known:
            return Verdict(f"{layer}.{detail}")
    return None
