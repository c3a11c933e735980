"""The options that several commands have, in one wording."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestrator.cli.formats import Format

OutputOption = Annotated[
    Format,
    typer.Option("-o", "--output", help="The form of the result.", show_default=True),
]
JobArgument = Annotated[str, typer.Argument(help="The job's id.", show_default=False)]
ChunkArgument = Annotated[
    str,
    typer.Argument(help="The chunk's number, or `join`.", show_default=False),
]
TimeoutOption = Annotated[
    str,
    typer.Option(
        metavar="SPAN",
        help="How long to wait at the most: 30s, 10m, 1h30m (exit code 7).",
        show_default="no limit",
    ),
]

ReasonOption = Annotated[
    str, typer.Option(metavar="TEXT", help="Why; it stands in the record.")
]
DeadlineOption = Annotated[
    str,
    typer.Option(
        metavar="WHEN",
        help="Past 2h, 1h30m, or an ISO time, the job is cancelled and compensated.",
        show_default="none",
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def limit_option(what: str) -> typer.models.OptionInfo:
    """Return the option that cuts a list."""
    option: typer.models.OptionInfo = typer.Option(
        metavar="N", help=f"{what} at the most; 0 for all.", min=0
    )
    return option
