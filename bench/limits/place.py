"""Whose key it is: the kind of item that a request is about, whatever its numbers."""

from __future__ import annotations

import re
from typing import Final

from piecework import keys

#: What stands alone, by the whole key of its partition.
ALONE: Final = (keys.ACTIVE_PK, keys.BREAKERS_PK)
#: What belongs to a chunk lies with its group; all else of a job with the job.
OF_A_GROUP: Final = ("CHUNK", "RESULT", "WORK", "TALLY")
_GROUP: Final = re.compile(r"#G#[0-9]+\Z")


def item_kind(pk: str, sk: str) -> str:
    """Return the kind of an item, or of the items that a query asks for."""
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
