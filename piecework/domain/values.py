"""Encode the values of stages as JSON, by the return annotation of the function.

A stage receives the decoded JSON of an earlier value, never the object itself. So a
first run sees what a resumed run sees, and no pipeline depends on state that a
checkpoint loses.

JSON uses the names of the fields, not their aliases: an alias may differ between
writing and reading. `non_finite.py` writes NaN and infinity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from piecework.domain.mismatch import describe_mismatch, name_of, unfinished
from piecework.domain.non_finite import encode_non_finite, may_be_non_finite
from piecework.domain.result_types import result_type
from piecework.domain.round_trip import (
    NotKeptError,
    require_kept_value,
    require_unmasked,
)
from piecework.domain.strict_json import DEPTH, MIB, Bounds, require_bounded
from piecework.errors import PermanentError

#: Bytes of a value as JSON; memory holds several copies of it at once.
VALUE_LIMIT = 16 * MIB
#: A value may be a long list of numbers. A deep value is a mistake.
BOUNDS = Bounds(VALUE_LIMIT, depth=DEPTH, nodes=4_000_000)


def encode(
    function: Callable[..., Any], value: Any, *, exclude_unset: bool = False
) -> str:
    """Return a function's value as JSON.

    `exclude_unset`: without the fields that were never set, so that they stay unset.

    Raises:
        PermanentError: `runtime.value.unserialisable`: the value does not match the
            function's annotation; `runtime.value.too_large`.
        UsageError: As `result_type`.
    """
    name = name_of(function)
    if found := unfinished(value):
        raise PermanentError(
            f"{name} returned {found}.",
            code="runtime.value.unserialisable",
            next_step="Correct the function.",
        )
    try:
        adapter = result_type(function)
        # The serializer directly: the adapter's own method fills in a dozen defaults.
        content = adapter.serializer.to_json(
            value, round_trip=True, warnings="error", exclude_unset=exclude_unset
        )
        if may_be_non_finite(content) and (exact := encode_non_finite(function, value)):
            content = exact.encode()
        require_unmasked(content, value)
        read = adapter.validator.validate_json(content, by_alias=False, by_name=True)
        require_kept_value(value, read)
    except NotKeptError as error:
        raise PermanentError(
            f"The value of {name} would change in its JSON: {error}.",
            code="runtime.value.unserialisable",
            next_step="Annotate the function with the type of the value, or return "
            "what comes back. A validator must leave its own result as it is.",
        ) from error
    except (ValidationError, ValueError, TypeError, RecursionError) as error:
        where = describe_mismatch(adapter, value)
        message = f"The value of {name} cannot be stored by its return annotation"
        raise PermanentError(
            f"{message}: {where}." if where else f"{message}.",
            code="runtime.value.unserialisable",
            next_step="Correct the return annotation, or the returned value.",
        ) from error
    if len(content) > VALUE_LIMIT:
        message = f"The value of {name} has {len(content):,} bytes as JSON."
        raise PermanentError(message, code="runtime.value.too_large")
    try:
        return require_bounded(content, BOUNDS)
    except ValueError as error:
        message = f"The value of {name} cannot be stored: {error}."
        raise PermanentError(message, code="runtime.value.unserialisable") from error


def decode(function: Callable[..., Any], text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        PermanentError: `runtime.value.unreadable`: the text does not match the
            function's return annotation. A deployment may have changed the type during
            the job.
    """
    try:
        validator = result_type(function).validator
        require_bounded(text, BOUNDS)
        return validator.validate_json(text, by_alias=False, by_name=True)
    except ValueError as error:
        name = name_of(function)
        message = f"The stored value of {name} does not match its return annotation."
        raise PermanentError(
            message,
            code="runtime.value.unreadable",
            next_step="Deploy a type that also reads the old values.",
        ) from error
