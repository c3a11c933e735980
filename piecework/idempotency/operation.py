"""A call as its strategy sees it: whose it is, and what it was given, by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from piecework import keys
from piecework.canonical import canonical_json
from piecework.errors import PermanentError
from piecework.idempotency.record import Slot

#: The parameter in which a function is given the key, if it has it.
KEY = "idempotency_key"


@dataclass(frozen=True, slots=True)
class Operation:
    """A call that is asked for.

    Attributes:
        names: Tenant, scope and the operation's own name.
        arguments: Without a key, by the names of the function's parameters.
    """

    names: tuple[str, str, str]
    arguments: Mapping[str, Any]

    def slot(self, strategy: str, key: Any, number: int = 0) -> Slot:
        """Return where the operation is remembered.

        Raises:
            PermanentError: `idempotency.key.unusable`.
        """
        try:
            payload = keys.sha256(canonical_json(self.arguments).encode())
            slot_key = keys.call_key(strategy, *self.names, args=key)
        except (ValueError, TypeError) as error:
            raise unusable(self.names[-1], "an argument is not JSON") from error
        return Slot(slot_key, payload, number, self.names[-1])


def operation(
    function: Callable[..., Any],
    tenant: str,
    scope: str | Callable[..., str],
    name: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Operation:
    """Return the operation that a call asks for.

    A default that is left out stays out: a parameter that is added later, with one,
    does not change the keys of the calls before it. The scope may be made of the
    arguments.

    Raises:
        TypeError: The arguments do not fit the function.
        PermanentError: `idempotency.key.unusable`.
    """
    if kwargs.get(KEY):
        raise unusable(name, f"{KEY} is made here; `ByKey(of=...)` says of what")
    own = {KEY: ""} if takes_key(function) else {}
    kwargs = {key: value for key, value in kwargs.items() if key != KEY}
    arguments = inspect.signature(function).bind(*args, **kwargs, **own).arguments
    arguments.pop(KEY, None)
    whose = scope if isinstance(scope, str) else scope(**arguments)
    if not whose:
        raise unusable(name, "its scope is empty")
    return Operation((tenant, whose, name), arguments)


def takes_key(function: Callable[..., Any]) -> bool:
    """Say whether a function wants to be given the key."""
    return KEY in inspect.signature(function).parameters


def unusable(name: str, why: str) -> PermanentError:
    """Return the error of a call that makes no key."""
    message = f"{name} has no stable key: {why}."
    return PermanentError(message, code="idempotency.key.unusable")
