"""`cost idle`: what a deployment costs in a month without a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.cost_options import ArmOption, GbOption, PricesOption, VcpuOption
from orchestrator.cli.formats import Format
from orchestrator.cli.options import OutputOption
from orchestrator.cli.run import run_local

if TYPE_CHECKING:
    from orchestrator.cli.output import Output

app = typer.Typer(help="What a deployment costs.", no_args_is_help=True)


@app.callback()
def cost() -> None:
    """Keep `idle` a command of its own, while there is no other."""


@app.command("idle")
def idle(  # noqa: PLR0913, PLR0917 -- options of a command
    region: Annotated[str, typer.Option(help="Whose prices.")] = "us-east-1",
    prices: PricesOption = None,
    workers: Annotated[int, typer.Option(help="Workers kept warm.", min=0)] = 0,
    vcpu: VcpuOption = 0.5,
    gb: GbOption = 1.0,
    arm: ArmOption = False,
    egress: Annotated[
        str, typer.Option(help="The way out: nat, public or none.")
    ] = "nat",
    endpoints: Annotated[
        int | None,
        typer.Option(
            help="Private endpoints, each in two zones.",
            min=0,
            show_default="5 without a way out, else 0",
        ),
    ] = None,
    alarms: Annotated[int, typer.Option(help="Metrics that alarms watch.", min=0)] = 41,
    metrics: Annotated[int, typer.Option(help="Metrics that are sent.", min=0)] = 6,
    logs: Annotated[float, typer.Option(help="Gigabytes of logs.", min=0)] = 0.1,
    stored: Annotated[
        float, typer.Option(help="Gigabytes in tables and bucket, each.", min=0)
    ] = 1.0,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show what a month costs in which there is no job.

    The settings of this environment count: how often workers poll and the reconciler
    looks. List prices, without taxes, discounts and free tiers.
    """

    def act(out: Output) -> None:
        from orchestrator.cli.cost_views import idle_document, idle_view
        from orchestrator.pricing.idle import Standing, idle_lines, known_egress
        from orchestrator.pricing.table import load_prices
        from piecework.settings import load_settings

        way = known_egress(egress)
        needed = 5 if way == "none" else 0
        standing = Standing(
            workers=workers,
            vcpu=vcpu,
            gb=gb,
            arm=arm,
            egress=way,
            endpoints=needed if endpoints is None else endpoints,
            alarms=alarms,
            metrics=metrics,
            logs_gb=logs,
            stored_gb=stored,
        )
        table = load_prices(prices)
        lines = idle_lines(load_settings(), standing, table, region)
        document = idle_document(lines, table, region)
        out.document(document, idle_view(document))

    run_local(act, output)
