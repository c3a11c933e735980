"""`config`: show and validate the settings in force here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

from piecework.aws.endpoint import find_endpoint, state_folder
from piecework.domain.webhook import VARIABLES
from piecework.errors import UsageError
from piecework.loading import load_pipelines
from piecework.pipelines import lint_stage_order, missing_contacts
from piecework.saga.effect_names import unnamed_effects
from piecework.settings import PREFIX, Settings, load_settings
from piecework_orchestrator.cli.global_options import VERBOSITY
from piecework_orchestrator.cli.options import Format, OutputOption
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.programs import RUN_LINE, STATE_FILE
from piecework_orchestrator.cli.run import LOG_LEVEL, run_local
from piecework_orchestrator.cli.table import Column

#: Variables that other code reads, and that are not settings.
OTHER_VARIABLES = {
    LOG_LEVEL,
    VERBOSITY,
    RUN_LINE,
    STATE_FILE,
    "PIECEWORK_UI_TOKEN",
    "PIECEWORK_STATE_DIR",
    "PIECEWORK_CACHE_DIR",
}


def show(output: OutputOption = Format.TABLE) -> None:
    """Show every setting and the AWS endpoint, each with its source."""

    def run(out: Output) -> None:
        columns = [
            Column("SETTING", "setting"),
            Column("VALUE", "value", folds=True),
            Column("SOURCE", "source", folds=True),
        ]
        rows = [*endpoint_rows(), *setting_rows(load_settings(), os.environ)]
        out.rows(rows, columns, "no settings")

    run_local(run, output)


def validate(
    pipelines: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE",
            help="Also check the pipelines of this module; repeatable.",
        ),
    ] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Check the settings, and the declarations of pipelines.

    An unknown PIECEWORK_ variable is an error: the exit code is 2. The command also
    prints advice on the order of a pipeline's stages and on effects that need a name of
    their own, and warns of a missing owner or runbook. Neither is an error.
    """

    def run(out: Output) -> None:
        load_settings()
        unknown = unknown_variables(os.environ)
        if unknown:
            names = "; ".join(f"{name}{hint}" for name, hint in unknown.items())
            message = f"Unknown settings: {names}."
            raise UsageError(message, code="config.setting.invalid")
        found = load_pipelines(pipelines or ())
        advised = {
            name: [*lint_stage_order(pipeline), *unnamed_effects(pipeline)]
            for name, pipeline in found.items()
        }
        warnings = {name: missing_contacts(each) for name, each in found.items()}
        lines = [f"warning: {text}" for texts in warnings.values() for text in texts]
        lines += [
            f"advice on {name}: {text}"
            for name, texts in advised.items()
            for text in texts
        ]
        what = "the settings and the pipelines are" if found else "the settings are"
        text = "\n".join([*lines, f"{what} valid"])
        document = {"valid": True, "advice": advised, "warnings": warnings}
        out.document(document, lambda console: console.print(text))

    run_local(run, output)


def endpoint_rows() -> list[dict[str, Any]]:
    """Return the AWS endpoint and region with their sources."""
    found = find_endpoint()
    sources = {
        "environment": "AWS_ENDPOINT_URL in the environment",
        "embedded": "piecework up",
        "aws": "no endpoint variable, no embedded AWS in this folder",
    }
    source = sources[found.source]
    if found.source == "embedded":
        source += f" ({state_folder(os.environ, Path.cwd())})"
    return [
        {"setting": "endpoint", "value": found.url or "AWS", "source": source},
        {
            "setting": "region",
            "value": found.region or "as the AWS profile says",
            "source": source if found.source == "embedded" else "AWS variables",
        },
    ]


def setting_rows(
    settings: Settings, environ: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return each setting with its value and source."""
    upper = {name.upper() for name in environ}
    rows = []
    for name in (each.name for each in fields(settings)):
        variable = (PREFIX + name).upper()
        source = variable if variable in upper else "default"
        rows.append(
            {"setting": name, "value": getattr(settings, name), "source": source}
        )
    return rows


def unknown_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that are not settings, each with a similar setting."""
    known = {
        (PREFIX + each.name).upper() for each in fields(Settings)
    } | OTHER_VARIABLES
    unknown = sorted(
        name
        for name in environ
        if name.startswith(PREFIX) and not name.startswith(VARIABLES)
        if name not in known
    )
    return {
        name: f" (similar: {near[0]})"
        if (near := get_close_matches(name, known, n=1))
        else ""
        for name in unknown
    }
