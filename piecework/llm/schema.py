"""Write the schema of an answer as providers accept it, and validate the answer.

The structured output of providers knows a part of JSON Schema. Every property is
required, and no other property is allowed. A limit such as `minimum` is an error. So a
limit is sent as a part of the description, and pydantic enforces it on the answer.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Hashable, Mapping
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticCustomError

from piecework.errors import SemanticError, UsageError
from piecework.errors.classify import validation_message
from piecework.llm.json_in_text import doubled_key, values_in, without_fence

M = TypeVar("M", bound=BaseModel)

#: The classes whose schema is cached; bounded, because a stage may create classes.
CLASSES_KEPT: Final = 256
#: What providers accept beside the keywords that have schemas inside.
_KEPT: Final = frozenset({"type", "enum", "const", "title", "description", "$ref"})
_SAID_BY_PYDANTIC: Final = frozenset({"default", "discriminator", "required"})
_ERRORS_SHOWN: Final = 10


@functools.lru_cache(CLASSES_KEPT)
def schema_of(returns: Hashable) -> dict[str, Any]:
    """Return the JSON schema of a class.

    Raises:
        UsageError: `pipeline.declaration.invalid`: the class is not a pydantic model.
    """
    if isinstance(returns, type) and issubclass(returns, BaseModel):
        return returns.model_json_schema()
    raise UsageError(
        f"`returns` is {returns!r}, not a pydantic model.",
        code="pipeline.declaration.invalid",
        next_step="Declare a BaseModel with a field for the value, or leave it out.",
    )


def closed(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a schema as providers enforce it; None: they cannot enforce it.

    They cannot enforce an object with any keys, or a value of any type. Nor can they
    enforce a list with a type for each place.
    """
    try:
        return _closed(schema)
    except _OpenError:
        return None


class _OpenError(Exception):
    """A part of a schema that no provider enforces."""


def _closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in schema.items() if name in _KEPT}
    variants = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if schema.get("additionalProperties") or "prefixItems" in schema:
        raise _OpenError
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        found["properties"] = {n: _closed(each) for n, each in properties.items()}
        found["required"] = list(properties)
        found["additionalProperties"] = False
    elif schema.get("type") == "array":
        found["items"] = _closed(schema.get("items", {}))
    elif variants:
        found["anyOf"] = [_closed(each) for each in variants]
    elif not found.keys() & {"type", "enum", "const", "$ref"}:
        raise _OpenError
    if "$defs" in schema:
        found["$defs"] = {n: _closed(each) for n, each in schema["$defs"].items()}
    if limits := _limits(schema):
        found["description"] = f"{found.get('description', '')} {limits}".strip()
    if "$ref" in found and len(found) > 1:  # no keyword may stand beside it
        found["anyOf"] = [{"$ref": found.pop("$ref")}]
    return found


def _limits(schema: Mapping[str, Any]) -> str:
    """Return the keywords that providers do not know, as a text for the model."""
    inside = {"properties", "items", "anyOf", "oneOf", "allOf", "$defs"}
    known = _KEPT | _SAID_BY_PYDANTIC | inside | {"additionalProperties"}
    limits = {name: value for name, value in schema.items() if name not in known}
    return f"({json.dumps(limits, ensure_ascii=False)[1:-1]})" if limits else ""


# ── validate an answer ────────────────────────────────────────────────────────


def read_answer(text: str, returns: type[M], context: Mapping[str, Any] | None) -> M:
    """Return an answer as an object of the class.

    A text that is not JSON may contain it: in a fence, after a thought, between
    sentences. It is read without a further request if one value in it fits the class.
    JSON inside a thought is a draft.

    Raises:
        ValidationError: The answer does not fit the class, or has two values that do.
    """
    whole = without_fence(text)
    try:
        return _validated(whole, returns, context)
    except ValidationError as error:
        misfit = error
    if not _is_no_json(misfit):
        raise misfit
    fits: list[M] = []
    for value in values_in(whole):
        try:
            fits.append(_validated(value, returns, context))
        except ValidationError as error:
            misfit = error
    if not fits:
        raise misfit
    if any(each != fits[0] for each in fits[1:]):
        message = "The answer has several JSON values; send one"
        raise _misfit(returns, PydanticCustomError("several_values", message))
    return fits[0]


def _validated(text: str, returns: type[M], context: Mapping[str, Any] | None) -> M:
    """Return a JSON text as an object; a key that occurs twice has no value."""
    if (key := doubled_key(text)) is not None:
        message = "The key {key} occurs twice in one object"
        raise _misfit(
            returns, PydanticCustomError("doubled_key", message, {"key": key})
        )
    return returns.model_validate_json(text, context=context)


def _misfit(returns: type[BaseModel], error: PydanticCustomError) -> ValidationError:
    line: Any = {"type": error, "loc": (), "input": None}
    return ValidationError.from_exception_data(returns.__name__, [line])


def _is_no_json(error: ValidationError) -> bool:
    """Return whether the whole text was no JSON, not a text inside of it."""
    first = error.errors(include_url=False, include_context=False)[0]
    return first["type"] == "json_invalid" and not first["loc"]


def repair_text(error: ValidationError) -> str:
    """Return what the model is told about an answer that does not fit."""
    details = error.errors(include_url=False, include_context=False)[:_ERRORS_SHOWN]
    lines = [
        f"- {'.'.join(map(str, each['loc'])) or 'the answer'}: {each['msg']}"
        for each in details
    ]
    return "\n".join(
        [
            "Your answer does not fit the schema:",
            *lines,
            "Send the whole corrected answer as one JSON object, and nothing else.",
        ]
    )


def invalid_answer(error: ValidationError, repairs: int) -> SemanticError:
    """Return the error of an answer that does not fit after so many repairs."""
    after = f"After {repairs} repair{'s' * (repairs != 1)} " if repairs else ""
    message = f"{after}{validation_message(error)}."
    return SemanticError(message, code="llm.output.invalid")
