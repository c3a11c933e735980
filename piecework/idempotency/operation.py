"""A call as its strategy sees it: scope, operation and arguments by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from piecework import keys
from piecework.canonical import canonical_json
from piecework.errors import PermanentError
from piecework.idempotency.record import Slot

#: The parameter that receives the key, if the function has it.
KEY = "idempotency_key"


@dataclass(frozen=True, slots=True)
class Operation:
    """A requested call.

    Attributes:
        names: Tenant, scope and the name of the operation.
        arguments: The arguments by parameter name, without the key.
    """

    names: tuple[str, str, str]
    arguments: Mapping[str, Any]

    def slot(self, strategy: str, key: Any, number: int = 0) -> Slot:
        """Return the place of the operation in a store.

        Raises:
            PermanentError: `idempotency.key.unusable`.
        """
        try:
            payload = keys.sha256(canonical_json(self.arguments).encode())
            slot_key = keys.call_key(strategy, *self.names, args=key)
        except (ValueError, TypeError) as error:
            raise unusable_key(self.names[-1], "an argument is not JSON") from error
        return Slot(slot_key, payload, number, self.names[-1])


def operation_of(
    function: Callable[..., Any],
    tenant: str,
    scope: str | Callable[..., str],
    name: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Operation:
    """Return the operation of a call.

    An argument that is left out is not replaced by its default. So a parameter with a
    default that is added later does not change the keys of earlier calls. A scope that
    is a function receives the arguments by name.

    Raises:
        TypeError: The arguments do not fit the function.
        PermanentError: `idempotency.key.unusable`.
    """
    if kwargs.get(KEY):
        reason = f"{KEY} is computed; use `ByKey(of=...)` to choose the arguments"
        raise unusable_key(name, reason)
    own = {KEY: ""} if takes_key(function) else {}
    kwargs = {key: value for key, value in kwargs.items() if key != KEY}
    arguments = inspect.signature(function).bind(*args, **kwargs, **own).arguments
    arguments.pop(KEY, None)
    scope_name = scope if isinstance(scope, str) else scope(**arguments)
    if not scope_name:
        raise unusable_key(name, "its scope is empty")
    return Operation((tenant, scope_name, name), arguments)


def takes_key(function: Callable[..., Any]) -> bool:
    """Return whether a function has a parameter for the key."""
    return KEY in inspect.signature(function).parameters


def unusable_key(name: str, reason: str) -> PermanentError:
    """Return the error of a call for which no key can be computed."""
    message = f"{name} has no stable key: {reason}."
    return PermanentError(message, code="idempotency.key.unusable")
