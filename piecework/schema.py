"""The versions of what is stored and sent: a reader leaves what is newer to others.

They rise only when a reader of the version before would do wrong; what may be left out
is just added. Each claim writes its own version on its chunk, so that the rows below a
chunk are never newer than the chunk says, and no older worker can claim it any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from piecework.errors import SchemaTooNewError

Item = TypeVar("Item", bound=Mapping[str, Any])

#: Of every item, in its attribute `v`; one without it is of the first.
SCHEMA: Final = 1
#: Of every message, in its field `v`.
MESSAGES: Final = 1


def is_newer(item: Mapping[str, Any]) -> bool:
    """Say whether an item is of a later version than this code knows."""
    version = item.get("v")
    return type(version) is int and version > SCHEMA


def require_known(item: Item) -> Item:
    """Return an item that this code can read.

    Raises:
        SchemaTooNewError: It is of a later version.
    """
    if is_newer(item):
        message = f"An item is of version {item['v']}; this version knows {SCHEMA}."
        raise SchemaTooNewError(message)
    return item
