"""The placeholders of reserved attribute names in DynamoDB expressions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

#: Attribute names that DynamoDB reserves, such as `status`, are written `#status`.
MARKED = re.compile(r"#(\w+)")


@lru_cache(maxsize=256)
def marked_names(*expressions: str) -> Mapping[str, str]:
    """Return the attribute name of each placeholder in the expressions.

    The number of different expressions is small, so each is parsed once.
    """
    found = {f"#{name}": name for text in expressions for name in MARKED.findall(text)}
    return MappingProxyType(found)
