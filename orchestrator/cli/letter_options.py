"""The options by which the commands of `dlq` say which letters they mean."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestrator.cli.options import limit_option

JobOption = Annotated[
    str | None,
    typer.Option(
        "--job", metavar="JOB", help="Only this job's.", show_default="all jobs"
    ),
]
CodeOption = Annotated[
    str | None,
    typer.Option(
        metavar="CODE", help="Only this error code; `llm.*` for all that begin so."
    ),
]
FingerprintOption = Annotated[
    str | None,
    typer.Option(metavar="HEX", help="Only those of this cause, as `dlq stats` says."),
]
StageOption = Annotated[
    str | None, typer.Option(metavar="STAGE", help="Only those that died there.")
]
SinceOption = Annotated[
    str | None,
    typer.Option(metavar="SPAN", help="Only those that died since: 30m, 1h, 2d."),
]
ChunkOption = Annotated[
    list[int] | None,
    typer.Option(metavar="N", help="Only this chunk; may be repeated."),
]
LimitOption = Annotated[int, limit_option("Letters")]
AllOption = Annotated[
    bool, typer.Option("--all", help="Those that were redriven or discarded, too.")
]
WhyOption = Annotated[
    str,
    typer.Option("--reason", metavar="TEXT", help="Why; it stands in the record."),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show exactly which; change nothing.")
]
