"""Map an HTTP status to a code: 4xx is permanent except 408 and 429."""

from __future__ import annotations

from typing import Final

_KNOWN: Final = {
    400: "400_bad_request",
    401: "401_unauthenticated",
    403: "403_forbidden",
    404: "404_not_found",
    408: "408_timeout",
    409: "409_conflict",
    413: "413_too_large",
    422: "422_unprocessable",
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
