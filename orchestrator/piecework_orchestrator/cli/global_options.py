"""The options of every command: which environment it uses, and how much it says.

They are valid at every place of a command line. Each sets variables of the process's
environment, so the settings are read in one way. A program that the command becomes
(`run`, `dev`, `worker`, `simulate`) gets them, too.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from piecework_orchestrator.cli.examples import OF_A_GROUP, examples_of
from piecework_orchestrator.cli.programs import ON_STATE, state_option

#: The context of every command.
CONTEXT = {"help_option_names": ["-h", "--help"]}
#: The exit code of an error of usage.
USAGE = 2
#: How much a command says: `quiet`, `verbose`, or empty.
VERBOSITY = "PIECEWORK_VERBOSITY"
QUIET, VERBOSE = "quiet", "verbose"

#: The variables that each option sets, and the value if the option takes none.
VARIABLES: dict[str, tuple[tuple[str, ...], str]] = {
    "env": (("PIECEWORK_ENV",), ""),
    "tenant": (("PIECEWORK_TENANT",), ""),
    "profile": (("AWS_PROFILE",), ""),
    # botocore reads the second one; ECS and most users set the first one.
    "region": (("AWS_REGION", "AWS_DEFAULT_REGION"), ""),
    "no_color": (("NO_COLOR",), "1"),
    "quiet": ((VERBOSITY,), QUIET),
    "verbose": ((VERBOSITY,), VERBOSE),
}
FLAGS = "--env --tenant --profile --region --no-color -q -v"
HINT = f"{FLAGS}: see piecework --help."


def set_variables(ctx: typer.Context, param: typer.CallbackParam, value: Any) -> None:
    """Set the variables of an option until its command ends."""
    if not value:
        return
    names, fixed = VARIABLES[str(param.name)]
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, fixed or str(value)))

    def restore() -> None:
        """Restore the environment, for a caller in the same process."""
        for name, old in before.items():
            if old is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = old

    if not ctx.resilient_parsing:  # a completion reads the environment after it
        ctx.call_on_close(restore)


def option(*flags: str, help: str, metavar: str | None = None) -> Any:  # noqa: A002 -- of typer
    """Return an option of every command."""
    return typer.Option(
        *flags,
        help=help,
        metavar=metavar,
        callback=set_variables,
        expose_value=False,
        show_default=False,
    )


def declare(
    env: Annotated[str, option("--env", metavar="NAME", help="The environment.")] = "",
    tenant: Annotated[str, option("--tenant", metavar="NAME", help="The tenant.")] = "",
    profile: Annotated[
        str, option("--profile", metavar="NAME", help="The profile of the AWS account.")
    ] = "",
    region: Annotated[
        str, option("--region", metavar="NAME", help="The AWS region.")
    ] = "",
    no_color: Annotated[
        bool, option("--no-color", help="Write without colours.")
    ] = False,
    quiet: Annotated[
        bool, option("-q", "--quiet", help="Write only results and errors.")
    ] = False,
    verbose: Annotated[
        bool,
        option(
            "-v",
            "--verbose",
            help="Also write the endpoint, logs, generations and fences.",
        ),
    ] = False,
) -> None:
    """Declare the options; their callback does the work."""


@cache
def common_options() -> tuple[Any, ...]:
    """Return the parameters of a parser for these options; all commands share them."""
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command()(declare)
    return tuple(filter(is_common, typer.main.get_command(alone).params))


def is_common(parameter: Any) -> bool:
    """Return whether a parameter is one of these options."""
    return parameter.name in VARIABLES and not parameter.expose_value


def add_common(command: Any) -> None:
    """Add the options to a command, except those that it has with another meaning."""
    own = {flag for each in command.params for flag in each.opts}
    command.params += [each for each in common_options() if own.isdisjoint(each.opts)]


class WithCommon:
    """A command with the options of every command, and with examples in its help."""

    params: list[Any]
    no_args_is_help: bool
    examples: Sequence[str] = ()
    #: Whether the help explains these options, too.
    explains_common = False

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parse the words of the command; refuse an empty one, and none for a group.

        An empty word comes from an unset variable, and would select the default, or
        all. A group without a command shows its help.
        """
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            typer.echo(ctx.get_help(), err=True)
            ctx.exit(USAGE)
        given = self.make_parser(ctx).parse_args(args=list(args))[0]  # type: ignore[attr-defined]
        for param in () if ctx.resilient_parsing else self.params:
            value = given.get(param.name)
            if value == "" or (isinstance(value, list) and "" in value):
                raise typer.BadParameter("the text is empty.", ctx=ctx, param=param)
        return super().parse_args(ctx, args)  # type: ignore[misc]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the command's own options; then the names of the others."""
        if self.explains_common:
            super().format_options(ctx, formatter)  # type: ignore[misc]
            return
        common = [each for each in self.params if is_common(each)]
        for each in common:
            each.hidden = True  # their completion stays
        super().format_options(ctx, formatter)  # type: ignore[misc]
        for each in common:
            each.hidden = False
        with formatter.section("Options of every command"):
            formatter.write_text(HINT)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples."""
        del ctx
        with formatter.section("Examples"):
            for line in self.examples:
                formatter.write(f"  {line}\n")


class Command(WithCommon, TyperCommand):
    """A command with the options of every command.

    Attributes:
        has_state: Whether it can work on the state file of a run.
    """

    has_state = False

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        if self.has_state:
            self.params.append(state_option())
        add_common(self)


def command_class(words: str) -> type[Command]:
    """Return the class of a command with the examples of these words."""
    has_state = words.partition(" ")[0] in ON_STATE
    known = {"examples": examples_of(words), "has_state": has_state}
    return type("Command", (Command,), known)


class Group(WithCommon, TyperGroup):
    """A group of commands with the options of every command."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.examples = examples_of("" if self.explains_common else self.name)
        self.examples = self.examples[:OF_A_GROUP]
        add_common(self)


@cache
def usage_error() -> type[Exception]:
    """Return the type of the parser's errors, which typer does not export."""
    (found,) = typer.BadParameter.__bases__
    return found
