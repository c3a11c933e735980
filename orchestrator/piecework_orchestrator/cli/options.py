"""The options that several commands share, and the reading of their values."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from piecework.domain.keys import JOIN_CHUNK
from piecework.errors import UsageError
from piecework_orchestrator.cli.completion import complete_job
from piecework_orchestrator.submit.intake.on_invalid import OnInvalid


class Format(StrEnum):
    """The values of `--output`."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    YAML = "yaml"


class JobOrder(StrEnum):
    """The values of `jobs list --sort`."""

    CREATED = "created"
    STATUS = "status"
    PIPELINE = "pipeline"
    OPEN = "open"
    TOOK = "took"


class EffectOutcome(StrEnum):
    """The values of `effects resolve --outcome`."""

    HAPPENED = "happened"
    DID_NOT_HAPPEN = "did-not-happen"


OutputOption = Annotated[
    Format,
    typer.Option("-o", "--output", help="The format of the result.", show_default=True),
]
JobArgument = Annotated[
    str,
    typer.Argument(
        help="The job's id.", show_default=False, autocompletion=complete_job
    ),
]
ChunkArgument = Annotated[
    str,
    typer.Argument(help="The chunk's number, or `join`.", show_default=False),
]
TimeoutOption = Annotated[
    str,
    typer.Option(
        metavar="SPAN",
        help="The longest wait: 30s, 10m, 1h30m (then exit code 7).",
        show_default="no limit",
    ),
]

ReasonOption = Annotated[
    str, typer.Option(metavar="TEXT", help="The reason, kept in the record.")
]
DeadlineOption = Annotated[
    str,
    typer.Option(
        metavar="WHEN",
        help="Cancel and compensate the job after 2h, 1h30m, or at an ISO time.",
        show_default="none",
    ),
]
LaneOption = Annotated[
    str,
    typer.Option(
        metavar="direct",
        help="Let no call wait for a cheaper tier of its model.",
        show_default="as the models declare",
    ),
]
TagOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tag",
        metavar="NAME=VALUE",
        help="A tag of the job, such as team=legal; repeatable.",
        show_default="none",
    ),
]
BudgetUsdOption = Annotated[
    str,
    typer.Option(
        metavar="USD",
        help="Pause the job before its calls cost more: 40, 2.50.",
        show_default="none",
    ),
]
BudgetTokensOption = Annotated[
    str,
    typer.Option(
        metavar="N",
        help="Pause the job before its calls use more tokens, in and out.",
        show_default="none",
    ),
]
InvalidOption = Annotated[
    OnInvalid,
    typer.Option(
        "--invalid",
        help="Rows that do not fit: `refuse` the input, `skip` them, or make each a "
        "`dead` letter.",
        show_default=True,
    ),
]
PipelineArgument = Annotated[
    str,
    typer.Argument(
        help="`package.module:pipeline`, or a module that defines one pipeline.",
        show_default=False,
    ),
]
SaveOption = Annotated[
    Path | None,
    typer.Option(
        "--save",
        help="Save the join's artifacts and the certificate into this folder.",
        file_okay=False,
        show_default=False,
    ),
]
MaxChunksOption = Annotated[
    int | None,
    typer.Option(
        "--max-chunks", help="Chunks that run at once.", min=1, show_default=False
    ),
]
YesOption = Annotated[
    bool, typer.Option("-y", "--yes", help="Do not ask for a confirmation.")
]


def limit_option(what: str) -> typer.models.OptionInfo:
    """Return the option that limits a list."""
    option: typer.models.OptionInfo = typer.Option(
        "-n", "--limit", metavar="N", help=f"{what} at most; 0 for all.", min=0
    )
    return option


T = TypeVar("T")


async def take_first(found: AsyncIterator[T], limit: int) -> tuple[list[T], bool]:
    """Return the first items, and whether there are more; limit 0 returns all."""
    taken: list[T] = []
    generator: Any = found
    async with aclosing(generator):
        async for one in found:
            if limit and len(taken) == limit:
                return taken, True
            taken.append(one)
    return taken, False


def parse_chunk(text: str) -> int:
    """Return the number of a chunk; `join` has a number of its own.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    if text.lower() == "join":
        return JOIN_CHUNK
    if not (text.isascii() and text.isdigit() and len(text) < len("1" * 12)):
        message = f"{text!r} is not a chunk number."
        raise UsageError(message, next_step="Use a number from 0, or `join`.")
    return int(text)
