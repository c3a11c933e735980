"""`errors`: what a code means and what to do, from the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.formats import Format
from orchestrator.cli.options import OutputOption
from orchestrator.cli.run import run_local

if TYPE_CHECKING:
    from orchestrator.cli.output import Output
    from piecework.codes import Code

app = typer.Typer(help="Look up error codes.", no_args_is_help=True)


@app.command("list")
def list_codes(
    layer: Annotated[
        str | None,
        typer.Option(metavar="LAYER", help="Only these: llm, aws, runtime, …"),
    ] = None,
    error_class: Annotated[
        str | None,
        typer.Option(
            "--class", metavar="CLASS", help="Only these: transient, permanent, …"
        ),
    ] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """List the error codes."""

    def act(out: Output) -> None:
        from orchestrator.cli.output import Column
        from piecework.codes import LAYERS, REGISTRY, ErrorClass

        known(layer, "layer", list(LAYERS))
        known(error_class, "class", [str(each) for each in ErrorClass])
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
        out.rows([document(code) for code in found], columns, "no codes")

    run_local(act, output)


def known(asked: str | None, what: str, choice: list[str]) -> None:
    """Refuse what is none of the choice."""
    from piecework.errors import UsageError

    if asked is not None and asked not in choice:
        message = f"There is no {what} {asked}."
        raise UsageError(message, next_step=f"Use one of {', '.join(choice)}.")


@app.command("show")
def show_code(
    code: Annotated[str, typer.Argument(help="As an error message names it.")],
    output: OutputOption = Format.TABLE,
) -> None:
    """Show what an error code means and what to do."""

    def act(out: Output) -> None:
        from difflib import get_close_matches

        from orchestrator.cli.output import facts
        from piecework.codes import LAYERS, REGISTRY, is_well_formed
        from piecework.errors import NotFoundError

        found = REGISTRY.get(code)
        if found is None:
            near = get_close_matches(code, REGISTRY, n=3)
            message = f"There is no error code {code}."
            step = "piecework errors list"
            if near:
                step = f"Did you mean {' or '.join(near)}?"
            elif is_well_formed(code) and code.partition(".")[0] not in LAYERS:
                step = "It is of no layer of Piecework's: ask the pipeline's owner."
            raise NotFoundError(message, code="cli.usage.invalid", next_step=step)
        told = document(found)
        out.document(told, lambda console: console.print(facts(told.items())))

    run_local(act, output)


def document(code: Code) -> dict[str, Any]:
    """Return a row of the registry."""
    from piecework.codes import BEHAVIOUR

    return {
        "code": code.code,
        "class": str(code.error_class),
        "cause": code.cause,
        "behaviour": f"The runtime {BEHAVIOUR[code.error_class]}.",
        "recovery": code.recovery,
    }
