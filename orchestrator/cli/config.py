"""`config`: the settings as they are in force here, and where each comes from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.formats import Format
from orchestrator.cli.options import OutputOption
from orchestrator.cli.run import LOG_LEVEL, run_local

if TYPE_CHECKING:
    from orchestrator.cli.output import Output
    from piecework.settings import Settings

app = typer.Typer(help="Look at the settings.", no_args_is_help=True)

PREFIX = "PIECEWORK_"
#: Read elsewhere than in the settings.
OTHERS = {LOG_LEVEL, "PIECEWORK_STATE_DIR", "PIECEWORK_CACHE_DIR"}


@app.command("show")
def show(output: OutputOption = Format.TABLE) -> None:
    """Show every setting, where AWS is, and why."""

    def act(out: Output) -> None:
        from orchestrator.cli.output import Column
        from piecework.settings import load_settings

        columns = [
            Column("SETTING", "setting"),
            Column("VALUE", "value", folds=True),
            Column("SOURCE", "source", folds=True),
        ]
        rows = [*place(), *setting_rows(load_settings(), os.environ)]
        out.rows(rows, columns, "no settings")

    run_local(act, output)


@app.command("validate")
def validate(
    pipelines: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE", help="Check the pipelines of a module, too; repeatable."
        ),
    ] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Check the settings, and the declarations of pipelines.

    A PIECEWORK_ variable that is no setting is refused, too: exit code 2. What could
    be better in the order of a pipeline's stages is said, and no error.
    """

    def act(out: Output) -> None:
        from piecework.errors import UsageError
        from piecework.loading import load_pipelines
        from piecework.settings import load_settings
        from piecework.step_order import advice

        load_settings()
        unknown = unknown_variables(os.environ)
        if unknown:
            said = "; ".join(f"{name}{near}" for name, near in unknown.items())
            message = f"There is no such setting: {said}."
            raise UsageError(message, code="config.setting.invalid")
        found = load_pipelines(pipelines or ())
        advised = {name: advice(pipeline) for name, pipeline in found.items()}
        lines = [
            f"advice on {name}: {s}" for name, said in advised.items() for s in said
        ]
        what = "the settings and the pipelines are" if found else "the settings are"
        said = "\n".join([*lines, f"{what} valid"])
        told = {"valid": True, "advice": advised}
        out.document(told, lambda console: console.print(said))

    run_local(act, output)


def place() -> list[dict[str, Any]]:
    """Return where AWS is, and who says so."""
    from piecework.endpoint import find_endpoint, state_folder

    found = find_endpoint()
    sources = {
        "environment": "AWS_ENDPOINT_URL in the environment",
        "embedded": "piecework up",
        "aws": "no endpoint variable, no embedded AWS here",
    }
    source = sources[found.source]
    if found.source == "embedded":
        from pathlib import Path

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
    for name in type(settings).model_fields:
        variable = (PREFIX + name).upper()
        source = variable if variable in upper else "default"
        rows.append(
            {"setting": name, "value": getattr(settings, name), "source": source}
        )
    return rows


def unknown_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that nothing reads, each with what may be meant."""
    from difflib import get_close_matches

    from piecework.settings import Settings

    known = {(PREFIX + name).upper() for name in Settings.model_fields} | OTHERS
    unknown = sorted(
        name for name in environ if name.startswith(PREFIX) and name not in known
    )
    return {
        name: f" (do you mean {near[0]}?)"
        if (near := get_close_matches(name, known, n=1))
        else ""
        for name in unknown
    }
