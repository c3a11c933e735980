"""Read a new payload, or a patch, as it was typed; say what it makes of each letter."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from orchestrator.cli.letters import Letter, chunk_word
from orchestrator.editing import Edit, edited
from piecework.errors import UsageError
from piecework.loading import load_pipeline
from piecework.outcome import Compensation
from piecework.payloads import MOST_BYTES
from piecework.pipeline import Pipeline
from piecework.runtime import Runtime
from piecework.strict_json import Bounds, JsonRefusedError, read_json

#: What was done before such a death stands, or may: it was not undone.
STANDING = {
    Compensation.FAILED,
    Compensation.PAST_PIVOT,
    Compensation.PIVOT_UNKNOWN,
    Compensation.ABANDONED,
}
#: The payload that each letter would get, by its place in the list.
NewPayloads: TypeAlias = dict[int, Any]


async def read_edit(file: str, patch: str) -> dict[str, Any] | None:
    """Return the JSON object that was typed, or that a file holds.

    Raises:
        UsageError: `cli.usage.invalid`; `redrive.payload.invalid`.
    """
    if file and patch:
        message = "--edit replaces a payload, and --patch changes it."
        raise UsageError(message, next_step="Give one of the two.")
    if not (file or patch):
        return None
    text = await asyncio.to_thread(content_of, Path(file)) if file else patch
    try:
        found = read_json(text, Bounds(MOST_BYTES))
    except JsonRefusedError as error:
        message = f"{file or '--patch'} is no JSON that is taken: {error}."
        raise UsageError(message, code="redrive.payload.invalid") from error
    if not isinstance(found, dict):
        message = f"{file or '--patch'} is no JSON object."
        raise UsageError(message, code="redrive.payload.invalid")
    return found


def content_of(path: Path) -> str:
    """Return the text of a file."""
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError) as error:  # no text, or no path
        message = f"{str(path)!r} cannot be read: {type(error).__name__}."
        raise UsageError(message, next_step="Name a file of JSON.") from error


async def make_edit(file: str, patch: str, pipeline: str) -> Edit | None:
    """Return what is to become of payloads; None: nothing.

    Raises:
        UsageError: `cli.usage.invalid`; `redrive.payload.invalid`.
    """
    value = await read_edit(file, patch)
    if value is None:
        if pipeline:
            message = "--pipeline says what new payloads have to fit; there are none."
            raise UsageError(message, next_step="Add --edit FILE or --patch JSON.")
        return None
    return Edit(value, whole=bool(file), pipeline=named(pipeline))


def named(pipeline: str) -> Pipeline | None:
    """Return the pipeline of a name; None for no name."""
    return load_pipeline(pipeline) if pipeline else None


def standing(letters: Sequence[Letter]) -> int:
    """Count the letters of which something may stand that was done.

    The ledger knows an effect by its arguments: with others it is another effect.
    """
    return sum(letter.get("compensation") in STANDING for letter in letters)


async def new_payloads(
    rt: Runtime, letters: Sequence[Letter], edit: Edit | None
) -> NewPayloads:
    """Return what would become of payloads, before anything is changed.

    Raises:
        UsageError: `redrive.payload.invalid`, naming the chunk; `cli.usage.invalid`:
            one payload was typed, and there are several letters.
    """
    if edit is None:
        return {}
    if edit.whole and len(letters) > 1:
        message = f"--edit is one payload, and {len(letters)} dead letters fit."
        raise UsageError(message, next_step="Name one: --job JOB --chunk N.")
    payloads: NewPayloads = {}
    for place, letter in enumerate(letters):
        try:
            new = await edited(rt, letter, edit)
        except UsageError as error:
            message = f"{letter['job']}/{chunk_word(letter)}: {error.message}"
            raise UsageError(message, code=error.code) from error
        if new is not None:
            payloads[place] = json.loads(new.content)
    return payloads
