"""The options that run chunks again from a completed stage, and their preview."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import typer

from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.errors import UsageError
from piecework.loading import load_pipeline
from piecework.runtime import Runtime
from piecework_orchestrator.cli.dlq_edit import read_text
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.views.acts import act_columns
from piecework_orchestrator.operate.run_again import (
    RunAgain,
    RunAgainPreview,
    preview_run_again,
)
from piecework_orchestrator.reading.times import count

FromOption = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="STAGE",
        help="Run again from this completed stage, and keep those before it.",
        show_default="the first stage that is not complete",
    ),
]
ValueOption = Annotated[
    str,
    typer.Option(
        "--value",
        metavar="FILE",
        help="With --from: this JSON file takes the place of the stage's value.",
    ),
]
RepeatOption = Annotated[
    bool,
    typer.Option(
        "--repeat-effects",
        help="With --from: acts of the stages that run again may happen twice.",
    ),
]


def make_again(
    stage: str, value: str, pipeline: str, *, repeats: bool
) -> RunAgain | None:
    """Return from where chunks run again, as it was typed; None: they keep all.

    Raises:
        UsageError: `cli.usage.invalid`, `redrive.value.invalid`.
    """
    if not stage:
        if value or repeats:
            message = "--value and --repeat-effects are valid only with --from."
            raise UsageError(message, next_step="Add --from STAGE.")
        return None
    text = read_text(Path(value)) if value else None
    checked_by = load_pipeline(pipeline) if pipeline and value else None
    wanted = RunAgain(stage, text, repeats, checked_by)
    wanted.check()
    return wanted


async def show_again(
    rt: Runtime,
    out: Output,
    chunks: AsyncIterator[tuple[Job, Chunk]],
    wanted: RunAgain | None,
    *,
    dry: bool,
) -> RunAgainPreview | None:
    """Show what running chunks again repeats, before anything is changed.

    `dry`: nothing will be.
    """
    if wanted is None:
        return None
    found = await preview_run_again(rt, chunks, wanted)
    unused = found.refused["redrive.value.unused"]
    if wanted.value is not None and found.again + unused > 1:
        message = "--value is the value of one chunk, and several match."
        raise UsageError(message, next_step="Select one: --job JOB --chunk N.")
    if not out.table:
        return found
    if found.kinds:
        out.rows(found.kinds, act_columns("IF IT RUNS AGAIN", "again"), "")
    more = "" if found.exact else "; only the first chunks were read"
    verb = "take the new value of" if wanted.value is not None else "run again from"
    mood = "would" if dry else "will"
    again = found.again - found.refused.total()
    out.say(
        f"{count(again, 'chunk')} {mood} {verb} stage {wanted.stage}, and "
        f"{count(found.as_usual, 'chunk')} {mood} continue without it{more}"
    )
    for code, number in found.refused.items():
        out.say(f"{count(number, 'chunk')} {mood} be refused, with its job: {code}")
    return found
