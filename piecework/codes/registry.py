"""Join the rows of all layers into one registry, and look up codes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from itertools import chain
from types import MappingProxyType
from typing import Final

from piecework.codes import (
    aws,
    cli,
    config,
    embedded,
    idempotency,
    infra,
    input,  # noqa: A004  a layer's name, read only as `input.ROWS`
    job,
    llm,
    pipeline,
    redrive,
    runtime,
    submit,
    tool,
)
from piecework.codes.row import Code

# In the order of the documentation page: the errors of running chunks come first.
LAYERS: Final[Mapping[str, tuple[Code, ...]]] = MappingProxyType(
    {
        "llm": llm.ROWS,
        "tool": tool.ROWS,
        "aws": aws.ROWS,
        "runtime": runtime.ROWS,
        "input": input.ROWS,
        "pipeline": pipeline.ROWS,
        "submit": submit.ROWS,
        "job": job.ROWS,
        "redrive": redrive.ROWS,
        "idempotency": idempotency.ROWS,
        "config": config.ROWS,
        "embedded": embedded.ROWS,
        "infra": infra.ROWS,
        "cli": cli.ROWS,
    }
)

REGISTRY: Final[Mapping[str, Code]] = MappingProxyType(
    {row.code: row for row in chain.from_iterable(LAYERS.values())}
)

_WELL_FORMED: Final = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9][a-z0-9_]*){2}")


class UnknownCodeError(AssertionError):
    """A code without a row: an error of the programmer, not of the user."""


def lookup(code: str) -> Code:
    """Return the row of a code.

    Raises:
        UnknownCodeError: The code has no row; the message names similar codes.
    """
    row = REGISTRY.get(code)
    if row is None:
        near = ", ".join(get_close_matches(code, REGISTRY, cutoff=0.5)) or "none"
        message = f"The error code {code!r} has no row; similar codes: {near}."
        raise UnknownCodeError(message)
    return row


def is_well_formed(code: str) -> bool:
    """Return whether a code has the form `layer.kind.detail` in lower case."""
    return _WELL_FORMED.fullmatch(code) is not None
