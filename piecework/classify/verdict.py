"""What one shape of error tells: the code, and the figures that came with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from piecework.codes import ErrorClass, lookup


@dataclass(frozen=True, slots=True)
class Verdict:
    """A code and its evidence; the class is the registry's unless the error has one."""

    code: str
    http_status: int | None = None
    provider_code: str | None = None
    retry_after: float | None = None
    own_class: ErrorClass | None = field(default=None, kw_only=True)
    message: str | None = field(default=None, kw_only=True)  # instead of the error's
    dependency: str = field(default="", kw_only=True)  # whose breaker is open

    @property
    def error_class(self) -> ErrorClass:
        """The class that decides the recovery."""
        return self.own_class or lookup(self.code).error_class


# An error, whose call it was (`llm` or `tool`) and the time -> a verdict, if it fits.
Shape = Callable[[BaseException, str, float | None], Verdict | None]


def type_names(error: BaseException) -> frozenset[str]:
    """Name the error's type and all its bases: libraries are known without import."""
    return frozenset(each.__name__ for each in type(error).__mro__)
