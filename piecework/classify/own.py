"""Our own errors: they have a code and a class."""

from __future__ import annotations

from piecework.classify.verdict import Verdict
from piecework.errors import PieceworkError


def from_piecework(
    error: BaseException,
    _layer: str,
    _now: float | None,
    *,
    message: str | None = None,
) -> Verdict | None:
    """Use the error's own code and class, and the status that a client attached."""
    if not isinstance(error, PieceworkError):
        return None
    status = error.facts.get("http_status")
    provider_code = error.facts.get("provider_code")
    return Verdict(
        error.code,
        http_status=status if isinstance(status, int) else None,
        provider_code=provider_code if isinstance(provider_code, str) else None,
        retry_after=error.retry_after,
        own_class=error.error_class,
        message=message,
        dependency=str(error.facts.get("dependency", "")),
    )
