"""`limits`: list the limits of the dependencies, and change one in force."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from piecework.calls.fleet_breaker import WITHOUT_CALLS_S
from piecework.domain.keys import TENANT_LIMIT
from piecework.errors import UsageError
from piecework.resilience.limits import MOST, MOST_A_SECOND, Limits
from piecework.store.limits import NAMES
from piecework_orchestrator.cli.options import Format, OutputOption, ReasonOption
from piecework_orchestrator.cli.output import Output, facts
from piecework_orchestrator.cli.pipelines import say_pause, say_unknown
from piecework_orchestrator.cli.run import run_client
from piecework_orchestrator.cli.table import Column
from piecework_orchestrator.client import Client
from piecework_orchestrator.client.arguments import require_dependency, require_limit_of

DependencyArgument = Annotated[
    str, typer.Argument(help="The name of the dependency, as its code declares it.")
]
#: Seconds within which workers that make calls use a changed limit.
SEEN_WITHIN_S = 3


def list_limits(output: OutputOption = Format.TABLE) -> None:
    """List the limits of the dependencies that have any."""

    async def run(client: Client, out: Output) -> None:
        rows = await client.limits()
        columns = [
            Column("DEPENDENCY", "dependency"),
            *(Column(title(name), shown(name), right=True) for name in NAMES),
            Column("PAUSED", "paused", shrinks=True),
            Column("SET BY", "set_by", shrinks=True, drops=1),
            Column("SET AT", "set_at", drops=2),
        ]
        empty = "no dependency has used a limit; next: piecework limits set DEPENDENCY"
        out.rows(rows, columns, empty)

    run_client(run, output)


def set_limits(
    dependency: DependencyArgument,
    requests_per_second: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Requests of the fleet in any second.",
            min=1,
            max=MOST_A_SECOND,
        ),
    ] = None,
    requests_per_minute: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Requests of the fleet in 60 seconds.", min=1, max=MOST
        ),
    ] = None,
    tokens_per_minute: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Tokens of the fleet in 60 seconds.", min=1, max=MOST
        ),
    ] = None,
    concurrent: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Calls of the fleet in flight; chunks of a tenant that run at once.",
            min=1,
            max=MOST,
        ),
    ] = None,
    unset: Annotated[
        bool,
        typer.Option("--unset", help="Return to the limits that the code declares."),
    ] = False,
    reason: ReasonOption = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Change the limits of a dependency in force, without a deployment.

    A limit that is not named stays as it is. Workers use the change within seconds.
    The command warns of a name that nothing has used.

    With `tenant:NAME` and `--concurrent`, it is the cap of a tenant: so many of its
    chunks run at once.
    """
    limits = Limits(
        requests_per_minute, tokens_per_minute, concurrent, requests_per_second
    )

    def check() -> None:
        if bool(limits) == unset:
            message = "Name at least one limit, or --unset."
            if unset:
                message = "--unset removes all limits: it excludes the other options."
            step = f"piecework limits set {dependency} --requests-per-minute 500"
            if dependency.startswith(TENANT_LIMIT):
                step = f"piecework limits set {dependency} --concurrent 20"
            raise UsageError(message, next_step=step)
        require_limit_of(dependency, limits)

    async def run(client: Client, out: Output) -> None:
        document = await client.set_limits(dependency, limits, reason)
        show(out, document, seen_text(dependency))
        if "known" in document:
            say_unknown(out, document, knows(dependency))

    run_client(run, output, before=check)


def pause_dependency(
    dependency: DependencyArgument,
    reason: ReasonOption = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Pause a dependency: no further call to it starts.

    Calls in flight finish. Chunks that need it wait and spend no attempt; other chunks
    go on. The command warns of a name that nothing has used. `limits resume` ends the
    pause.
    """

    async def run(client: Client, out: Output) -> None:
        document = await client.pause_dependency(dependency, reason)
        seen = f"no worker starts a call to {dependency} after {SEEN_WITHIN_S} seconds"
        show(out, document, seen)
        say_pause(out, document, document["replaced"], knows(dependency))

    run_client(run, output, before=lambda: require_dependency(dependency))


def resume_dependency(
    dependency: DependencyArgument,
    reason: ReasonOption = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Resume a paused dependency."""

    async def run(client: Client, out: Output) -> None:
        document = await client.resume_dependency(dependency, reason)
        show(out, document, seen_text(dependency))

    run_client(run, output, before=lambda: require_dependency(dependency))


def show(out: Output, document: dict[str, Any], seen: str) -> None:
    """Write the limits of a dependency after a change, and when workers see it."""
    told = {"replaced", "known", "similar"}  # by a sentence below the table
    rows = [(name, value) for name, value in document.items() if name not in told]
    out.document(document, lambda console: console.print(facts(rows)))
    if out.table:
        out.say(seen)


def seen_text(dependency: str) -> str:
    """Return within how many seconds workers use a change."""
    if dependency.startswith(TENANT_LIMIT):
        return f"workers use this in {WITHOUT_CALLS_S:.0f} seconds"
    return f"workers that call {dependency} use this in {SEEN_WITHIN_S} seconds"


def knows(dependency: str) -> str:
    """Return what would know a dependency, as it continues a sentence after "no"."""
    return f"worker has called {dependency!r}, and it had no limit"


def title(name: str) -> str:
    """Return the title of a limit's column."""
    return name.upper().replace("_PER_MINUTE", "/MIN").replace("_PER_SECOND", "/S")


def shown(name: str) -> Callable[[Mapping[str, Any]], str]:
    """Return the text of a limit in a table: `-` without one."""
    return lambda row: "-" if row[name] is None else f"{row[name]:,}"
