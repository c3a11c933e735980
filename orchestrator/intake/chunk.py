"""One chunk's input: what the worker will be given, proven to be readable there."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from orchestrator.intake.complaint import complaint
from orchestrator.intake.limits import Limits
from piecework.errors import PieceworkError, UsageError
from piecework.pipeline import Pipeline
from piecework.strict_json import Bounds, JsonRefusedError, read_json

LABEL_LENGTH = 64
#: Characters of a label that are looked at: a function may return a whole document.
LABEL_READ = 4_096


@dataclass(frozen=True, slots=True)
class ChunkInput:
    """A chunk to be: its label for tables, and its payload as compact JSON."""

    label: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Place:
    """Where a chunk comes from: a line of a manifest or a piece of a document."""

    origin: str
    part: str
    label: str

    def __str__(self) -> str:
        """Read as `part` of `origin`, in a sentence."""
        return f"{self.part} of {self.origin}"


def chunk_input(
    payload: object, place: Place, pipeline: Pipeline, limits: Limits
) -> ChunkInput:
    """Label a payload and encode it.

    Raises:
        UsageError: When it is not of the pipeline's type, does not survive the way
            to the worker as JSON, or is too large.
    """
    if not isinstance(payload, pipeline.payload):
        raise _invalid(
            f"it is a {type(payload).__name__}, not a {pipeline.payload.__name__}",
            place,
        )
    encoded = _encoded(payload, place, pipeline, limits)
    if len(encoded) > limits.payload_bytes:
        raise UsageError(
            f"The payload of {place} has {len(encoded):,} bytes; "
            f"{limits.payload_bytes:,} is the most.",
            code="input.payload.too_large",
            next_step="Split finer, or hand over a reference in place of the data.",
            origin=place.origin,
            part=place.part,
        )
    return ChunkInput(_label(payload, place, pipeline), encoded)


def _encoded(
    payload: BaseModel, place: Place, pipeline: Pipeline, limits: Limits
) -> bytes:
    """Return JSON that the worker's own validation is known to accept.

    A model may write what it does not read: infinity as null, a field by its name
    that is read by its alias, anything set past validation.
    """
    try:
        text = payload.model_dump_json(by_alias=True, round_trip=True, warnings="error")
        encoded = text.encode()
        # As the worker reads it; of its size a better word is said later.
        read_json(encoded, Bounds(max(limits.payload_bytes, len(encoded))))
        pipeline.payload.model_validate_json(encoded)
    except PieceworkError:
        raise
    except JsonRefusedError as error:
        raise _invalid(f"as JSON {error}", place) from error
    except (PydanticSerializationError, UnicodeEncodeError) as error:
        raise _invalid("it cannot be written as JSON", place) from error
    except Exception as error:
        why = f"as JSON it reads back wrong: {complaint(error)}"
        raise _invalid(why, place) from error
    return encoded


def _invalid(why: str, place: Place) -> UsageError:
    return UsageError(
        f"The payload of {place} is not valid: {why}.",
        code="input.payload.invalid",
        next_step="Correct the pipeline's split, or the payload model.",
        origin=place.origin,
        part=place.part,
    )


def _label(payload: BaseModel, place: Place, pipeline: Pipeline) -> str:
    """Return the pipeline's label or the place, fit for one cell of a table."""
    if pipeline.label is None:
        return _cell(place.label)
    try:
        return _cell(pipeline.label(payload)) or _cell(place.label)
    except PieceworkError:
        raise
    except Exception as error:
        raise UsageError(
            f"The label function of pipeline {pipeline.name} raised "
            f"{type(error).__name__} for {place}.",
            code="input.label.failed",
            next_step="Correct the function; it must return a string for any payload.",
            origin=place.origin,
            part=place.part,
        ) from error


def _cell(text: str) -> str:
    """Fold white space and drop what could steer a terminal; cut to the length."""
    text = text[:LABEL_READ]
    if not text.isprintable():
        text = "".join(c if c.isprintable() else " " for c in text)
    folded = " ".join(text.split())
    if len(folded) > LABEL_LENGTH:
        return folded[: LABEL_LENGTH - 1].rstrip() + "…"
    return folded
