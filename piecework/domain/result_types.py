"""The types of the results of functions, by their return annotations."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import types
import typing
from collections.abc import Callable
from typing import Any, Never, NoReturn

from pydantic import BaseModel, TypeAdapter
from pydantic.errors import PydanticUserError

from piecework.domain.mismatch import (
    hint_name,
    is_formless,
    loss_of,
    name_of,
    unbuilt_part,
)
from piecework.domain.strict_json import KIB
from piecework.errors import UsageError

#: Characters of a type's schema that a row stores; a row has at most 400 KiB.
SCHEMA_LIMIT = 32 * KIB
#: Functions whose type is cached; bounded, because a stage may create functions.
FUNCTIONS_KEPT = 1_024
#: Annotations of a function that only raises.
NEVER = (NoReturn, Never)
#: Pydantic's codes for a type of a module that may not be loaded yet.
NOT_YET_KNOWN = frozenset({"class-not-fully-defined", "undefined-annotation"})


@functools.lru_cache(FUNCTIONS_KEPT)
def result_type(function: Callable[..., Any]) -> TypeAdapter[Any]:
    """Return the type of a function's result; any JSON without an annotation.

    Raises:
        UsageError: As `require_kept`.
    """
    require_kept(function)
    hint = result_hint(function)
    adapter = TypeAdapter(hint)
    try:
        loss_of(adapter.core_schema)
    except PydanticUserError as error:  # a part of it is still unknown
        raise refused_type(function, unbuilt_part(hint)) from error
    return adapter


def require_kept(*declared: Any) -> None:
    """Refuse models, and results of functions, that JSON cannot hold, or not whole.

    A type that is not known yet passes, as in modules that import each other.

    Raises:
        UsageError: `pipeline.declaration.invalid`.
    """
    for each in declared:
        with contextlib.suppress(NameError, TypeError, AttributeError):
            hint = each if isinstance(each, type) else result_hint(each)
            if each is BaseModel:
                continue
            try:
                schema = TypeAdapter(hint).core_schema
                found = loss_of(schema)
            except PydanticUserError as error:
                if error.code in NOT_YET_KNOWN:
                    continue
                raise refused_type(each, unbuilt_part(hint)) from error
            if is_formless(schema):
                raise refused_type(each, hint)
            if found:
                raise UsageError(
                    f"JSON would lose a part of {name_of(each)}: {found}.",
                    code="pipeline.declaration.invalid",
                    next_step="Name a type that comes back, without `exclude`. "
                    "Replace a secret by its name, or reveal it by a serializer.",
                )


def refused_type(declared: Any, part: Any) -> UsageError:
    """Return the error of a model or function with a type that has no form in JSON."""
    return UsageError(
        f"The type of {name_of(declared)} has no form in JSON: {hint_name(part)}.",
        code="pipeline.declaration.invalid",
        next_step="Name a type that pydantic builds: a model, a dataclass, a list, a "
        "dict, a text or a number. Import `TypedDict` from `typing_extensions`.",
    )


def result_schema(function: Callable[..., Any]) -> str:
    """Return the JSON schema of a function's result; empty: it has none, or a long one.

    Like a stored value, it has the names of fields, not their aliases. A function that
    stands for one of another process has its schema as `__answer_schema__`.
    """
    schema = getattr(function, "__answer_schema__", None)
    if schema is not None:
        return str(schema)
    try:
        text = json.dumps(result_type(function).json_schema(by_alias=False))
    except (PydanticUserError, TypeError, ValueError):
        return ""
    return text if len(text) <= SCHEMA_LIMIT else ""


def payload_schema(model: type[BaseModel]) -> str:
    """Return the JSON schema of a payload; empty: it has none."""
    try:
        return json.dumps(TypeAdapter(model).json_schema(by_alias=False))
    except (PydanticUserError, TypeError, ValueError):
        return ""


def result_hint(function: Callable[..., Any]) -> Any:
    """Return the annotation of a function's result; `Any` without an annotation."""
    whole = inspect.unwrap(function)
    if isinstance(whole, functools.partial):
        whole = whole.func
    if "return" not in getattr(whole, "__annotations__", {}):
        return Any
    # Without the parameters, whose types may be imported for the type checker alone.
    known = getattr(whole, "__globals__", {})
    alone: Any = types.FunctionType((lambda: None).__code__, known)
    alone.__annotations__ = {"return": whole.__annotations__["return"]}
    alone.__type_params__ = getattr(whole, "__type_params__", ())
    try:
        hint = typing.get_type_hints(alone, include_extras=True)["return"]
    except (NameError, TypeError):  # a type of a function, or no type
        return Any
    return Any if hint in NEVER else hint
