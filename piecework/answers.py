"""Check an answer by its model: of a person, or of a call that an operator resolves.

The process that answers may not have the pipeline. Then the JSON schema decides, which
the worker stored with the question. It is made into a model, so the limits and the
messages are those of pydantic. A schema does not have the pipeline's own validators:
only a process with the model applies them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from typing import Annotated, Any, Final, Literal, Union, cast
from uuid import UUID

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic_core import SchemaError

from piecework.domain.payload import keep_payload, read_payload, write_payload
from piecework.domain.strict_json import KIB, Bounds, read_json
from piecework.errors import PermanentError, UsageError

#: Bytes of a question, and of an answer, as JSON: both are in one row.
MOST_BYTES: Final = 32 * KIB
#: Fields that a message names at most.
SHOWN: Final = 5


def encode_answer(model_of_question: str, schema: Mapping[str, Any], value: Any) -> str:
    """Return an answer as JSON that the question accepts.

    Args:
        model_of_question: The name of its model, as the row of the question has it.
        schema: The JSON schema of that model; it decides if the model is not loaded.
        value: An instance of the model, or a JSON value.

    Raises:
        UsageError: `approval.answer.invalid`.
    """
    model: type[BaseModel] | None = loaded_model(model_of_question)
    short = model_of_question.rpartition(":")[2]
    if isinstance(value, BaseModel) and model_name(type(value)) == model_of_question:
        model = type(value)
    try:
        is_given = isinstance(value, BaseModel)
        text = write_payload(value, by_alias=False) if is_given else json.dumps(value)
        plain = read_json(text, Bounds(MOST_BYTES))
        if model is not None:
            given = value if isinstance(value, model) else read_payload(model, text)
            text, _ = keep_payload(model, given, by_alias=False)
        else:
            model_of_schema(schema).model_validate_json(text)
        unknown = unknown_fields(schema, model, plain)
    except ValidationError as error:
        message = f"The answer does not fit {short}: {problems(error)}."
    except (ValueError, TypeError) as error:
        message = f"The answer is not accepted: {error}."
    else:
        if not unknown:
            return text  # the worker's model adds the defaults
        named = ", ".join(map(repr, unknown[:SHOWN]))
        message = f"The answer does not fit {short}: it has no field {named}."
    raise UsageError(message, code="approval.answer.invalid")


def unknown_fields(
    schema: Mapping[str, Any], model: type[BaseModel] | None, value: Any
) -> list[str]:
    """Return the fields that the model would drop: an answer is final.

    A model that allows further fields says so in its schema.
    """
    known = schema.get("properties")
    if known is None or "additionalProperties" in schema or not isinstance(value, dict):
        return []
    by_name = model.model_fields if model is not None else {}
    return sorted(value.keys() - known.keys() - by_name.keys())


def decode_answer(model: type[BaseModel], text: str, name: str) -> Any:
    """Return a stored answer.

    Raises:
        PermanentError: `runtime.answer.invalid`: a deployment changed the model, or the
            answer was checked by the schema alone.
    """
    try:
        return read_payload(model, text)
    except ValidationError as error:
        message = (
            f"The answer of {name!r} does not fit {model.__name__}: {problems(error)}."
        )
        raise PermanentError(message, code="runtime.answer.invalid") from error


def misfit(schema: str, text: str) -> str:
    """Return why a JSON text does not fit a JSON schema; empty: it fits."""
    try:
        model_of_schema(json.loads(schema)).model_validate_json(text)
    except ValidationError as error:
        return problems(error)
    return ""


def accepts(name: str, text: str) -> bool:
    """Return whether the model of this name, if it is loaded, accepts an answer."""
    try:
        if (model := loaded_model(name)) is not None:
            read_payload(model, text)
    except ValidationError:
        return False
    return True


def problems(error: ValidationError) -> str:
    """Return what is wrong with an answer, field by field; no value is quoted."""
    found = error.errors(include_input=False, include_url=False)
    told = [f"{'.'.join(map(str, e['loc'])) or 'answer'}: {e['msg']}" for e in found]
    return "; ".join(told[:SHOWN])


# ── the model ─────────────────────────────────────────────────────────────────


def is_model(found: Any) -> bool:
    """Return whether something is a pydantic model."""
    return isinstance(found, type) and issubclass(found, BaseModel)


def model_name(model: type[BaseModel]) -> str:
    """Return module and name of a model, as the question's row has it."""
    return f"{model.__module__}:{model.__qualname__}"


def loaded_model(name: str) -> type[BaseModel] | None:
    """Return the model of this name, if its module is loaded; it is never imported.

    The name comes from a table: an import would run code that a row names.
    """
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found if is_model(found) else None


# ── the model that a schema describes ─────────────────────────────────────────

#: The keywords of a schema that limit a value, and the same limits of pydantic.
LIMITS: Final = {
    "minimum": "ge",
    "maximum": "le",
    "exclusiveMinimum": "gt",
    "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of",
    "minLength": "min_length",
    "maxLength": "max_length",
    "minItems": "min_length",
    "maxItems": "max_length",
    "pattern": "pattern",
}
TYPES: Final = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "null": None,
}
#: Texts that pydantic reads as another type.
FORMATS: Final = {
    "date": date,
    "date-time": datetime,
    "time": time,
    "duration": timedelta,
    "uuid": UUID,
}


def model_of_schema(schema: Mapping[str, Any]) -> type[BaseModel]:
    """Return a model that accepts what a JSON schema of pydantic accepts.

    A part that cannot be translated accepts every value: the worker's model decides.
    """
    found: Any = type_of(schema, schema.get("$defs", {}))
    if not is_model(found):
        found = create_model("Answer", __base__=RootModel, root=(found, ...))
    return cast("type[BaseModel]", found)


def type_of(node: Mapping[str, Any], defs: Mapping[str, Any]) -> Any:
    """Return the type of a part of a schema.

    Args:
        node: The part.
        defs: The definitions that it may refer to. Inside of one, it is left out, so a
            model that contains itself is checked to its first level.
    """
    if "$ref" in node:
        name = str(node["$ref"]).rpartition("/")[2]
        rest = {key: value for key, value in defs.items() if key != name}
        return type_of(defs[name], rest) if name in defs else Any
    if "const" in node or "enum" in node:
        return Literal[tuple(node.get("enum", [node.get("const")]))]
    if variants := node.get("anyOf") or node.get("oneOf"):
        return Union[tuple(type_of(each, defs) for each in variants)]  # noqa: UP007 -- of a sequence
    match node.get("type"):
        case "object":
            found: Any = object_of(node, defs)
        case "array":
            found = array_of(node, defs)
        case str(name) if name in TYPES:
            found = FORMATS.get(str(node.get("format")), TYPES[name])
        case _:
            return Any
    return limited(found, node)


def array_of(node: Mapping[str, Any], defs: Mapping[str, Any]) -> Any:
    """Return the type of a list, or of a list with a type for each place."""
    if "prefixItems" in node:
        return tuple[tuple(type_of(each, defs) for each in node["prefixItems"])]  # type: ignore[misc]
    return list[type_of(node.get("items", {}), defs)]  # type: ignore[misc]


def limited(found: Any, node: Mapping[str, Any]) -> Any:
    """Return a type with the limits of its part of a schema."""
    limits = {mine: node[name] for name, mine in LIMITS.items() if name in node}
    if not limits:
        return found
    try:
        annotated: Any = Annotated[found, Field(**limits)]
        TypeAdapter(annotated)
    except (SchemaError, TypeError):  # such as a pattern that looks ahead
        return Any
    return annotated


def object_of(node: Mapping[str, Any], defs: Mapping[str, Any]) -> Any:
    """Return the model of an object, or the type of a dict."""
    others = node.get("additionalProperties")
    if "properties" not in node:
        values = type_of(others, defs) if isinstance(others, Mapping) else Any
        return dict[str, values]  # type: ignore[valid-type]
    fields: dict[str, Any] = {}
    for number, (name, each) in enumerate(node["properties"].items()):
        default = ... if name in node.get("required", ()) else None
        # An alias, because a property may have a name that no attribute can have.
        fields[f"field_{number}"] = type_of(each, defs), Field(default, alias=name)
    config = ConfigDict(extra="forbid" if others is False else "ignore")
    return create_model("Answer", __config__=config, **fields)
