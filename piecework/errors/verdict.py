"""The result of classifying one error: the code and its evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from piecework.errors.codes import ErrorClass, lookup
from piecework.errors.sent import Sent


@dataclass(frozen=True, slots=True)
class Verdict:
    """A code and its evidence; the registry has the class unless the error has one."""

    code: str
    http_status: int | None = None
    provider_code: str | None = None
    retry_after: float | None = None
    own_class: ErrorClass | None = field(default=None, kw_only=True)
    message: str | None = field(default=None, kw_only=True)  # instead of the error's
    dependency: str = field(default="", kw_only=True)  # it cannot be called
    sent: Sent | None = field(default=None, kw_only=True)  # None: by the error's type

    @property
    def error_class(self) -> ErrorClass:
        """The class that decides the recovery."""
        return self.own_class or lookup(self.code).error_class


# An error, the layer of the call (`llm` or `tool`) and the time -> a verdict, if the
# shape matches.
Shape = Callable[[BaseException, str, float | None], Verdict | None]
