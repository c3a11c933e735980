"""`piecework ask`: put one question about each row to a model, without a file of code.

The command writes the program that a user would have written, and runs it as
`piecework run` does. `--eject` keeps that program instead.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from string import Formatter
from typing import Annotated

import typer

from piecework.errors import UsageError
from piecework.loading import search_working_directory
from piecework_orchestrator.cli.app import run_alone
from piecework_orchestrator.cli.global_options import CONTEXT, command_class
from piecework_orchestrator.cli.options import (
    BudgetTokensOption,
    BudgetUsdOption,
    Format,
    InvalidOption,
    MaxChunksOption,
)
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.run import run_local
from piecework_orchestrator.submit.intake.on_invalid import OnInvalid
from piecework_simulation.run_command import (
    Aws,
    FreshOption,
    NoStateOption,
    StateOption,
    run,
)
from piecework_simulation.state.place import ASKED, state_home

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
)

#: Hexadecimal digits of a program in its name: another prompt is another run.
DIGITS = 12
#: What a program imports for a provider, its client, and its adapter.
PROVIDERS = {
    "openai": ("from openai import AsyncOpenAI", "openai_chat(AsyncOpenAI())"),
    "anthropic": (
        "from anthropic import AsyncAnthropic",
        "anthropic_messages(AsyncAnthropic())",
    ),
}
#: The lanes that the option names.
LANES = ("", "direct", "flex", "batch")
PROGRAM = '''\
"""Ask {model} about each row; `piecework ask` wrote this."""

{imports}

PROMPT = {prompt}
model = Model({model!r}, {caller}{options})


class Row(BaseModel):
    model_config = ConfigDict(extra="ignore")
{fields}


@pipeline
async def answers(row: Row) -> {returns}:
    return await model.ask("", PROMPT.format(**row.model_dump()){asked})
'''


@app.command(cls=command_class("ask"), context_settings=CONTEXT)
def ask(  # noqa: PLR0913, PLR0917 -- options of a command
    source: Annotated[
        str, typer.Argument(help="Rows: a .jsonl, .csv or .parquet file.")
    ],
    prompt: Annotated[
        str,
        typer.Argument(help="The question; {text} stands for the field of a row."),
    ],
    model: Annotated[
        str,
        typer.Option(
            metavar="PROVIDER:MODEL",
            help="`openai:gpt-5-mini`, or `anthropic:…`.",
            show_default=False,
        ),
    ],
    returns: Annotated[
        str,
        typer.Option(
            metavar="MODULE:MODEL",
            help="The pydantic model of an answer.",
            show_default="a text",
        ),
    ] = "",
    requests_per_minute: Annotated[
        int | None,
        typer.Option(
            "--requests-per-minute",
            min=1,
            help="What your account allows.",
            show_default="no limit",
        ),
    ] = None,
    lane: Annotated[
        str,
        typer.Option(
            metavar="flex|batch",
            help="Ask for each answer later, for about half; see docs/lanes.md.",
            show_default="direct",
        ),
    ] = "",
    budget_usd: BudgetUsdOption = "",
    budget_tokens: BudgetTokensOption = "",
    invalid: InvalidOption = OnInvalid.REFUSE,
    max_chunks: MaxChunksOption = None,
    fresh: FreshOption = False,
    state: StateOption = None,
    no_state: NoStateOption = False,
    eject: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            dir_okay=False,
            help="Write the program into this file, and ask nothing.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Ask a model about each row; print the answers.

    Each answer is a line. The run is remembered as that of `piecework run`: after an
    interruption the same line goes on, and no stored answer is paid for again.
    """
    text = ""

    def prepare(out: Output) -> None:
        nonlocal text
        text = program(
            *(model, prompt, returns, requests_per_minute),
            lane=lane,
            priced=bool(budget_usd),
        )
        if eject is not None:
            write_new(eject, text)
            out.say(f"wrote {eject}; next: piecework run {eject.stem}:answers {source}")

    try:
        run_local(prepare, Format.TABLE)
    except typer.Exit as ended:
        if ended.exit_code or eject is not None:
            raise
    run(
        pipeline=f"{keep(text, f'{model} {returns} {prompt}')}:answers",
        source=source,
        budget_usd=budget_usd,
        budget_tokens=budget_tokens,
        invalid=invalid,
        max_chunks=max_chunks,
        aws=Aws.IN_PROCESS,
        fresh=fresh,
        state=state,
        no_state=no_state,
    )


def program(
    model: str,
    prompt: str,
    returns: str,
    per_minute: int | None,
    *,
    priced: bool,
    lane: str = "",
) -> str:
    """Return the program that asks the question.

    Raises:
        UsageError: `cli.usage.invalid`: no provider, model, field, answer or lane has
            such a name.
    """
    provider, _, name = model.partition(":")
    if provider not in PROVIDERS or not name:
        message = f"{model!r} is not a model of a provider that this command knows."
        step = f"Write it as {', '.join(f'{each}:MODEL' for each in PROVIDERS)}."
        raise UsageError(message, next_step=step)
    client, caller = PROVIDERS[provider]
    module, _, answer = returns.partition(":")
    if returns and not (is_dotted(module) and answer.isidentifier()):
        message = f"{returns!r} does not name a model of an answer."
        raise UsageError(message, next_step="Write it as MODULE:MODEL, app:Invoice.")
    fields = fields_of(prompt)
    names = ["Model", caller.partition("(")[0]]
    options = ""
    if priced:
        names.append("list_price")
        options += f", price=list_price({name!r})"
    if lane not in LANES:
        message = f"{lane!r} is not a lane."
        raise UsageError(message, next_step="Write flex or batch, or leave it out.")
    if lane not in {"", "direct"}:
        names.append("Lane")
        options += f", lane=Lane.{lane}()"
    if per_minute is not None:
        options += f", limits=Limits(requests_per_minute={per_minute})"
    imports = [
        client,
        "from pydantic import BaseModel, ConfigDict",
        "",
        *([f"from {module} import {answer}"] if returns else []),
        f"from piecework import {'Limits, ' if per_minute else ''}pipeline",
        f"from piecework.llm import {', '.join(sorted(names))}",
    ]
    return PROGRAM.format(
        model=name,
        imports="\n".join(imports),
        prompt=repr(prompt),
        caller=caller,
        options=options,
        fields="\n".join(f"    {each}: str | float | bool | None" for each in fields),
        returns=answer or "str",
        asked=f", returns={answer}" if returns else "",
    )


def fields_of(prompt: str) -> list[str]:
    """Return the fields of a row that a prompt names, each once.

    Raises:
        UsageError: `cli.usage.invalid`.
    """
    step = "Name a field, as in 'Read the invoice: {text}'. Braces are {{ and }}."
    try:
        parts = [(name, form) for _, name, form, _ in Formatter().parse(prompt)]
    except ValueError as error:
        message = f"The prompt cannot be filled in: {error}."
        raise UsageError(message, next_step=step) from error
    found = list(dict.fromkeys(name for name, _ in parts if name is not None))
    wrong = [name for name in found if not name.isidentifier()]
    if wrong or not found:
        what = (
            f"names {wrong[0]!r}, which is not a field" if wrong else "names no field"
        )
        raise UsageError(f"The prompt {what} of a row.", next_step=step)
    return found


def is_dotted(name: str) -> bool:
    """Return whether a text is the name of a module."""
    return all(part.isidentifier() for part in name.split("."))


def write_new(path: Path, text: str) -> None:
    """Write a file that does not exist.

    Raises:
        UsageError: `cli.project.folder_taken`, `cli.usage.invalid`.
    """
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        message = f"{path} exists."
        raise UsageError(message, code="cli.project.folder_taken") from error
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror}."
        raise UsageError(message, next_step="Name another file.") from error


def keep(text: str, question: str) -> str:
    """Write the program where its child processes find it; return its module.

    It is named after the question: a run goes on with another limit or lane.
    """
    module = f"{ASKED}{hashlib.sha256(question.encode()).hexdigest()[:DIGITS]}"
    folder = state_home().with_name("asked")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / f"{module}.py").write_text(text, encoding="utf-8")
    search_working_directory()
    sys.path.append(str(folder))
    sys.modules.pop(module, None)  # what this process has loaded may be older
    return module


if __name__ == "__main__":
    run_alone(app, "piecework ask")
