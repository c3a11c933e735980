"""`explain-code`: look up an error code in the registry, or list the codes."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, Any

import typer

from piecework.errors import NotFoundError, UsageError
from piecework.errors.codes import (
    APP,
    BEHAVIOUR,
    LAYERS,
    REGISTRY,
    Code,
    ErrorClass,
    is_well_formed,
)
from piecework_orchestrator.cli.completion import complete_code
from piecework_orchestrator.cli.options import Format, OutputOption
from piecework_orchestrator.cli.output import Output, facts
from piecework_orchestrator.cli.run import run_local
from piecework_orchestrator.cli.table import Column


def explain_code(
    code: Annotated[
        str,
        typer.Argument(
            help="The code as an error message shows it.",
            show_default="list all",
            autocompletion=complete_code,
        ),
    ] = "",
    layer: Annotated[
        str | None,
        typer.Option(metavar="LAYER", help="List only this layer: llm, aws, runtime."),
    ] = None,
    error_class: Annotated[
        str | None,
        typer.Option(
            "--class",
            metavar="CLASS",
            help="List only this class: transient, permanent, policy.",
        ),
    ] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Explain an error code, or list all.

    Show the cause of a code, what the runtime does, and the next step.
    """

    def run(out: Output) -> None:
        if not code:
            list_codes(out, layer, error_class)
            return
        if layer is not None or error_class is not None:
            message = "--layer and --class filter the list; they do not fit a code."
            raise UsageError(message, next_step="Remove the option or the code.")
        show_code(out, code)

    run_local(run, output)


def list_codes(out: Output, layer: str | None, error_class: str | None) -> None:
    """Write the codes of a layer and a class; None stands for all."""
    require_choice(layer, "layer", list(LAYERS))
    require_choice(error_class, "class", [str(each) for each in ErrorClass])
    found = [
        code
        for code in REGISTRY.values()
        if layer in (None, code.layer) and error_class in (None, code.error_class)
    ]
    columns = [
        Column("CODE", "code"),
        Column("CLASS", "class"),
        Column("CAUSE", "cause", folds=True),
    ]
    out.rows([document(code) for code in found], columns, "no code matches")


def require_choice(value: str | None, what: str, choices: list[str]) -> None:
    """Raise `cli.usage.invalid` unless the value is one of the choices."""
    if value is not None and value not in choices:
        message = f"{value} is not a known {what}."
        raise UsageError(message, next_step=f"Use one of {', '.join(choices)}.")


def show_code(out: Output, code: str) -> None:
    """Write what a code means and its next step.

    Raises:
        NotFoundError: `cli.usage.invalid`, with similar codes.
    """
    found = REGISTRY.get(code)
    if found is None:
        similar = get_close_matches(code, REGISTRY, n=3)
        message = f"{code} is not a known error code."
        step = "`piecework explain-code` lists all codes."
        if code.startswith(f"{APP}."):
            step = "The pipeline defines this code: ask the pipeline's owner."
        elif similar:
            commands = " or ".join(f"`piecework explain-code {s}`" for s in similar)
            step = f"For a similar code: {commands}."
        elif is_well_formed(code) and code.partition(".")[0] not in LAYERS:
            step = "The pipeline defines this code: ask the pipeline's owner."
        raise NotFoundError(message, code="cli.usage.invalid", next_step=step)
    row = document(found)
    out.document(row, lambda console: console.print(facts(row.items())))


def document(code: Code) -> dict[str, Any]:
    """Return a row of the registry as a document."""
    return {
        "code": code.code,
        "class": str(code.error_class),
        "cause": code.cause,
        "behaviour": f"The runtime {BEHAVIOUR[code.error_class]}.",
        "recovery": code.recovery,
    }
