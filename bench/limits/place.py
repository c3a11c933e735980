"""Classify the item of a request by its key, ignoring numbers."""

from __future__ import annotations

import re
from typing import Final

from piecework import keys

#: Items outside of all jobs, by their partition key.
ALONE: Final = (keys.ACTIVE_PK, keys.BREAKERS_PK)
#: A chunk's items lie in its group's partition; other items lie in the job's.
OF_A_GROUP: Final = ("CHUNK", "RESULT", "WORK", "TALLY")
_GROUP: Final = re.compile(r"#G#[0-9]+\Z")


def item_kind(pk: str, sk: str) -> str:
    """Return the kind of an item, or of the items of a query."""
    if pk in ALONE:
        return pk
    if pk.endswith("#JOBS"):
        return "JOBS"
    first, _, rest = sk.partition("#")
    if first == "WORK":
        first = rest.partition("#")[2].partition("#")[0] or "WORK"
        return f"group {first}"
    of_a_group = first in OF_A_GROUP and rest != "JOIN"
    return f"{'group' if of_a_group or _GROUP.search(pk) else 'job'} {first}"


def object_kind(path: str) -> str:
    """Return the kind of an object, from a path such as `/bucket/tenants/...`."""
    found = re.search(r"/jobs/[^/]+/([a-z]+)/", path)
    return f"object {found[1]}" if found else "object"
