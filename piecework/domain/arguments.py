"""Write the arguments of a call as a text that is equal only for equal arguments.

The key of a call is made of this text. The text has all that the called function can
see. That includes each field of a model, each key's type, and the type of each value
that is not JSON. JSON would lose that: it writes `Decimal("1")`, `b"1"` and `"1"` as
the same text.

Two calls are the same if only the Unicode form of their texts differs. Equal texts from
two sources may have two forms. The order of dicts and sets does not count either.

    null true 1 1.5 "a" [..] {..}     as in JSON; keys keep their type
    !date("2026-01-31")               another type of the standard library
    !("module:Name",..)               a model, a dataclass, an enum, a subclass
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import fractions
import functools
import inspect
import io
import ipaddress
import json
import math
import pathlib
import re
import unicodedata
import uuid
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum, Flag
from typing import Any, Final

from pydantic import AnyUrl, BaseModel, Secret, SecretBytes, SecretStr
from pydantic_core import MultiHostUrl, TzInfo, Url

from piecework.domain.keys import sha256
from piecework.domain.strict_json import DEPTH
from piecework.errors import UsageError

#: Quotes a string and escapes what JSON escapes; other characters stay as they are.
_quoted: Final = json.encoder.encode_basestring
_LARGEST_PLAIN: Final = 2**63


def digest_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return the digest of arguments, which stands for them in keys.

    Raises:
        UsageError: As `arguments_text`.
    """
    return sha256(arguments_text(args, kwargs).encode(errors="surrogatepass"))


def arguments_text(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return the text of arguments, which may contain secrets: hash it.

    Raises:
        UsageError: `pipeline.argument.indistinct`: the text would lose something that
            the function can see.
    """
    try:
        return f"{_write(list(args), 0)}{_write(dict(kwargs), 0)}"
    except _IndistinctError as error:
        message = f"Argument {error.path} is {error.what}: it cannot identify a call."
        raise UsageError(
            message, code="pipeline.argument.indistinct", next_step=error.instead
        ) from None
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> UsageError:
    message = f"An argument is nested deeper than {DEPTH}, or contains itself."
    return UsageError(message, code="pipeline.argument.indistinct")


class _IndistinctError(Exception):
    """A value whose text would lose something; the path leads to it."""

    def __init__(self, what: str, instead: str) -> None:
        super().__init__(what)
        self.what, self.instead, self.path = what, instead, ""

    def inside(self, step: str) -> _IndistinctError:
        self.path = step + self.path
        return self


def _write(value: Any, depth: int) -> str:
    """Return the text of a value of any type."""
    kind = type(value)
    if kind is str:
        return _string(value)
    atom = _ATOMS.get(kind)
    if atom is not None:
        return atom(value)
    if depth >= DEPTH:
        raise RecursionError
    container = _CONTAINERS.get(kind)
    if container is not None:
        return container(value, depth + 1)
    return _write_other(value, depth + 1)


def _string(value: str) -> str:
    if not value.isascii():
        value = unicodedata.normalize("NFC", value)
    return _quoted(value)


def _integer(value: int) -> str:
    # Python limits the digits of a decimal number, not of a hexadecimal one.
    return repr(value) if abs(value) < _LARGEST_PLAIN else f"!int({value:x})"


def _float(value: float) -> str:
    return repr(value) if math.isfinite(value) else f"!float({value!r})"


# Containers: each names the place of a value that it cannot write.


def _each(values: Iterable[Any], depth: int) -> Iterator[str]:
    for place, value in enumerate(values):
        try:
            yield _write(value, depth)
        except _IndistinctError as error:
            raise error.inside(f"[{place}]") from None


def _list(value: Iterable[Any], depth: int) -> str:
    return f"[{','.join(_each(value, depth))}]"


def _set(value: Iterable[Any], depth: int) -> str:
    return f"[{','.join(sorted(_each(value, depth)))}]"


def _pairs(value: Mapping[Any, Any], depth: int) -> list[str]:
    pairs = []
    for key, member in value.items():
        try:
            pairs.append(f"{_write(key, depth)}:{_write(member, depth)}")
        except _IndistinctError as error:
            raise error.inside(f"[{key!r}]" if _is_name(key) else "[…]") from None
    return pairs


def _is_name(key: Any) -> bool:
    """Return whether a key may stand in a message: it is a name, not data."""
    return isinstance(key, str) and key.isidentifier()


def _dict(value: Mapping[Any, Any], depth: int) -> str:
    return f"{{{','.join(sorted(_pairs(value, depth)))}}}"


def _ordered_dict(value: Mapping[Any, Any], depth: int) -> str:
    return f"!OrderedDict({','.join(_pairs(value, depth))})"


def _default_dict(value: defaultdict[Any, Any], depth: int) -> str:
    factory = value.default_factory
    if factory is not None and not isinstance(factory, type):
        raise _IndistinctError("a defaultdict with a function", "Pass a dict.")
    name = "null" if factory is None else _quoted(type_name(factory))
    return f"!defaultdict({name},{_dict(value, depth)})"


def _deque(value: deque[Any], depth: int) -> str:
    return f"!deque({value.maxlen},{_list(value, depth)})"


def _pattern(value: re.Pattern[Any], depth: int) -> str:
    return f"!pattern({_write(value.pattern, depth)},{value.flags})"


# Dates and times: the zone counts, and the second of two equal hours, too.


def _datetime(value: dt.datetime | dt.time) -> str:
    name, zone = type(value).__name__, _zone(value.tzinfo)
    return f"!{name}({_quoted(value.isoformat())},{value.fold},{zone})"


def _zone(zone: dt.tzinfo | None) -> str:
    match zone:
        case None:
            return "null"
        case dt.timezone() | TzInfo():
            name, offset = zone.tzname(None) or "", zone.utcoffset(None)
            return f"!{type(zone).__name__}({_quoted(name)},{offset})"
        case zoneinfo.ZoneInfo(key=str(key)):
            return f"!ZoneInfo({_quoted(key)})"
    what = f"a time in a zone of the type {type(zone).__name__}"
    raise _IndistinctError(what, "Use a `zoneinfo.ZoneInfo` with a key.")


def _tagged(tag: str, form: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: f"!{tag}({_quoted(form(value))})"


_ATOMS: Final[Mapping[type, Callable[[Any], str]]] = {
    type(None): lambda _: "null",
    bool: lambda value: "true" if value else "false",
    int: _integer,
    float: _float,
    complex: _tagged("complex", repr),
    bytes: _tagged("bytes", bytes.hex),
    bytearray: _tagged("bytearray", bytearray.hex),
    decimal.Decimal: _tagged("Decimal", str),
    fractions.Fraction: _tagged("Fraction", str),
    dt.date: _tagged("date", dt.date.isoformat),
    dt.datetime: _datetime,
    dt.time: _datetime,
    dt.timedelta: _tagged("timedelta", repr),
    uuid.UUID: _tagged("UUID", str),
    range: _tagged("range", repr),
    **{
        kind: _tagged(kind.__name__, str)
        for kind in (
            *(pathlib.PurePosixPath, pathlib.PureWindowsPath),
            *(pathlib.PosixPath, pathlib.WindowsPath),
            *(ipaddress.IPv4Address, ipaddress.IPv6Address),
            *(ipaddress.IPv4Network, ipaddress.IPv6Network),
            *(ipaddress.IPv4Interface, ipaddress.IPv6Interface),
        )
    },
}
_CONTAINERS: Final[Mapping[type, Callable[[Any, int], str]]] = {
    list: _list,
    dict: _dict,
    tuple: lambda value, depth: f"!tuple({_list(value, depth)})",
    set: lambda value, depth: f"!set({_set(value, depth)})",
    frozenset: lambda value, depth: f"!frozenset({_set(value, depth)})",
    OrderedDict: _ordered_dict,
    defaultdict: _default_dict,
    Counter: lambda value, depth: f"!Counter({_dict(value, depth)})",
    deque: _deque,
    re.Pattern: _pattern,
}


# Values of a class that a user has written, or that a library has.


def type_name(kind: type) -> str:
    """Return module and qualified name of a class, and its type arguments."""
    generic = getattr(kind, "__pydantic_generic_metadata__", None) or {}
    name = f"{kind.__module__}:{kind.__qualname__}"
    if not generic.get("origin"):
        return name
    args = (type_name(a) if isinstance(a, type) else repr(a) for a in generic["args"])
    return f"{type_name(generic['origin'])}[{', '.join(args)}]"


def _write_other(value: Any, depth: int) -> str:
    """Return the text of a value of a class: its name, and all that it holds.

    A model or a dataclass that is also a list, say, holds more than its fields.
    """
    content = None
    match value:
        case Enum():
            content = _write(value.value if isinstance(value, Flag) else value.name, 0)
        case SecretStr() | SecretBytes() | Secret():
            content = _write(value.get_secret_value(), depth)
        case Url() | MultiHostUrl() | AnyUrl():
            content = _string(str(value))
        case str() | int() | float() | bytes() if not _has_more(value):
            content = _write(_plain(value), depth)
        case tuple() if hasattr(value, "_fields") and not _has_more(value):
            content = _list(value, depth)
        case str() | int() | float() | bytes() | tuple() | list() | dict() | set():
            pass
        case BaseModel():
            content = _model(value, depth)
        case _ if dataclasses.is_dataclass(value):
            fields = [field.name for field in dataclasses.fields(value)]
            content = _members(value, fields, depth)
    if content is None:
        raise _indistinct(value)
    return f"!({_quoted(type_name(type(value)))},{content})"


def _plain(value: str | float | bytes) -> Any:
    """Return the value of a subclass as its base; its own methods may show another."""
    match value:
        case str():
            return str.__str__(value)
        case int():
            return int.__int__(value)
        case float():
            return float.__float__(value)
    return bytes.join(b"", [value])


def _model(value: BaseModel, depth: int) -> str:
    """Return all that a model holds: excluded, extra and private fields, too.

    A function may send only the fields that were set. So a field that was left out
    differs from one that was set to its default. It does not count while it has its
    default: a new version may add such a field, and the call is still the same.
    """
    unset = type(value).model_fields.keys() - value.model_fields_set
    default = {name for name in unset if _has_default(value, name, depth)}
    more = {**(value.model_extra or {}), **(value.__pydantic_private__ or {})}
    held = _members(value, type(value).model_fields, depth, default)
    return f"{held},{_dict(more, depth)},{_list(sorted(unset - default), depth)}"


def _has_default(value: BaseModel, name: str, depth: int) -> bool:
    """Return whether a field has its default, as a value that is made now would.

    A default that cannot be told, or that is another one each time, counts.
    """
    try:
        declared = type(value).model_fields[name]
        default = declared.get_default(call_default_factory=True)
        return _write(getattr(value, name), depth) == _write(default, depth)
    except Exception:  # noqa: BLE001 -- a user's function makes it
        return False


def _members(
    value: Any, fields: Iterable[str], depth: int, left_out: Collection[str] = ()
) -> str:
    """Return the fields of a value, and what else was set on it.

    What a cached property keeps follows from the fields.
    """
    found = {name: getattr(value, name) for name in fields if hasattr(value, name)}
    for name, member in getattr(value, "__dict__", {}).items():
        declared = inspect.getattr_static(type(value), name, None)
        if not isinstance(declared, functools.cached_property):
            found[name] = member
    return _dict({n: found[n] for n in found if n not in left_out}, depth)


def _has_more(value: Any) -> bool:
    """Return whether a value of a subclass has attributes of its own."""
    slots = any(vars(kind).get("__slots__") for kind in type(value).__mro__)
    return slots or bool(getattr(value, "__dict__", None))


def _indistinct(value: Any) -> _IndistinctError:
    """Return the error of a value that no text can stand for."""
    name = type(value).__name__
    if inspect.isawaitable(value):
        return _IndistinctError(f"a {name}", "Await it, and pass its result.")
    if isinstance(value, io.IOBase):
        instead = "Pass its path, or read it and pass its content."
        return _IndistinctError("an open file", instead)
    if isinstance(value, Iterator) or inspect.isasyncgen(value):
        instead = "Pass a list: what is read for the key cannot be read again."
        return _IndistinctError(f"a {name}", instead)
    if callable(value):
        instead = "Pass its name, and let the called function look it up."
        return _IndistinctError(f"a {name}", instead)
    instead = (
        "Pass what distinguishes it: text, numbers, lists, dicts, a dataclass or a "
        "pydantic model."
    )
    return _IndistinctError(f"an object of the type {name}", instead)
