"""Values that outlive a process: JSON, typed by the annotation of the function.

The first run hands on what a resumed run would read back, never the object itself,
so that a pipeline cannot come to depend on something a checkpoint loses.

JSON is written and read by the names of the fields: an alias may differ between
writing and reading, a field's own name cannot.
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

#: Bytes of a value as JSON: it is held several times over on its way.
VALUE_LIMIT = 16 * MIB
#: A value may be a long list of numbers; deep it is only by mistake.
BOUNDS = Bounds(VALUE_LIMIT, nodes=4_000_000)
#: Functions whose type is remembered; bounded, since a stage may make new ones.
FUNCTIONS_KEPT = 1_024


def encode(function: Callable[..., Any], value: Any) -> str:
    """Return a function's value as JSON.

    Raises:
        PermanentError: When the value is not what the function's annotation says, or
            too large to be kept.
    """
    try:
        adapter = result_type(function)
        # The adapter's own methods fill in a dozen defaults each time.
        content = adapter.serializer.to_json(value, round_trip=True, warnings="error")
        if b"null" in content:
            # So NaN and infinity are written; their own type does not read it.
            adapter.validator.validate_json(content, by_alias=False, by_name=True)
    except (ValidationError, ValueError, TypeError) as error:
        name = getattr(function, "__qualname__", repr(function))
        message = f"What {name} returned is not of the type that it declares."
        raise PermanentError(
            message,
            code="runtime.value.unserialisable",
            next_step="Correct the return annotation, or return what it says.",
        ) from error
    if len(content) > VALUE_LIMIT:
        name = getattr(function, "__qualname__", repr(function))
        message = f"What {name} returned has {len(content):,} bytes as JSON."
        raise PermanentError(message, code="runtime.value.too_large")
    return content.decode()


def decode(function: Callable[..., Any], text: str) -> Any:
    """Return the value that JSON text stands for.

    Raises:
        PermanentError: When the text is not of the function's declared type, as
            after a deployment that changed the type under a running job.
    """
    try:
        validator = result_type(function).validator
        require_bounded(text, BOUNDS)
        return validator.validate_json(text, by_alias=False, by_name=True)
    except ValueError as error:
        name = getattr(function, "__qualname__", repr(function))
        message = f"The stored value of {name} is not of the type that it declares."
        raise PermanentError(
            message,
            code="runtime.value.unreadable",
            next_step="Deploy a type that reads the old values too.",
        ) from error


@functools.lru_cache(FUNCTIONS_KEPT)
def result_type(function: Callable[..., Any]) -> TypeAdapter[Any]:
    """Return the type of a function's result; without an annotation any JSON."""
    whole = inspect.unwrap(function)
    if isinstance(whole, functools.partial):
        whole = whole.func
    try:
        hints = typing.get_type_hints(whole, include_extras=True)
    except (NameError, TypeError):  # TypeError: an object that can be called
        hints = {}
    hint = hints.get("return", Any)
    return TypeAdapter(hint)
