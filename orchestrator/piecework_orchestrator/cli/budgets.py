"""`budgets`: list what tenants may spend in a day, and set it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from piecework.domain.budget import parse_cap
from piecework.errors import UsageError
from piecework_orchestrator.cli.options import Format, OutputOption, ReasonOption
from piecework_orchestrator.cli.output import Output, facts
from piecework_orchestrator.cli.run import run_client
from piecework_orchestrator.cli.table import Column
from piecework_orchestrator.client import Client
from piecework_orchestrator.client.arguments import require_tenant

TenantArgument = Annotated[
    str, typer.Argument(help="The name of the tenant.", show_default=False)
]
DailyUsdOption = Annotated[
    str,
    typer.Option(metavar="USD", help="Dollars of a day (UTC).", show_default="none"),
]
DailyTokensOption = Annotated[
    str,
    typer.Option(metavar="N", help="Tokens of a day (UTC).", show_default="none"),
]


def list_budgets(output: OutputOption = Format.TABLE) -> None:
    """List the daily budgets of the tenants that have one."""

    async def run(client: Client, out: Output) -> None:
        columns = [
            Column("TENANT", "tenant"),
            Column("DAY", "day"),
            *(
                Column(f"{word.upper()} {unit}", shown(f"{word}_{kind}"), right=True)
                for kind, unit in (("usd", "USD"), ("tokens", "TOKENS"))
                for word in ("spent", "reserved", "cap")
            ),
            Column("SET BY", "set_by"),
            Column("SET AT", "set_at"),
        ]
        step = "piecework budgets set TENANT --daily-usd USD"
        empty = f"no tenant has a daily budget; next: {step}"
        out.rows(await client.budgets(), columns, empty)

    run_client(run, output)


def set_budget(
    tenant: TenantArgument,
    daily_usd: DailyUsdOption = "",
    daily_tokens: DailyTokensOption = "",
    unset: Annotated[
        bool, typer.Option("--unset", help="Remove the daily budget.")
    ] = False,
    reason: ReasonOption = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Set what all jobs of a tenant may spend in a day.

    At the cap its jobs are paused until the next day, in UTC, or until the budget is
    raised. Workers use the change within seconds; paused jobs are resumed.
    """

    def check() -> None:
        if bool(daily_usd or daily_tokens) == unset:
            message = "Name at least one budget, or --unset."
            step = f"piecework budgets set {tenant} --daily-usd 50"
            raise UsageError(message, next_step=step)
        parse_cap(daily_usd, daily_tokens)
        require_tenant(tenant)

    async def run(client: Client, out: Output) -> None:
        document = await client.set_daily_budget(
            tenant, daily_usd, daily_tokens, reason
        )
        out.document(document, lambda console: console.print(facts(document.items())))

    run_client(run, output, before=check)


def shown(name: str) -> Callable[[Mapping[str, Any]], str]:
    """Return the text of an amount in a table: `-` without one."""
    return lambda row: "-" if row[name] is None else f"{row[name]:,}"
