"""The result of classifying one error: the code and its evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from piecework.errors.codes import ErrorClass, lookup

if TYPE_CHECKING:
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


def mro(error: BaseException) -> tuple[type, ...]:
    """Return the error's type and its bases."""
    return type(error).__mro__


def type_names(error: BaseException) -> frozenset[str]:
    """Return the names of the error's type and its bases: no library is imported."""
    return frozenset(each.__name__ for each in mro(error))


# ── follow the causes and the contexts of an error ────────────────────────────

_LIMIT: Final = 5  # deeper causes are internal to the libraries
#: Libraries that wrap an error without `raise … from`.
_WRAPPERS: Final = frozenset(
    {
        "aiohttp",
        "botocore",
        "google",
        "httpx",
        "requests",
        "stripe",
        "urllib",
        "urllib3",
    }
)
#: The libraries whose types have the names of another's.
_SAME: Final = {"httpcore": "httpx", "httpcore2": "httpx", "httpx2": "httpx"}


def library_name(kind: type) -> tuple[str, str]:
    """Return the first part of a type's module, and its name."""
    module = kind.__module__.partition(".")[0]
    return _SAME.get(module, module), kind.__name__


def causes(error: BaseException) -> list[BaseException]:
    """Return the error and what it wraps: a wrapper has the class of its cause.

    A context counts only in a library: the user's own code may raise anything while it
    handles the error of an earlier request.
    """
    found = [error]
    while len(found) <= _LIMIT:
        cause = _wrapped(found[-1])
        if cause is None or any(cause is each for each in found):
            break
        found.append(cause)
    return found


def _wrapped(error: BaseException) -> BaseException | None:
    if error.__cause__ is not None:
        return error.__cause__
    if library_name(type(error))[0] not in _WRAPPERS:
        return None
    held = (getattr(error, "reason", None), *error.args, error.__context__)
    return next((each for each in held if isinstance(each, BaseException)), None)


def chain(error: BaseException) -> list[BaseException]:
    """Follow the causes and the contexts that are not suppressed."""
    found = [error]
    while len(found) < _LIMIT:
        last = found[-1]
        before = last.__cause__
        if before is None and not last.__suppress_context__:
            before = last.__context__
        if before is None:
            break
        found.append(before)
    return found
