"""Write the payload of a chunk as JSON, checked as the worker will read it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticSerializationError, to_json
from pydantic_core.core_schema import ErrorType

from piecework.domain.mismatch import mismatch_of_json
from piecework.domain.non_finite import encode_non_finite, may_be_non_finite
from piecework.domain.round_trip import (
    NotKeptError,
    require_kept_value,
    require_unmasked,
)
from piecework.domain.strict_json import KIB, Bounds, JsonRefusedError, read_json
from piecework.errors import PieceworkError, UsageError
from piecework.errors.location import raised_text

M = TypeVar("M", bound=BaseModel)

#: Bytes of a payload as JSON; workers read whole payloads, dozens at a time.
PAYLOAD_LIMIT: Final = 256 * KIB


def encode_payload(
    model: type[BaseModel],
    payload: object,
    where: str,
    *,
    most: int = PAYLOAD_LIMIT,
    **details: Any,
) -> bytes:
    """Return JSON that a worker reads as the same payload.

    A model can write JSON that it does not accept: a value that was set without
    validation. It can lose a field, too, whose aliases differ.

    Args:
        model: The payload of the pipeline.
        payload: The payload of one chunk.
        where: The place of the payload, for messages.
        most: The bytes that it may have.
        details: The parts of the place, for the error.

    Raises:
        UsageError: `input.payload.invalid`, `input.payload.too_large`.
    """
    if not isinstance(payload, model):
        kinds = f"it is a {type(payload).__name__}, not a {model.__name__}"
        raise invalid_payload(kinds, where, details)
    try:
        encoded = keep_payload(model, payload)[0].encode()
        # Read as the worker does; the size has a better message.
        read_json(encoded, Bounds(max(most, len(encoded))), finite=False)
    except PieceworkError:
        raise
    except JsonRefusedError as error:
        raise invalid_payload(f"as JSON {error}", where, details) from error
    except NotKeptError as error:
        reason = f"a worker would read another payload from its JSON: {error}"
        raise invalid_payload(reason, where, details) from error
    except (PydanticSerializationError, UnicodeEncodeError) as error:
        where_in = mismatch_of_json(payload)
        reason = "it cannot be encoded as JSON" + (where_in and f": {where_in}")
        raise invalid_payload(reason, where, details) from error
    except Exception as error:
        reason = f"its JSON does not validate: {describe_payload_error(error)}"
        raise invalid_payload(reason, where, details) from error
    if len(encoded) > most:
        raise UsageError(
            f"The payload of {where} has {len(encoded):,} bytes; "
            f"the limit is {most:,}.",
            code="input.payload.too_large",
            next_step="Split into smaller chunks, or pass a reference to the data.",
            **details,
        )
    return encoded


def invalid_payload(reason: str, where: str, details: dict[str, Any]) -> UsageError:
    """Return the error of a payload that a worker could not read."""
    return UsageError(
        f"The payload of {where} is not valid: {reason}.",
        code="input.payload.invalid",
        next_step="Correct the payload model, or what makes the payload.",
        **details,
    )


# ── a row that was refused, and is submitted as a dead letter ─────────────────
#
# A worker refuses the payload with the reason of the submit. An operator sees the row,
# and corrects it by a patch.

REFUSED: Final = "piecework:refused"
ROW: Final = "row"


def refused_payload(reason: str, row: Callable[[], Any], most: int) -> bytes:
    """Return the payload of a row that a submit has refused.

    Args:
        reason: What is wrong with the row.
        row: Its data; null if it has no JSON, or is too large.
        most: The bytes that the payload may have.
    """
    try:
        content = to_json({REFUSED: reason, ROW: row()}, fallback=str)
        read_json(content, Bounds(most))
    except ValueError:
        return to_json({REFUSED: reason, ROW: None})
    return content


def refusal_of(payload: Any) -> str | None:
    """Return why a submit refused a row; None: it is the payload of any other chunk."""
    return payload[REFUSED] if is_refused(payload) else None


def row_of(payload: Any) -> Any:
    """Return the data of a row that a submit has refused; another payload as it is."""
    return payload[ROW] if is_refused(payload) else payload


def is_refused(payload: Any) -> bool:
    """Return whether a payload is that of a row that a submit has refused."""
    return isinstance(payload, dict) and payload.keys() == {REFUSED, ROW}


# ── what is wrong with a payload, without quoting it ──────────────────────────
#
# Payloads are the customer's data, and errors end up in logs. So a description contains
# field names and rules, never a value.

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

    A user's validator may raise any exception; then its type and line are named.
    """
    if isinstance(error, JsonRefusedError):
        return str(error)
    if not isinstance(error, ValidationError):
        return f"a validator {raised_text(error)}"
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


# ── what a submit writes, and what a worker reads from it ─────────────────────


def write_payload(
    payload: BaseModel, *, by_alias: bool = True, exclude_unset: bool = False
) -> str:
    """Return a payload, or an answer, as JSON; `read_payload` reads it.

    `exclude_unset`: without the fields that were never set, so that they stay unset.

    Raises:
        ValueError: It has a value that is not of its field's type.
    """
    text = payload.model_dump_json(
        by_alias=by_alias,
        round_trip=True,
        warnings="error",
        exclude_unset=exclude_unset,
    )
    if not may_be_non_finite(text.encode()):
        return text
    return encode_non_finite(type(payload), payload, by_alias=by_alias) or text


def read_payload(model: type[M], content: str | bytes) -> M:
    """Return the payload that a submit has written, by aliases and names of its fields.

    A submit writes a field by its name if only its reading has an alias. Without names
    such a field would become its default.
    """
    return model.model_validate_json(content, by_alias=True, by_name=True)


def keep_payload(
    model: type[M], payload: BaseModel, *, by_alias: bool = True
) -> tuple[str, M]:
    """Return a payload, or an answer, as JSON, and what a worker will read from it.

    Raises:
        NotKeptError: A worker would read another payload, or a masked secret.
        ValueError: It has a value that is not of its field's type, or its JSON does not
            validate again.
    """
    text = write_payload(payload, by_alias=by_alias)
    require_unmasked(text.encode(), payload)
    read = read_payload(model, text)
    require_kept_value(payload, read)
    return text, read
