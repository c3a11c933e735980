"""Encode the values of stages as JSON, by the return annotation of the function.

A stage receives the decoded JSON of an earlier value, never the object itself. So a
first run sees what a resumed run sees, and no pipeline depends on state that a
checkpoint loses.

JSON uses the names of the fields, not their aliases: an alias may differ between
writing and reading.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any

from pydantic import TypeAdapter, ValidationError

from piecework.errors import PermanentError
from piecework.strict_json import MIB, Bounds, require_bounded

#: Bytes of a value as JSON; memory holds several copies of it at once.
VALUE_LIMIT = 16 * MIB
#: A value may be a long list of numbers. A deep value is a mistake.
BOUNDS = Bounds(VALUE_LIMIT, nodes=4_000_000)
#: Functions whose type is cached; bounded, because a stage may create functions.
FUNCTIONS_KEPT = 1_024


def encode(function: Callable[..., Any], value: Any) -> str:
    """Return a function's value as JSON.

    Raises:
        PermanentError: `runtime.value.unserialisable`: the value does not match the
            function's annotation; `runtime.value.too_large`.
    """
    try:
        adapter = result_type(function)
        # The serializer directly: the adapter's own method fills in a dozen defaults.
        content = adapter.serializer.to_json(value, round_trip=True, warnings="error")
        if b"null" in content:
            # NaN and infinity are written as null, which their own type does not read.
            adapter.validator.validate_json(content, by_alias=False, by_name=True)
    except (ValidationError, ValueError, TypeError) as error:
        name = getattr(function, "__qualname__", repr(function))
        message = f"The value of {name} does not match its return annotation."
        raise PermanentError(
            message,
            code="runtime.value.unserialisable",
            next_step="Correct the return annotation, or the returned value.",
        ) from error
    if len(content) > VALUE_LIMIT:
        name = getattr(function, "__qualname__", repr(function))
        message = f"The value of {name} has {len(content):,} bytes as JSON."
        raise PermanentError(message, code="runtime.value.too_large")
    return content.decode()


def decode(function: Callable[..., Any], text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        PermanentError: `runtime.value.unreadable`: the text does not match the
            function's return annotation, for example because a deployment changed the
            type during the job.
    """
    try:
        validator = result_type(function).validator
        require_bounded(text, BOUNDS)
        return validator.validate_json(text, by_alias=False, by_name=True)
    except ValueError as error:
        name = getattr(function, "__qualname__", repr(function))
        message = f"The stored value of {name} does not match its return annotation."
        raise PermanentError(
            message,
            code="runtime.value.unreadable",
            next_step="Deploy a type that also reads the old values.",
        ) from error


@functools.lru_cache(FUNCTIONS_KEPT)
def result_type(function: Callable[..., Any]) -> TypeAdapter[Any]:
    """Return the type of a function's result; any JSON without an annotation."""
    whole = inspect.unwrap(function)
    if isinstance(whole, functools.partial):
        whole = whole.func
    try:
        hints = typing.get_type_hints(whole, include_extras=True)
    except (NameError, TypeError):  # TypeError: an object that can be called
        hints = {}
    hint = hints.get("return", Any)
    return TypeAdapter(hint)
