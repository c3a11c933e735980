"""The input of one chunk: its payload, checked as the worker will read it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticSerializationError
from pydantic_core.core_schema import ErrorType

from piecework.domain.mismatch import masked, non_finite
from piecework.domain.order_key import read_order_key
from piecework.domain.records import Bounds, JsonRefusedError, read_json
from piecework.domain.values import read_payload, write_payload
from piecework.errors import PieceworkError, UsageError
from piecework.errors.location import raised_text
from piecework.pipelines import Pipeline
from piecework_orchestrator.submit.intake.limits import IntakeLimits

LABEL_LENGTH = 64
#: Characters of a label that are read: a label function may return a whole document.
LABEL_READ = 4_096


@dataclass(frozen=True, slots=True)
class ChunkInput:
    """A chunk before its submission: a label for tables, a payload as compact JSON.

    Attributes:
        order_key: Its order key in clear; it is not stored. Empty: it has none.
    """

    label: str
    payload: bytes
    order_key: str = ""


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """The origin of a chunk: a row or a part of a document."""

    origin: str
    part: str
    label: str

    def __str__(self) -> str:
        """Return "`part` of `origin`" for a sentence."""
        return f"{self.part} of {self.origin}"


def chunk_input(
    payload: object, location: SourceLocation, pipeline: Pipeline, limits: IntakeLimits
) -> ChunkInput:
    """Label a payload and encode it as JSON.

    Raises:
        UsageError: `input.payload.invalid`: the payload has another type, or its JSON
            does not validate again. `input.payload.too_large`. `input.label.failed`.
            `input.order.failed`, `input.order.invalid`.
    """
    if not isinstance(payload, pipeline.payload):
        raise _invalid(
            f"it is a {type(payload).__name__}, not a {pipeline.payload.__name__}",
            location,
        )
    encoded = _encoded(payload, location, pipeline, limits)
    if len(encoded) > limits.payload_bytes:
        raise UsageError(
            f"The payload of {location} has {len(encoded):,} bytes; "
            f"the limit is {limits.payload_bytes:,}.",
            code="input.payload.too_large",
            next_step="Split into smaller chunks, or pass a reference to the data.",
            origin=location.origin,
            part=location.part,
        )
    order_key = read_order_key(
        pipeline.ordered_by,
        payload,
        str(location),
        origin=location.origin,
        part=location.part,
    )
    return ChunkInput(_label(payload, location, pipeline), encoded, order_key)


def _encoded(
    payload: BaseModel,
    location: SourceLocation,
    pipeline: Pipeline,
    limits: IntakeLimits,
) -> bytes:
    """Return JSON that the worker reads as the same payload.

    A model can write JSON that it does not accept: a value that was set without
    validation. It can lose a field, too, whose aliases differ.
    """
    try:
        text = write_payload(payload)
        encoded = text.encode()
        if found := masked(encoded, payload):
            raise _invalid(found, location)
        # Read as the worker does; the caller reports the size with a better message.
        bounds = Bounds(max(limits.payload_bytes, len(encoded)))
        read_json(encoded, bounds, finite=False)
        read = read_payload(pipeline.payload, encoded)
        # Private attributes and sets may differ although the JSON is the same.
        is_same = read == payload or write_payload(read) == text
        if "null" in text:  # an untyped set in a model may write NaN as null
            is_same &= non_finite(read) == non_finite(payload)
    except PieceworkError:
        raise
    except JsonRefusedError as error:
        raise _invalid(f"as JSON {error}", location) from error
    except (PydanticSerializationError, UnicodeEncodeError) as error:
        raise _invalid("it cannot be encoded as JSON", location) from error
    except Exception as error:
        reason = f"its JSON does not validate: {describe_payload_error(error)}"
        raise _invalid(reason, location) from error
    if not is_same:
        raise _invalid("a worker would read another payload from its JSON", location)
    return encoded


def _invalid(reason: str, location: SourceLocation) -> UsageError:
    return UsageError(
        f"The payload of {location} is not valid: {reason}.",
        code="input.payload.invalid",
        next_step="Correct the pipeline's split, or the payload model.",
        origin=location.origin,
        part=location.part,
    )


def _label(payload: BaseModel, location: SourceLocation, pipeline: Pipeline) -> str:
    """Return the pipeline's label, else that of the location, for a table cell."""
    if pipeline.label is None:
        return _clean_label(location.label)
    try:
        return _clean_label(pipeline.label(payload)) or _clean_label(location.label)
    except PieceworkError:
        raise
    except Exception as error:
        raise UsageError(
            f"The label function of pipeline {pipeline.name} {raised_text(error)} "
            f"for {location}.",
            code="input.label.failed",
            next_step="Correct the function; it must return a string for any payload.",
            origin=location.origin,
            part=location.part,
        ) from error


def _clean_label(text: str) -> str:
    """Replace control characters, fold white space, and cut to `LABEL_LENGTH`."""
    text = text[:LABEL_READ]
    if not text.isprintable():
        text = "".join(c if c.isprintable() else " " for c in text)
    folded = " ".join(text.split())
    if len(folded) > LABEL_LENGTH:
        return folded[: LABEL_LENGTH - 1].rstrip() + "…"
    return folded


# ── what is wrong with a payload, without quoting it ──────────────────────────
#
# Payloads are the customer's data, and errors end up in logs. So a description contains
# field names and rules, never a value.

MAX_ERRORS = 5


def misfit_error(
    model: type[BaseModel], location: SourceLocation, error: Exception, **details: int
) -> UsageError:
    """Return the error of a row of a file that does not fit the payload."""
    return UsageError(
        f"{location.part.capitalize()} of {location.origin} does not fit "
        f"{model.__name__}: {describe_payload_error(error)}.",
        code="input.rows.invalid_line",
        next_step=f"Correct {location.part}, then submit again. No job was created.",
        origin=location.origin,
        **details,
    )


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
