"""Name the types of an error, and follow what it wraps; no library is imported."""

from __future__ import annotations

from typing import Final


def mro(error: BaseException) -> tuple[type, ...]:
    """Return the error's type and its bases."""
    return type(error).__mro__


def type_names(error: BaseException) -> frozenset[str]:
    """Return the names of the error's type and its bases: no library is imported."""
    return frozenset(each.__name__ for each in mro(error))


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
