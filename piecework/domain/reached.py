"""Find the objects of a type that functions name, such as models and pipelines.

They are found where functions keep names: in globals, closures, defaults and
attributes. What only running code reaches is not found.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

#: Objects that are looked at, so that a pipeline of any size is read in milliseconds.
MOST_OBJECTS: Final = 5_000


def nothing(_: Any) -> Iterable[Any]:
    """Return nothing further."""
    return ()


def reached_from(
    functions: Iterable[Any],
    kinds: type | tuple[type, ...],
    *,
    also: Callable[[Any], Iterable[Any]] = nothing,
) -> list[Any]:
    """Return the objects of some types that functions lead to, each once.

    `also`: what one of these objects leads to.
    """
    found, seen, waiting = list[Any](), set[int](), [*functions]
    while waiting and len(seen) < MOST_OBJECTS:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        try:
            is_found = isinstance(each, kinds)
            further = [*(also(each) if is_found else named_by(each))]
        except Exception:  # noqa: BLE001, S112 -- a proxy may refuse to be looked at
            continue
        found += [each] if is_found else []
        waiting += further
    return found


def named_by(value: Any) -> Iterator[Any]:
    """Yield what a value leads to: of a function, all that its code names."""
    yield getattr(value, "__wrapped__", None)
    match value:
        case functools.partial():
            yield from (value.func, *value.args, *value.keywords.values())
        case FunctionType():
            yield from named_by_function(value)
        case MethodType():
            yield from (value.__self__, value.__func__)
        case Mapping():
            yield from value.values()
        case list() | tuple() | set() | frozenset():
            yield from value
        case type() | ModuleType():
            pass
        case _ if is_users(type(value).__module__) or hasattr(value, "dependency"):
            yield from attributes(value)
            yield type(value).__dict__.get("__call__")


def attributes(value: Any) -> Iterator[Any]:
    """Yield the values of an object's attributes."""
    yield from vars(value).values() if hasattr(value, "__dict__") else ()
    for name in getattr(type(value), "__slots__", ()):
        yield getattr(value, name, None)


def named_by_function(function: FunctionType) -> Iterator[Any]:
    """Yield what a function's closure, defaults and code name."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # it is empty: the name is not assigned yet
            continue
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    if not is_users(function.__module__):
        return
    names = set(names_in(function.__code__))
    for name in names & function.__globals__.keys():
        value = function.__globals__[name]
        if type(value) is ModuleType and is_users(value.__name__):
            yield from (vars(value)[n] for n in names & vars(value).keys())
        else:
            yield value


def names_in(code: CodeType) -> Iterator[str]:
    """Yield the names in a function's code, those of functions inside it included."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from names_in(each)


def is_users(module: str | None) -> bool:
    """Return whether a module may be the user's: neither Python's nor Piecework's.

    A function that `exec` has made, as some libraries do, may have none.
    """
    first = (module or "").partition(".")[0]
    return first not in sys.stdlib_module_names and first != "piecework"
