"""The options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestrator.cli.formats import Format

OutputOption = Annotated[
    Format,
    typer.Option("-o", "--output", help="The format of the result.", show_default=True),
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
YesOption = Annotated[
    bool, typer.Option("--yes", help="Do not ask for a confirmation.")
]


def limit_option(what: str) -> typer.models.OptionInfo:
    """Return the option that limits a list."""
    option: typer.models.OptionInfo = typer.Option(
        metavar="N", help=f"{what} at most; 0 for all.", min=0
    )
    return option
