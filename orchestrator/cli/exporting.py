"""Export dead letters to a file or to standard output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from orchestrator.cli.formats import Format
from orchestrator.cli.letter_story import payload_facts
from orchestrator.cli.letters import Letter
from orchestrator.cli.output import Output, encode
from orchestrator.cli.whole_file import whole_file
from piecework.model import JobRef
from piecework.record import read_value
from piecework.runtime import Runtime


async def export(
    rt: Runtime, out: Output, letters: Sequence[Letter], to: str, *, payload: bool
) -> None:
    """Write dead letters, one per line, with the attributes of the table.

    Raises:
        UsageError: `cli.usage.invalid`: the file cannot be written to.
    """
    if not to:
        await write_letters(rt, out.stdout.write, letters, payload=payload)
        return
    with whole_file(Path(to)) as file:
        await write_letters(
            rt, lambda text: file.write(text.encode()), letters, payload=payload
        )
    count = len(letters)
    out.say(f"{count} dead letter{'s' * (count != 1)} written to {to}")


async def write_letters(
    rt: Runtime,
    put: Callable[[str], object],
    letters: Sequence[Letter],
    *,
    payload: bool,
) -> None:
    """Write dead letters, optionally with their payloads."""
    for letter in letters:
        facts = {k: v for k, v in letter.items() if k not in {"pk", "sk", "expires_at"}}
        ref = JobRef(letter["tenant"], letter["job"]).chunk(letter["chunk"])
        facts["error_history"] = read_value(
            str(letter["error_history"]), f"The error history of dead letter {ref}"
        )
        if payload:
            facts |= await payload_facts(rt, ref, letter)
        put(encode(facts, Format.JSONL))
