"""Write JSON that every parser reads, of any stored document."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

#: Control characters that JSON does not escape; terminals obey them.
CONTROLS = re.compile("[\x7f-\x9f]")


def encode_json(value: Any, indent: int | None = None) -> str:
    """Return JSON that every parser reads: NaN and infinity are written as strings."""
    write = partial(
        json.dumps,
        ensure_ascii=False,
        indent=indent,
        allow_nan=False,
        default=to_jsonable,
    )
    try:
        text = write(value)
    except ValueError:
        text = write(name_non_finite(value))
    return CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def to_jsonable(value: object) -> object:
    """Return a value that JSON does not have as one that it has."""
    from pydantic_core import to_jsonable_python  # most documents need only JSON

    return to_jsonable_python(value)


def name_non_finite(value: Any) -> Any:
    """Return data with `"NaN"`, `"Infinity"` and `"-Infinity"` as strings."""
    if isinstance(value, Mapping):
        return {key: name_non_finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [name_non_finite(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)
    return value
