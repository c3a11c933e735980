"""The input of one chunk: what a submit, or a stage that maps, makes of a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from piecework.errors import PieceworkError, UsageError
from piecework.errors.location import raised_text

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


class Labelled(Protocol):
    """A pipeline, as far as its labels need it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def label(self) -> Callable[[Any], str] | None:
        """The function that names a chunk in tables."""


def label_of(
    pipeline: Labelled,
    payload: Any,
    default: str,
    where: str,
    *,
    origin: str = "",
    part: str = "",
) -> str:
    """Return the pipeline's label of a payload, else a default, for a table cell.

    `where`: the chunk, for a sentence; `origin` and `part`: the same for programs.

    Raises:
        UsageError: `input.label.failed`.
    """
    if pipeline.label is None:
        return clean_label(default)
    try:
        return clean_label(pipeline.label(payload)) or clean_label(default)
    except PieceworkError:
        raise
    except Exception as error:
        raise UsageError(
            f"The label function of pipeline {pipeline.name} {raised_text(error)} "
            f"for {where}.",
            code="input.label.failed",
            next_step="Correct the function; it must return a string for any payload.",
            origin=origin,
            part=part,
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
