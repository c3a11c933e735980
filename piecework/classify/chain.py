"""What an error was raised from, and what was being handled when it was."""

from __future__ import annotations

from typing import Final

_LIMIT: Final = 5  # deeper causes are the libraries' own affair


def causes(error: BaseException) -> list[BaseException]:
    """Follow `raise … from …`: a wrapper without a class takes that of its cause."""
    found = [error]
    while (cause := found[-1].__cause__) and len(found) < _LIMIT:
        found.append(cause)
    return found


def chain(error: BaseException) -> list[BaseException]:
    """Follow causes and, where they are not hidden, what was being handled."""
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
