"""The input of one chunk: its payload, checked as the worker will read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from piecework.domain.order_key import read_order_key
from piecework.domain.payload import describe_payload_error, encode_payload
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
    place = {"origin": location.origin, "part": location.part}
    encoded = encode_payload(
        pipeline.payload, payload, str(location), most=limits.payload_bytes, **place
    )
    order_key = read_order_key(pipeline.ordered_by, payload, str(location), **place)
    return ChunkInput(_label(payload, location, pipeline), encoded, order_key)


def _label(payload: Any, location: SourceLocation, pipeline: Pipeline) -> str:
    """Return the pipeline's label, else that of the location, for a table cell."""
    if pipeline.label is None:
        return clean_label(location.label)
    try:
        return clean_label(pipeline.label(payload)) or clean_label(location.label)
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


def clean_label(text: str) -> str:
    """Replace control characters, fold white space, and cut to `LABEL_LENGTH`."""
    text = text[:LABEL_READ]
    if not text.isprintable():
        text = "".join(c if c.isprintable() else " " for c in text)
    folded = " ".join(text.split())
    if len(folded) > LABEL_LENGTH:
        return folded[: LABEL_LENGTH - 1].rstrip() + "…"
    return folded


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
