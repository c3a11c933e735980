"""`explain-code`: look up an error code in the registry, or list the codes.

A pipeline's own codes are not in the registry: `--pipelines` loads their rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

#: The next step for a code that a pipeline defines.
OWN_STEP = (
    "The pipeline defines this code: `piecework explain-code {code} --pipelines "
    "MODULE` shows its row, if the pipeline declares one."
)


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
    pipelines: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE",
            help="Explain or list the own codes of these pipelines; repeatable.",
        ),
    ] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Explain an error code, or list all.

    Show the cause of a code, what the runtime does, and the next step. With
    `--pipelines` the list has the codes that these pipelines declare.
    """

    def run(out: Output) -> None:
        own = own_rows(pipelines or ())
        if not code:
            known = REGISTRY if pipelines is None else own
            list_codes(out, known, layer, error_class)
            return
        if layer is not None or error_class is not None:
            message = "--layer and --class filter the list; they do not fit a code."
            raise UsageError(message, next_step="Remove the option or the code.")
        show_code(out, code, own)

    run_local(run, output)


def own_rows(modules: Sequence[str]) -> dict[str, Code]:
    """Return the rows that pipelines declare, by their codes.

    Raises:
        UsageError: `pipeline.declaration.invalid`: two pipelines give one code
            different meanings; and as `load_pipelines`.
    """
    from piecework.loading import load_pipelines  # loads pydantic

    found: dict[str, Code] = {}
    for pipeline in load_pipelines(modules).values():
        for row in pipeline.codes:
            if found.setdefault(row.code, row) != row:
                message = f"Two pipelines give the code {row.code!r} different rows."
                step = "Declare one `Code`, and give it to both pipelines."
                raise UsageError(
                    message, code="pipeline.declaration.invalid", next_step=step
                )
    return found


def list_codes(
    out: Output, known: Mapping[str, Code], layer: str | None, error_class: str | None
) -> None:
    """Write the known codes of a layer and a class; None stands for all."""
    require_choice(layer, "layer", list(dict.fromkeys(c.layer for c in known.values())))
    require_choice(error_class, "class", [str(each) for each in ErrorClass])
    found = [
        code
        for code in known.values()
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


def show_code(out: Output, code: str, own: Mapping[str, Code]) -> None:
    """Write what a code means and its next step.

    Raises:
        NotFoundError: `cli.usage.invalid`, with similar codes.
    """
    found = REGISTRY.get(code) or own.get(code)
    if found is None:
        similar = get_close_matches(code, {**REGISTRY, **own}, n=3)
        message = f"{code} is not a known error code."
        step = "`piecework explain-code` lists all codes."
        if code.startswith(f"{APP}."):
            step = OWN_STEP.format(code=code)
        elif similar:
            of = {s: " --pipelines MODULE" * (s in own) for s in similar}
            commands = " or ".join(f"`piecework explain-code {s}{of[s]}`" for s in of)
            step = f"For a similar code: {commands}."
        elif is_well_formed(code) and code.partition(".")[0] not in LAYERS:
            step = OWN_STEP.format(code=code)
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
