"""Encode the values of stages as JSON, by the return annotation of the function.

A stage receives the decoded JSON of an earlier value, never the object itself. So a
first run sees what a resumed run sees, and no pipeline depends on state that a
checkpoint loses.

JSON uses the names of the fields, not their aliases: an alias may differ between
writing and reading. NaN and infinity are written as the constants that Python writes.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import types
import typing
from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any, Never, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from piecework.domain.mismatch import (
    describe_mismatch,
    hint_name,
    is_formless,
    loss_of,
    masked,
    name_of,
    unbuilt_part,
    unfinished,
)
from piecework.domain.records import DEPTH, KIB, MIB, Bounds, require_bounded
from piecework.domain.round_trip import NotKeptError, require_kept_value
from piecework.errors import PermanentError, UsageError

M = TypeVar("M", bound=BaseModel)

#: Bytes of a value as JSON; memory holds several copies of it at once.
VALUE_LIMIT = 16 * MIB
#: A value may be a long list of numbers. A deep value is a mistake.
BOUNDS = Bounds(VALUE_LIMIT, depth=DEPTH, nodes=4_000_000)
#: Characters of a type's schema that a row stores; a row has at most 400 KiB.
SCHEMA_LIMIT = 32 * KIB
#: Functions whose type is cached; bounded, because a stage may create functions.
FUNCTIONS_KEPT = 1_024
#: Annotations of a function that only raises.
NEVER = (NoReturn, Never)
#: Pydantic's codes for a type of a module that may not be loaded yet.
NOT_YET_KNOWN = frozenset({"class-not-fully-defined", "undefined-annotation"})


def encode(function: Callable[..., Any], value: Any) -> str:
    """Return a function's value as JSON.

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
        content = adapter.serializer.to_json(value, round_trip=True, warnings="error")
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


def write_payload(payload: BaseModel, *, by_alias: bool = True) -> str:
    """Return a payload, or an answer, as JSON; `read_payload` reads it.

    Raises:
        ValueError: It has a value that is not of its field's type.
    """
    text = payload.model_dump_json(by_alias=by_alias, round_trip=True, warnings="error")
    if not may_be_non_finite(text.encode()):
        return text
    return encode_non_finite(type(payload), payload, by_alias=by_alias) or text


def read_payload(model: type[M], content: str | bytes) -> M:
    """Return the payload that a submit has written, by aliases and names of its fields.

    A submit writes a field by its name if only its reading has an alias. Without names
    such a field would become its default.
    """
    return model.model_validate_json(content, by_alias=True, by_name=True)


def keep_payload(
    model: type[M], payload: BaseModel, *, by_alias: bool = True
) -> tuple[str, M]:
    """Return a payload, or an answer, as JSON, and what a worker will read from it.

    Raises:
        NotKeptError: A worker would read another payload, or a masked secret.
        ValueError: It has a value that is not of its field's type, or its JSON does not
            validate again.
    """
    text = write_payload(payload, by_alias=by_alias)
    require_unmasked(text.encode(), payload)
    read = read_payload(model, text)
    require_kept_value(payload, read)
    return text, read


def require_unmasked(content: bytes, value: Any) -> None:
    """Refuse a value with a secret that its JSON masks.

    Raises:
        NotKeptError: It says where the secret is.
    """
    if found := masked(content, value):
        raise NotKeptError(found)


def may_be_non_finite(content: bytes) -> bool:
    """Return whether JSON may have NaN or infinity: as null, a constant or a text.

    The configuration of a model decides; an untyped field would read a text as such.
    """
    return any(word in content for word in (b"null", b"NaN", b"Infinity"))


def encode_non_finite(
    declared: Callable[..., Any], value: Any, *, by_alias: bool | None = None
) -> str | None:
    """Return a value with NaN or infinity as JSON with constants; None: it has neither.

    Pydantic's Python values keep them, except in a model in an untyped place.
    """
    write = functools.partial(
        exact_type(declared).serializer.to_python,
        (value,),
        by_alias=by_alias,
        round_trip=True,
        warnings="error",
    )
    plain = write(mode="json")
    with contextlib.suppress(ValueError, TypeError):  # of a set of models, for example
        restore(plain, write(mode="python"))
    text = json.dumps(plain[0], ensure_ascii=False, separators=(",", ":"))
    return text if "NaN" in text or "Infinity" in text else None


def restore(plain: Any, exact: Any) -> None:
    """Put NaN and infinity of Python values where their JSON values have None.

    A model in an untyped place writes its own untyped parts by its own configuration.
    A part whose JSON has another form is left alone. A serializer of the user's own
    writes it, or it is a set, whose order differs.
    """
    pairs: Iterable[tuple[Any, Any]]
    if isinstance(plain, dict) and isinstance(exact, dict):
        pairs = zip(plain, exact.values(), strict=False)
    elif isinstance(plain, list) and isinstance(exact, list | tuple):
        pairs = enumerate(exact)
    else:
        return
    if len(plain) != len(exact):
        return
    for key, found in pairs:
        if isinstance(found, dict | list | tuple):
            restore(plain[key], found)
        elif plain[key] is None and isinstance(found, float) and not isfinite(found):
            plain[key] = found


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


@functools.lru_cache(FUNCTIONS_KEPT)
def exact_type(declared: Callable[..., Any]) -> TypeAdapter[Any]:
    """Return the type of a tuple of one result, or model, that keeps NaN and infinity.

    Only a type that is not a model takes a configuration from outside.
    """
    is_model = isinstance(declared, type) and issubclass(declared, BaseModel)
    hint = declared if is_model else result_hint(declared)
    own = getattr(hint, "model_config", {})
    constants: Any = {name: own[name] for name in own if name.startswith("ser_json")}
    constants |= ConfigDict(ser_json_inf_nan="constants")
    one: Any = types.GenericAlias(tuple, (hint,))
    return TypeAdapter(one, config=constants)
