"""Write dead letters to a file or to standard output, for programs and archives."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from orchestrator.cli.formats import Format
from orchestrator.cli.letter_story import payload_of
from orchestrator.cli.letters import Letter
from orchestrator.cli.output import Output, encode
from piecework.errors import UsageError
from piecework.model import JobRef
from piecework.record import listed
from piecework.runtime import Runtime


async def export(
    rt: Runtime, out: Output, letters: Sequence[Letter], to: str, *, payload: bool
) -> None:
    """Write letters, one a line, as they stand in the table.

    Raises:
        UsageError: `cli.usage.invalid`: the file cannot be written to.
    """
    if not to:
        await write(rt, out.stdout, letters, payload=payload)
        return
    with await asyncio.to_thread(opened, Path(to)) as file:
        await write(rt, file, letters, payload=payload)
    count = len(letters)
    out.say(f"{count} dead letter{'s' * (count != 1)} written to {to}")


def opened(path: Path) -> TextIO:
    """Open a file to write to."""
    try:
        return path.open("w", encoding="utf-8")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no path"
        message = f"{str(path)!r} cannot be written: {why}."
        raise UsageError(message, next_step="Name another file.") from error


async def write(
    rt: Runtime, file: TextIO, letters: Sequence[Letter], *, payload: bool
) -> None:
    """Write letters, with their payloads if that is asked for."""
    for letter in letters:
        facts = {k: v for k, v in letter.items() if k not in {"pk", "sk", "expires_at"}}
        facts["trail"] = listed(str(letter["trail"]), "The trail of a dead letter")
        if payload:
            ref = JobRef(letter["tenant"], letter["job"]).chunk(letter["chunk"])
            facts |= await payload_of(rt, ref, letter)
        file.write(encode(facts, Format.JSONL))
