"""The commands and their groups, in the order in which a new user needs them."""

from __future__ import annotations

from typing import Annotated

import typer

from piecework_orchestrator.cli import (
    chunks,
    config,
    dlq,
    effects,
    errors,
    infra,
    jobs,
    local,
    results,
    submit,
)
from piecework_orchestrator.cli import local as reconcile

app = typer.Typer(
    name="piecework",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def piecework(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version and exit.",
            callback=local.print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Split a job into chunks, process them over SQS, and account for each chunk."""
    del version  # the callback has printed it


app.command()(local.demo)
app.command()(local.up)
app.command()(local.down)
app.command()(local.doctor)
app.command()(submit.submit)
app.add_typer(jobs.app, name="jobs")
app.add_typer(chunks.app, name="chunks")
app.command()(results.results)
app.add_typer(dlq.app, name="dlq")
app.add_typer(effects.app, name="effects")
app.command()(reconcile.reconcile)
app.add_typer(infra.app, name="infra")
app.command(
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)(local.worker)
app.command(
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)(local.simulate)
app.command("explain-code")(errors.explain_code)
app.add_typer(config.app, name="config")
