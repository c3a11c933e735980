"""`events`: list the events that belong to no single job."""

from __future__ import annotations

from typing import Annotated

import typer

from piecework.reading import Reading
from piecework_orchestrator.cli.options import Format, OutputOption
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.run import run_reading
from piecework_orchestrator.cli.table import Column
from piecework_orchestrator.cli.views.jobs import event_facts_text
from piecework_orchestrator.reading.events import fleet_documents
from piecework_orchestrator.reading.times import parse_limit

SinceOption = Annotated[
    str,
    typer.Option(
        metavar="SPAN",
        help="Only events within this span: 30m, 1h, 2d.",
        show_default="all that are kept",
    ),
]


def list_events(since: SinceOption = "", output: OutputOption = Format.TABLE) -> None:
    """List the events of the environment and of the tenant, the newest first.

    They are limits, pauses and breakers of dependencies, daily budgets, webhooks and
    deleted jobs, each with its actor. `jobs events JOB` lists those of a job.
    """

    async def run(rt: Reading, out: Output) -> None:
        columns = [
            Column("AT", "at"),
            Column("EVENT", "event"),
            Column("FACTS", event_facts_text, folds=True),
        ]
        out.rows(await fleet_documents(rt, since), columns, "there are no events")

    run_reading(run, output, before=lambda: parse_limit(since))
