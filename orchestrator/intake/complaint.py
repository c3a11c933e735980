"""Describe what is wrong with a payload, without quoting it.

Payloads are the customer's data, and errors end up in logs. So a description contains
field names and rules, never a value.
"""

from __future__ import annotations

import re
from typing import get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_core.core_schema import ErrorType

from piecework.strict_json import JsonRefusedError

MAX_ERRORS = 5

# The messages of these pydantic errors quote input, or text of a user's validator that
# may quote input. Error types that are not pydantic's come from users, too.
QUOTING_TYPES = frozenset(
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
SAFE_TYPES = frozenset(get_args(ErrorType)) - QUOTING_TYPES

# The name of a field. A key of a mapping may be data, so other keys are not shown.
FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


def describe_payload_error(error: Exception) -> str:
    """Return field and rule of the first few errors, as one line.

    A user's validator may raise any exception; then only its type is named.
    """
    if isinstance(error, JsonRefusedError):
        return str(error)
    if not isinstance(error, ValidationError):
        return f"a validator raised {type(error).__name__}"
    found = error.errors(include_url=False, include_context=False, include_input=False)
    descriptions = [
        f"{_field(detail)}: {_rule(detail)}" for detail in found[:MAX_ERRORS]
    ]
    if len(found) > MAX_ERRORS:
        descriptions.append(f"and {len(found) - MAX_ERRORS} more")
    return "; ".join(descriptions)


def _field(detail: ErrorDetails) -> str:
    steps = [
        str(step) if isinstance(step, int) or FIELD.fullmatch(step) else "*"
        for step in detail["loc"]
    ]
    return ".".join(steps) or "payload"


def _rule(detail: ErrorDetails) -> str:
    if detail["type"] not in SAFE_TYPES:
        return detail["type"]
    # The payload is a single line, so only the column helps.
    return detail["msg"].replace(" at line 1 column ", " at column ")
