"""Which names of an expression are marked: those that DynamoDB reserves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

#: Attribute names that DynamoDB reserves, such as `status`, are written `#status`.
MARKED = re.compile(r"#(\w+)")


@lru_cache(maxsize=256)
def marked_names(*expressions: str) -> Mapping[str, str]:
    """Return what the marked names of expressions stand for.

    There are as many expressions as kinds of writes: each is looked through once.
    """
    found = {f"#{name}": name for text in expressions for name in MARKED.findall(text)}
    return MappingProxyType(found)
