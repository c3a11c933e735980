"""Leave out of a key what a framework draws anew, by the table of that framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


def without(
    value: Any,
    table: Mapping[str, frozenset[str]],
    kinds: Sequence[str],
    replaced: Callable[[str, Any], Any] = lambda _, value: value,
) -> Any:
    """Return messages without the fields of a table, and without empty ones.

    A field without a value is left out, too: a later version of the framework may add
    one, and the request is still the same.

    Args:
        value: The messages as dicts and lists.
        table: The fields that are left out, by the kind of a dict.
        kinds: The fields that name the kind; the first one that a dict has counts.
        replaced: Returns what stands in place of a field.
    """
    if isinstance(value, Mapping):
        kind = next((value[name] for name in kinds if name in value), "")
        left_out = table.get(kind, frozenset()) if isinstance(kind, str) else ()
        return {
            name: without(replaced(name, member), table, kinds, replaced)
            for name, member in value.items()
            if member is not None and name not in left_out
        }
    if isinstance(value, list | tuple):
        return [without(each, table, kinds, replaced) for each in value]
    return value
