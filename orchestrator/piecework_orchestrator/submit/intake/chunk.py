"""The input of one chunk: its payload, checked as the worker will read it."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel

from piecework.domain.chunk_input import ChunkInput, label_of
from piecework.domain.order_key import read_order_key
from piecework.domain.payload import describe_payload_error, encode_payload
from piecework.errors import UsageError
from piecework.pipelines import Pipeline
from piecework_orchestrator.submit.intake.limits import IntakeLimits


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
    label = label_of(pipeline, payload, location.label, str(location), **place)
    return ChunkInput(label, encoded, order_key)


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
