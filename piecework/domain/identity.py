"""Name the function of a call, so that two functions never have the same name.

A function is known by its module and its qualified name, if that name leads to it. A
lambda, a nested function, a method of an object and a decorated copy have no such name.
What distinguishes them is in memory only, and a later claim cannot see it. The user
declares a name for them, or passes what distinguishes them as arguments.
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, TypeVar, cast

from piecework.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

#: The attribute of a function with a declared name.
_DECLARED = "__piecework_call__"


@dataclass(frozen=True, slots=True, eq=False)
class _Declared:
    """A declared name.

    Attributes:
        text: Stands for module and qualified name.
        owner: The function that has the attribute; a copy of it is another function.
        target: What the name was declared for, if the owner is only made around it.
    """

    text: str
    owner: Any
    target: Any


def named_call(name: str, *, version: str = "") -> Callable[[F], F]:
    """Declare the name under which the calls of a function are remembered.

    Name and version stand in place of module and qualified name. A function that moves
    keeps its answers; a new version is called again. It also names what has no name of
    its own, such as a method: `pay = named_call("us.pay")(us_client.pay)`.

    Two functions of a pipeline must not have the same name and version.

    Raises:
        UsageError: `pipeline.declaration.invalid`: the name is empty.
    """
    if not name:
        message = "The declared name of a call is empty."
        raise UsageError(message, code="pipeline.declaration.invalid")
    text = json.dumps(["named", name, version])

    def declare(function: F) -> F:
        if isinstance(function, FunctionType):
            return declare_text(function, text, function)
        return declare_text(cast("F", _around(function)), text, function)

    return declare


def at_its_place(function: F) -> F:
    """Let module and qualified name stand for a function that a decorator wraps.

    Raises:
        UsageError: `pipeline.call.indistinct`: it is a lambda or nested.
    """
    operation_name(function)
    text = json.dumps(["at", function.__module__, path_of(function)])
    return declare_text(function, text, function)


def _around(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls an object, which may not take an attribute."""

    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        return await function(*args, **kwargs)

    return call


def declare_text(function: F, text: str, target: object) -> F:
    """Let a text stand for a function that was made for a target."""
    setattr(function, _DECLARED, _Declared(text, function, target))
    return function


def function_text(function: Callable[..., Any]) -> str:
    """Return the text that stands for a function in keys.

    Raises:
        UsageError: `pipeline.call.indistinct`: no name leads to the function.
    """
    name, leads = path_of(function), leads_to(function)
    declared = _declared(function)
    # A decorator copies the attribute: on the copy it counts if the name leads there.
    if declared is not None and (declared.owner is function or leads):
        return declared.text
    if not leads:
        raise _indistinct(function, name)
    return json.dumps(["at", function.__module__, name])


def function_words(function: str, *, with_version: bool = True) -> str:
    """Return the name of a function from the text that stands for it.

    `with_version`: with the version of a name that was declared.
    """
    try:
        kind, first, second = json.loads(function)
    except ValueError:
        return function or "a call"
    if kind == "at":
        return f"{first}.{second}"
    return f"{first} {second}".strip() if with_version else str(first)


def operation_name(function: Callable[..., Any]) -> str:
    """Return the name of a function that is being decorated: nothing leads to it yet.

    Raises:
        UsageError: `pipeline.call.indistinct`: it is a lambda or nested.
    """
    declared = _declared(function)
    if declared is not None:
        return declared.text
    name = path_of(function)
    if "<" in name or inspect.ismethod(inspect.unwrap(function)):
        raise _indistinct(function, name)
    return f"{function.__module__}.{name}"


def has_own_name(function: Callable[..., Any]) -> bool:
    """Return whether a function keeps its key if it moves to another module."""
    declared = _declared(function)
    return declared is not None and declared.text.startswith('["named"')


def _declared(function: Callable[..., Any]) -> _Declared | None:
    found = getattr(function, _DECLARED, None)
    return found if isinstance(found, _Declared) else None


def path_of(function: Callable[..., Any]) -> str:
    """Return the qualified name; a method of a class has the name of that class."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, type):
        return f"{owner.__qualname__}.{function.__name__}"
    name = getattr(function, "__qualname__", None)
    return name if isinstance(name, str) else type(function).__qualname__


def leads_to(function: Callable[..., Any]) -> bool:
    """Return whether the function's own name, in its own module, leads to it."""
    module = sys.modules.get(str(getattr(function, "__module__", "")))
    # Code that was not imported, as in a notebook, has only its globals.
    names = vars(module) if module else getattr(function, "__globals__", {})
    first, *rest = path_of(function).split(".")
    found = names.get(first)
    for part in rest:
        found = getattr(found, part, None)
    # Each access to a method of a class makes another object, which is equal.
    return found is function or (inspect.ismethod(function) and found == function)


def _indistinct(function: Callable[..., Any], name: str) -> UsageError:
    if inspect.ismethod(inspect.unwrap(function)):
        what = f"{name} is a method of an object, and equal calls of two objects"
    elif name.endswith("<lambda>"):
        what = "A lambda has no name, and equal calls of two lambdas"
    elif "<locals>" in name:
        what = f"{name} is a function in a function, and equal calls of two of them"
    else:
        what = f"The name {name} leads to something else, and equal calls of the two"
    return UsageError(
        f"{what} would be taken for one.", code="pipeline.call.indistinct"
    )


def unfold(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """Return the function and all arguments of a call of a `functools.partial`."""
    while isinstance(function, functools.partial):
        partial = function
        args, kwargs = (*partial.args, *args), {**partial.keywords, **kwargs}
        function = partial.func
    return function, args, kwargs


@dataclass(slots=True)
class CalledFunctions:
    """The functions that a run of a stage has called, by the key of the call."""

    by_key: dict[str, Callable[..., Any]] = field(default_factory=dict)

    def require_same(self, key: str, function: Callable[..., Any]) -> None:
        """Refuse a call whose key another function has.

        Raises:
            UsageError: `pipeline.call.indistinct`.
        """
        first = self.by_key.setdefault(key, function)
        if not same_function(first, function):
            message = (
                f"Two functions are called as {path_of(function)} with equal arguments."
            )
            raise UsageError(
                message,
                code="pipeline.call.indistinct",
                next_step="Declare another name or version for one of them.",
            )


def same_function(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Return whether two functions do the same: each run makes nested ones again."""
    if one is other:
        return True
    first, second = target_of(one), target_of(other)
    if isinstance(first, FunctionType) and isinstance(second, FunctionType):
        return [*_parts(first)] == [*_parts(second)] and first.__closure__ is None
    return bool(first == second)


def target_of(function: Callable[..., Any]) -> Any:
    """Return what a function was made for, if that is declared, else itself."""
    declared = _declared(function)
    return function if declared is None else declared.target


def _parts(function: FunctionType) -> Iterator[Any]:
    yield function.__code__
    yield function.__closure__
    yield function.__defaults__
    yield function.__kwdefaults__
