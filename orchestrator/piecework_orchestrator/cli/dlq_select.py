"""The options that select dead letters."""

from __future__ import annotations

from typing import Annotated

import typer

from piecework_orchestrator.cli.completion import complete_code, complete_job
from piecework_orchestrator.cli.options import limit_option

JobOption = Annotated[
    str | None,
    typer.Option(
        "--job",
        metavar="JOB",
        help="Only this job.",
        show_default="all jobs",
        autocompletion=complete_job,
    ),
]
CodeOption = Annotated[
    str | None,
    typer.Option(
        metavar="CODE",
        help="Only this error code; `llm.*` for all that begin with `llm.`.",
        autocompletion=complete_code,
    ),
]
FingerprintOption = Annotated[
    str | None,
    typer.Option(metavar="HEX", help="Only this cause, as `dlq stats` shows it."),
]
StageOption = Annotated[
    str | None,
    typer.Option(metavar="STAGE", help="Only chunks that died in this stage."),
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        metavar="SPAN", help="Only chunks that died within this span: 30m, 1h, 2d."
    ),
]
ChunkOption = Annotated[
    list[int] | None,
    typer.Option(metavar="N", help="Only this chunk; repeatable."),
]
LimitOption = Annotated[int, limit_option("The newest dead letters")]
AllOption = Annotated[
    bool, typer.Option("--all", help="Include redriven and discarded dead letters.")
]
ReasonOption = Annotated[
    str,
    typer.Option("--reason", metavar="TEXT", help="The reason, kept in the record."),
]
DryRunOption = Annotated[
    bool,
    typer.Option("--dry-run", help="Show the selected dead letters, change nothing."),
]
