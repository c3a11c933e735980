"""Say why a value cannot be stored: the path of the field, its type and the right one.

The message names fields and types, never values: those are the data of the chunk.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError, to_jsonable_python

#: Fields that are searched, and levels below the value: more would block the worker.
SEARCHED: Final = 10_000
DEEPEST: Final = 64
#: Digits of an integer that pydantic reads.
DIGITS: Final = 4_300
MOST_INTEGER: Final = 10**DIGITS
#: Types by the names that pydantic has for them.
NAMES: Final = {"string": "str", "none required": "None"}
SUPPORTED: Final = "a JSON value, a pydantic model, a dataclass, a date or a Decimal"
#: Bytes for which JSON has no text.
RAW_BYTES: Final = "bytes that are not UTF-8: annotate `Base64Bytes` of pydantic"
#: What pydantic writes in place of a secret.
MASK: Final = b'"**********"'
#: Types of core schemas that JSON cannot read as the key of an object.
KEYLESS: Final = {"dataclass", "frozenset", "list", "model", "none", "set", "tuple"}
#: Types of core schemas that only an object in memory fulfils.
FORMLESS: Final = {"callable", "is-instance", "is-subclass"}
#: Parts of a core schema that describe no value that is stored.
UNSTORED: Final = ("computed_fields", "config", "default", "definitions", "metadata")


def unfinished(value: Any) -> str:
    """Return what stands in place of a result that was not computed; else empty."""
    if inspect.iscoroutine(value):
        value.close()  # Python would warn of it again, later and elsewhere
        return "a coroutine that was not awaited: write `await` before the call"
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        return "a generator, whose code has not run: return a list"
    if inspect.isroutine(value):
        name = "a lambda" if value.__name__ == "<lambda>" else "a function"
        return f"{name}: return the result of its call"
    return ""


def loss_of(schema: Any, *, read_by_alias: bool = False) -> str:
    """Return what JSON would lose of a type, by its core schema; else empty.

    A serializer of the user's own is trusted: it may give a secret back. A reader by
    name and alias takes another field's value if its name is the alias.
    """
    found: list[tuple[str, Any]] = [("it", schema)]
    defined: dict[str, Any] = {}
    for where, node in found:  # also what is added meanwhile
        if isinstance(node, list | tuple):
            found += [(where, each) for each in node]
        if not isinstance(node, Mapping):
            continue
        if read_by_alias and (crossing := crossing_alias(node)):
            return f"{where}.{crossing}"
        if found_here := unreadable_kind(node):
            return f"{where} {found_here}"
        if not isinstance(node.get("type"), str):  # fields by their names
            found += [(f"{where}.{name}", node[name]) for name in node]
            continue
        path = f"{where}.{node['name']}" if node["type"] == "dataclass-field" else where
        if node.get("serialization_exclude") or node.get("serialization_exclude_if"):
            return f"{path} is excluded"
        serializer = node.get("serialization", {}).get("function")
        name = f"{getattr(serializer, '__module__', '')}:{name_of(serializer)}"
        if name.startswith("pydantic.types:_serialize_secret"):
            return f"{path} is a secret"
        is_own = name.startswith("pydantic.") and "get_secret_value" not in name
        if serializer is None or is_own:
            path = getattr(node.get("cls"), "__name__", path)
            found += [(path, node[key]) for key in node if key not in UNSTORED]
            # A definition counts only where no serializer of the user's own hides it.
            defined |= {each["ref"]: each for each in node.get("definitions", ())}
            found.append((path, defined.pop(node.get("schema_ref", ""), None)))
    return ""


def unreadable_kind(node: Mapping[str, Any]) -> str:
    """Return why no value of a part of a type can be read from its JSON; else empty."""
    kind = node.get("type")
    if kind == "generator":
        return "can be read only once: name a list or a tuple"
    if kind == "model" and node.get("cls") is BaseModel:
        return "is BaseModel, which has no fields: name the model"
    keys = node.get("keys_schema") or {}
    if kind == "dict" and keys.get("type") in KEYLESS and "serialization" not in keys:
        return f"has a {keys['type']} as a key, which JSON writes as a text"
    return ""


def is_formless(schema: Mapping[str, Any]) -> bool:
    """Return whether only an object in memory, such as a function, is of a type."""
    return schema["type"] in FORMLESS and "serialization" not in schema


def unbuilt_part(hint: Any) -> Any:
    """Return the innermost part of a type that pydantic cannot build.

    Only a refused type is searched: each part is built alone.
    """
    for part in inner_hints(hint):
        try:
            _ = TypeAdapter(part).core_schema
        except PydanticUserError:
            return unbuilt_part(part)
        except (NameError, TypeError, AttributeError):
            continue
    return hint


def inner_hints(hint: Any) -> Iterable[Any]:
    """Return the arguments of a generic type, or the types of a dataclass's fields."""
    if dataclasses.is_dataclass(hint):
        with contextlib.suppress(NameError, TypeError):
            return typing.get_type_hints(hint, include_extras=True).values()
    return typing.get_args(hint)


def hint_name(hint: Any) -> str:
    """Return the name of a type, as a message has it."""
    name = hint.__qualname__ if isinstance(hint, type) else str(hint)
    return str(name)


def crossing_alias(node: Mapping[str, Any]) -> str:
    """Return the first field whose alias is the name of another one; else empty."""
    fields = {} if isinstance(node.get("type"), str) else node
    if node.get("type") == "dataclass-args":
        fields = {field["name"]: field for field in node["fields"]}
    for name, field in fields.items():
        alias = field.get("validation_alias") if isinstance(field, Mapping) else None
        paths = alias if alias and isinstance(alias[0], list) else [alias]
        for first in (path[0] if isinstance(path, list) else path for path in paths):
            if first != name and first in fields:
                return f"{name} has the name of another field as its alias: {first!r}"
    return ""


def masked(content: bytes, value: Any) -> str:
    """Return where a value has a secret that its JSON may mask; else empty."""
    if MASK not in content:
        return ""
    found = list(parts(value))
    texts = [part for _, part in found if isinstance(part, str)]
    if content.count(MASK) > texts.count(MASK.decode().strip('"')):
        for path, part in found:
            if hasattr(part, "get_secret_value"):
                return f"{at(path)} it has a secret, which JSON masks"
    return ""


def describe_mismatch(adapter: TypeAdapter[Any], value: Any) -> str:
    """Return where a value cannot be stored, the type there, and what is supported.

    Empty: the place was not found.
    """
    for path, part in parts(value):
        if found := unfinished(part):
            return f"{at(path)} it has {found}"
    return mismatch_of_annotation(adapter, value) or mismatch_of_json(value)


def mismatch_of_annotation(adapter: TypeAdapter[Any], value: Any) -> str:
    """Return the first field that is not of the type of the annotation.

    The validator takes an instance of a model as it is, so each model is read again.
    """
    if found := strict_error(adapter.validator.validate_python, value, ()):
        return found
    for path, part in parts(value):
        if isinstance(part, BaseModel):
            validate = functools.partial(
                type(part).__pydantic_validator__.validate_python, by_name=True
            )
            if found := strict_error(validate, dict(part), path):
                return found
    return converted(adapter, value)


def converted(adapter: TypeAdapter[Any], value: Any) -> str:
    """Return the first field that only a conversion makes one of the annotation."""
    try:
        read = adapter.validator.validate_python(value, by_name=True)
    except ValidationError:
        return ""
    wanted = dict(parts(read))
    for path, part in parts(value):
        if path in wanted and type(wanted[path]) is not type(part):
            right = type_name(wanted[path])
            return f"{at(path)} it has {type_name(part)}, the annotation {right}"
    return ""


def strict_error(
    validate: Callable[..., Any], value: Any, path: tuple[Any, ...]
) -> str:
    """Return the first error of a strict validation, below a path; else empty."""
    try:
        validate(value, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        kind, context = first["type"], first.get("ctx", {})
        where = at((*path, *first["loc"]))
        if kind == "missing":
            return f"{where} a field is missing"
        if kind == "finite_number":
            return f"{where} it has NaN or infinity, the annotation a finite number"
        wanted = context.get("class_name") or context.get("class")
        wanted = wanted or kind.removesuffix("_type").replace("_", " ")
        found = type_name(first["input"])
        return f"{where} it has {found}, the annotation {NAMES.get(wanted, wanted)}"
    return ""


def mismatch_of_json(value: Any) -> str:
    """Return the first field whose type, or content, JSON does not support at all.

    Bytes come last: their annotation may write them in base64.
    """
    raw = ""
    for path, part in parts(value):
        for each in (part, *part) if isinstance(part, dict) else (part,):
            if found := unwritable(each):
                return f"{at(path)} it has {found}"
            if isinstance(each, bytes) and not is_supported(each):
                raw = raw or f"{at(path)} it has {RAW_BYTES}"
        is_leaf = not any(True for _ in children(part)) and not isinstance(part, bytes)
        if is_leaf and not is_supported(part):
            return f"{at(path)} it has {type_name(part)}; supported is {SUPPORTED}"
    return raw


def unwritable(leaf: Any) -> str:
    """Return why JSON has no form for a text or an integer; else empty."""
    if isinstance(leaf, str) and not leaf.isascii():
        try:
            leaf.encode()
        except UnicodeEncodeError:
            return "a text with half a character (a surrogate)"
    if isinstance(leaf, int) and abs(leaf) >= MOST_INTEGER:
        return f"an integer of more than {DIGITS:,} digits"
    return ""


def is_supported(leaf: Any) -> bool:
    """Return whether a value without fields can be written as JSON."""
    try:
        to_jsonable_python(leaf)
    except (PydanticSerializationError, ValueError, TypeError):
        return False
    return True


def parts(value: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield a value and its fields with their paths, the outer before the inner."""
    found: list[tuple[tuple[Any, ...], Any]] = [((), value)]
    for path, part in found:  # also what is added meanwhile
        yield path, part
        if len(path) < DEEPEST:
            fields = islice(children(part), SEARCHED - len(found))
            found += [((*path, name), field) for name, field in fields]


def children(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return the fields of a value by their names or numbers."""
    if isinstance(value, BaseModel):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return [(name, getattr(value, name)) for name in names]
    if isinstance(value, Mapping):
        return value.items()
    if isinstance(value, list | tuple | set | frozenset):
        return enumerate(value)
    return ()


def at(path: tuple[Any, ...]) -> str:
    """Return the path in words; the whole value has none."""
    names = [str(name) if isinstance(name, str | int) else "…" for name in path]
    return f"at {'.'.join(names)}" if names else "as a whole"


def type_name(value: Any) -> str:
    """Return the type of a value; only types of Python itself have no module."""
    kind = type(value)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{module}{kind.__qualname__}"


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function, as a message has it."""
    return str(getattr(function, "__qualname__", repr(function)))
