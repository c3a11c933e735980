"""The key of a call, which decides whether two calls are the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from piecework import keys
from piecework.dependency import Dependency


@dataclass(frozen=True, slots=True)
class CallScope:
    """The chunk and the stage that make a call: a part of the call's key."""

    tenant: str
    job: str
    chunk: int
    stage: str


def call_key(
    scope: CallScope,
    dependency: Dependency,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> str:
    """Return the key under which a call's value is stored, equal for equal calls."""
    return keys.call_key(
        *(scope.tenant, scope.job, scope.chunk, scope.stage),
        dependency.name,
        function.__qualname__,
        args=[args, kwargs],
    )
