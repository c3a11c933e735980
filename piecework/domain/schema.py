"""The schema versions of items and messages.

A version rises only if a reader of the version before would act wrongly. Optional
fields are added without a new version. Each claim writes its own version on its
chunk. So the rows of a chunk are never newer than the chunk, and no older worker can
claim it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from piecework.errors import SchemaTooNewError

Item = TypeVar("Item", bound=Mapping[str, Any])

#: The version of items, in the attribute `v`; an item without it has version 1.
SCHEMA: Final = 1
#: The version of messages, in the field `v`.
MESSAGES: Final = 1


def is_newer(item: Mapping[str, Any]) -> bool:
    """Return whether an item has a later version than this code reads."""
    version = item.get("v")
    return type(version) is int and version > SCHEMA


def require_known(item: Item) -> Item:
    """Return the item if this code can read it.

    Raises:
        SchemaTooNewError: The item has a later version.
    """
    if is_newer(item):
        message = (
            f"An item has schema version {item['v']}; this code reads up to {SCHEMA}."
        )
        raise SchemaTooNewError(message)
    return item
