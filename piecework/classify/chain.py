"""Follow the causes and the contexts of an error."""

from __future__ import annotations

from typing import Final

_LIMIT: Final = 5  # deeper causes are internal to the libraries


def causes(error: BaseException) -> list[BaseException]:
    """Follow `raise … from …`: an unknown wrapper takes the class of its cause."""
    found = [error]
    while (cause := found[-1].__cause__) and len(found) < _LIMIT:
        found.append(cause)
    return found


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
