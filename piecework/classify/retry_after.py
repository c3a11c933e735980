"""Read a Retry-After: a number of seconds or an HTTP date."""

from __future__ import annotations

import re
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Final

_SECONDS: Final = re.compile(r"\d{1,9}(\.\d{1,9})?")


def retry_after(headers: object, now: float | None) -> float | None:
    """Return the seconds to wait; None: there is no valid Retry-After."""
    items = getattr(headers, "items", None)  # the headers of every HTTP library have it
    if not callable(items):
        return None
    values = {str(name).lower(): str(v).strip() for name, v in items()}
    if _SECONDS.fullmatch(exact := values.get("retry-after-ms", "")):
        return float(exact) / 1000  # sent by OpenAI and Azure
    return _seconds(values.get("retry-after", ""), now)


def _seconds(value: str, now: float | None) -> float | None:
    if _SECONDS.fullmatch(value):
        return float(value)
    if now is not None:
        # OverflowError: a year out of range
        with suppress(ValueError, OverflowError):
            return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    return None
