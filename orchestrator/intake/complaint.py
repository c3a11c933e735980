"""What is wrong with a payload, said without quoting it.

Payloads are the customer's data and errors end up in logs, so a complaint holds field
names and rules, never a value.
"""

from __future__ import annotations

import re
from typing import get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_core.core_schema import ErrorType

from piecework.strict_json import JsonRefusedError

SHOWN = 5

# pydantic's own messages for these carry a piece of the input, or text of a user's
# validator, which may. Types that are not pydantic's own are a user's too.
QUOTING = frozenset(
    {
        "assertion_error",
        "bytes_invalid_encoding",
        "datetime_object_invalid",
        "get_attribute_error",
        "iteration_error",
        "mapping_type",
        "union_tag_invalid",
        "uuid_parsing",
        "value_error",
    }
)
PLAIN = frozenset(get_args(ErrorType)) - QUOTING

# A name of a field; a key of a mapping may be anything, and then it is data.
FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


def complaint(error: Exception) -> str:
    """Return field and rule of the first few errors, as one line.

    A user's validator may raise anything, of which the name of its type has to do.
    """
    if isinstance(error, JsonRefusedError):
        return str(error)
    if not isinstance(error, ValidationError):
        return f"a validator raised {type(error).__name__}"
    found = error.errors(include_url=False, include_context=False, include_input=False)
    said = [f"{_field(detail)}: {_rule(detail)}" for detail in found[:SHOWN]]
    if len(found) > SHOWN:
        said.append(f"and {len(found) - SHOWN} more")
    return "; ".join(said)


def _field(detail: ErrorDetails) -> str:
    steps = [
        str(step) if isinstance(step, int) or FIELD.fullmatch(step) else "*"
        for step in detail["loc"]
    ]
    return ".".join(steps) or "payload"


def _rule(detail: ErrorDetails) -> str:
    if detail["type"] not in PLAIN:
        return detail["type"]
    # The payload is one line of its own: only the column helps to find the spot.
    return detail["msg"].replace(" at line 1 column ", " at column ")
