"""The order key of a payload: what `Pipeline(ordered_by=…)` returns, checked.

The key itself is stored nowhere: it may be an account or a name. The records have a
hash of it, which differs in each job; see `keys.order_key`. Messages name the chunk and
the rule, never the key.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any, Final

from piecework.errors import PieceworkError, UsageError
from piecework.errors.location import raised_text

#: Characters of an order key at most: it is an identifier, not a document.
MAX_ORDER_KEY: Final = 256


def read_order_key(
    ordered_by: Callable[[Any], object] | None,
    payload: object,
    where: str,
    *,
    origin: str = "",
    part: str = "",
) -> str:
    """Return the order key of a payload as text; empty: its chunk waits for no other.

    `where`: the chunk, for a sentence; `origin` and `part`: the same for programs.

    Raises:
        UsageError: `input.order.failed`: the function raised an error;
            `input.order.invalid`: it returned another value than a short text, an
            integer or None.
    """
    if ordered_by is None:
        return ""
    try:
        found = ordered_by(payload)
    except PieceworkError:
        raise
    except Exception as error:
        raise UsageError(
            f"`ordered_by` {raised_text(error)} for {where}.",
            code="input.order.failed",
            next_step="Correct the function; it must accept any valid payload.",
            origin=origin,
            part=part,
        ) from error
    if found is None:
        return ""
    if problem := problem_of(found):
        raise UsageError(
            f"The order key of {where} is not valid: {problem}.",
            code="input.order.invalid",
            next_step="Return a short text, an integer, or None for no order.",
            origin=origin,
            part=part,
        )
    # The number 7 and the text "7" are two keys.
    # Two systems may write one name with other bytes.
    return f"{type(found).__name__}:{unicodedata.normalize('NFC', str(found))}"


def problem_of(found: object) -> str:
    """Return why a value is not an order key, without quoting it; empty: it is."""
    if type(found) not in {str, int}:
        return f"it is of type {type(found).__name__}, not a text or an integer"
    if not 1 <= len(str(found)) <= MAX_ORDER_KEY:
        return f"it has {len(str(found))} characters, not 1 to {MAX_ORDER_KEY}"
    if not str(found).isprintable():
        return "it has characters that cannot be printed"
    return ""
