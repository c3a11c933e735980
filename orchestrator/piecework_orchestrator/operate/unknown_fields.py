"""Find the fields of an edited payload or value that nothing reads.

A model ignores what it does not know. So a misspelt field would vanish, and its chunk
would run, and be paid for, with the old value.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from piecework.errors import UsageError
from piecework_orchestrator.submit.intake.columns import meant, unread, unread_parts

#: The names from a payload or a value down to a field of it.
Path: TypeAlias = tuple[str, ...]
#: Names of fields that a message has at most, and the characters of each.
SHOWN: Final = 5
SHOWN_LENGTH: Final = 128


def unstored(value: Any, old: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield the fields of a new value that the stored one does not have.

    With each comes the stored field that may be meant; empty: it is far from all. An
    empty object and a value of another kind have no fields to compare with. The parts
    of a list are alike, so a part may have each field that one of the stored parts has.
    """
    if isinstance(value, dict) and isinstance(old, dict) and (old or not path):
        free = {name.casefold(): name for name in old if name not in value}
        for name, part in value.items():
            if name in old:
                yield from unstored(part, old[name], (*path, name))
            else:
                near = difflib.get_close_matches(name.casefold(), free, n=1)
                yield (*path, name), free[near[0]] if near else ""
    elif isinstance(value, list) and isinstance(old, list):
        known: dict[str, Any] = {}
        for part in old:
            known = part | known if isinstance(part, dict) else known
        for number, part in enumerate(value):
            if known:
                yield from unstored(part, known, (*path, str(number)))


def unread_fields(value: Any, read: Any) -> Iterator[tuple[Path, str]]:
    """Yield the fields of a new value that no model reads, each with what is meant.

    `read` is what validation made of the new payload.
    """
    for path, model, names in unread_parts(read, value, ()):
        for name in unread(model, names):
            yield (*path, name), meant(model, name, names)


def unknown_fields(what: str, why: str, fields: Mapping[Path, str]) -> UsageError:
    """Return the error of new fields that would vanish, each with what may be meant."""
    words = [
        repr(".".join(path)[:SHOWN_LENGTH])
        + (f" (did you mean {near!r}?)" * bool(near))
        for path, near in list(fields.items())[:SHOWN]
    ]
    words += [f"and {len(fields) - SHOWN} more"] if len(fields) > SHOWN else []
    return UsageError(
        f"The new {what} has {', '.join(words)}: {why}.",
        code="redrive.field.unknown",
        next_step="Correct the name. If it is a field of the type that was not stored, "
        "the same line with `--pipeline MODULE:NAME` accepts it.",
    )
