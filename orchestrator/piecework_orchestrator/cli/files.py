"""Write a file completely or not at all; until then the old file stays."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from piecework.domain.model import JobRef
from piecework.domain.records import read_value
from piecework.errors import UsageError
from piecework.runtime import Runtime
from piecework_orchestrator.cli.dlq_select import Letter
from piecework_orchestrator.cli.options import Format
from piecework_orchestrator.cli.output import Output, encode
from piecework_orchestrator.cli.views.dead_letters import payload_facts


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that replaces the old one at the end; write to a pipe directly.

    Raises:
        UsageError: `cli.usage.invalid`: the path cannot be written.
    """
    with naming_path(path):
        target = resolve_path(path)
        replaces = target.is_file() or not target.exists()
        opened = open_replacement if replaces else open_directly
        with opened(target) as file:
            yield file


def make_folder(path: Path) -> None:
    """Create a folder and its parents.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    with naming_path(path):
        resolve_path(path).mkdir(parents=True, exist_ok=True)


def resolve_path(path: Path) -> Path:
    """Resolve links, so that the target of a link is replaced, not the link."""
    try:
        return path.resolve()
    except (ValueError, RuntimeError) as error:
        message = f"{str(path)!r} cannot be written: it is not a path."
        raise UsageError(message, next_step="Use another path.") from error


@contextmanager
def naming_path(path: Path) -> Iterator[None]:
    """Convert an OSError to an error that names the path.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        message = f"{str(path)!r} cannot be written: {error.strerror}."
        raise UsageError(message, next_step="Use another path.") from error


@contextmanager
def open_directly(target: Path) -> Iterator[BinaryIO]:
    """Write to a pipe or a device."""
    with target.open("wb") as file:
        yield file


@contextmanager
def open_replacement(target: Path) -> Iterator[BinaryIO]:
    """Write a file under a temporary name, and rename it when it is complete."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            yield file
        if target.exists():
            shutil.copymode(target, part)
        part.replace(target)
    finally:
        with suppress(FileNotFoundError):
            part.unlink()


# Export dead letters to a file or to standard output.


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
