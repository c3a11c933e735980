"""Parameters as JSON: the very bytes that the SDK writes, by an encoder made once.

`json.dumps` makes one for each text, and looks for circles in it, for longer than the
writing takes; what we send is built in one place and has none.
"""

from __future__ import annotations

import json
import json.encoder
from collections.abc import Callable
from typing import Any

#: The one in C; None where Python has none.
_MAKE: Any = getattr(json.encoder, "c_make_encoder", None)
#: What it is told: no spaces are left out, nothing is sorted or skipped.
_NO_CIRCLES, _INDENT, _SORTED, _SKIPS, _NAN = None, None, False, False, True


def encoder() -> Callable[[Any], bytes]:
    """Return what writes a value as JSON, and raises `TypeError` for what it cannot."""
    plain = json.JSONEncoder()
    if _MAKE is None:
        return lambda value: plain.encode(value).encode()
    parts = _MAKE(
        _NO_CIRCLES,
        plain.default,
        json.encoder.encode_basestring_ascii,
        _INDENT,
        plain.key_separator,
        plain.item_separator,
        _SORTED,
        _SKIPS,
        _NAN,
    )
    return lambda value: "".join(parts(value, 0)).encode()


encoded = encoder()
