"""Read a new payload or a patch from the command line, and preview its effect."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from piecework.aws.payloads import MOST_BYTES
from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.outcome import CompensationResult
from piecework.domain.refs import ChunkRef
from piecework.domain.strict_json import Bounds, JsonRefusedError, read_json
from piecework.errors import UsageError
from piecework.loading import load_pipeline
from piecework.runtime import Runtime
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.dead_letters.closing import Selection
from piecework_orchestrator.dead_letters.letters import chunk_name
from piecework_orchestrator.dead_letters.redrive import Edit, edit_payload

#: Compensation states in which effects of the dead chunk are still in force, or may be.
NOT_COMPENSATED = {
    CompensationResult.FAILED,
    CompensationResult.PAST_PIVOT,
    CompensationResult.PIVOT_UNKNOWN,
    CompensationResult.ABANDONED,
}
#: The new payload of each dead letter that gets one, by its chunk.
NewPayloads: TypeAlias = dict[ChunkRef, Any]


def make_edit(file: str, patch: str, pipeline: str) -> Edit | None:
    """Return the change of payloads that was typed; None: the payloads stay.

    Raises:
        UsageError: `cli.usage.invalid`; `redrive.payload.invalid`.
    """
    value = read_edit(file, patch)
    if value is None:
        if pipeline:
            message = "--pipeline checks new payloads, and requires --edit or --patch."
            raise UsageError(message, next_step="Add --edit FILE or --patch JSON.")
        return None
    checked_by = load_pipeline(pipeline) if pipeline else None
    return Edit(value, whole=bool(file), pipeline=checked_by)


def read_edit(file: str, patch: str) -> dict[str, Any] | None:
    """Return the JSON object of `--edit FILE` or `--patch JSON`; None without either.

    Raises:
        UsageError: `cli.usage.invalid`; `redrive.payload.invalid`.
    """
    if file and patch:
        message = "--edit and --patch exclude each other."
        raise UsageError(message, next_step="Remove --edit or --patch.")
    if not (file or patch):
        return None
    text = read_text(Path(file)) if file else patch
    try:
        found = read_json(text, Bounds(MOST_BYTES))
    except JsonRefusedError as error:
        message = f"{file or '--patch'} is not valid JSON: {error}."
        raise UsageError(message, code="redrive.payload.invalid") from error
    if not isinstance(found, dict):
        message = f"{file or '--patch'} is not a JSON object."
        raise UsageError(message, code="redrive.payload.invalid")
    return found


def read_text(path: Path) -> str:
    """Return the text of a file."""
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError) as error:  # not text, or not a path
        message = f"{str(path)!r} cannot be read: {type(error).__name__}."
        raise UsageError(message, next_step="Name a JSON file.") from error


async def preview_payloads(
    rt: Runtime, letters: Sequence[DeadLetterRow], edit: Edit | None
) -> NewPayloads:
    """Return the new payloads, before anything is changed.

    Raises:
        UsageError: `redrive.payload.invalid` and `redrive.field.unknown`, naming the
            chunk; `cli.usage.invalid`: `--edit` was given for several dead letters.
    """
    if edit is None:
        return {}
    if edit.whole and len(letters) > 1:
        message = f"--edit sets one payload, but {len(letters)} dead letters match."
        raise UsageError(message, next_step="Select one: --job JOB --chunk N.")
    payloads: NewPayloads = {}
    only_joins = all(letter.ref.is_join for letter in letters)
    for letter in letters:
        if letter.ref.is_join and not only_joins:
            continue  # a join has no payload, and is redriven with the others
        try:
            new = await edit_payload(rt, letter, edit)
        except UsageError as error:
            message = f"{letter.ref.job}/{chunk_name(letter.chunk)}: {error.message}"
            raise UsageError(
                message, code=error.code, next_step=error.next_step
            ) from error
        if new is not None:
            payloads[letter.ref] = json.loads(new.content)
    return payloads


def warn_of_edit(
    out: Output, selection: Selection, payloads: NewPayloads, edit: Edit | None
) -> None:
    """Write what a new payload does not change, and which effects it may repeat."""
    with_payload = sum(not letter.ref.is_join for letter in selection.letters)
    if edit is not None and (same := with_payload - len(payloads)) > 0:
        word = "--edit" if edit.whole else "--patch"
        out.tell(f"{word} changes nothing in {same} of {with_payload} payloads")
    if not payloads:
        return
    out.say(
        "completed stages keep their results; the other stages get the new payload, "
        "and make each call whose arguments differ"
    )
    if count := count_not_compensated(selection.letters):
        out.say(
            f"warning: {count} of them have effects that were not compensated, and a "
            "new payload may repeat these; check `piecework chunks show` first"
        )


def count_not_compensated(letters: Sequence[DeadLetterRow]) -> int:
    """Count the dead letters whose effects may still be in force.

    The ledger finds an effect by its arguments, so with another payload a redrive may
    repeat it.
    """
    return sum(letter.compensation in NOT_COMPENSATED for letter in letters)
