"""`infra cost`: the price of a deployment for a month without a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.cost_options import ArmOption, GbOption, PricesOption, VcpuOption
from orchestrator.cli.formats import Format
from orchestrator.cli.options import OutputOption
from orchestrator.cli.run import run_local

if TYPE_CHECKING:
    from orchestrator.cli.output import Output


def infra_cost(  # noqa: PLR0913, PLR0917 -- options of a command
    region: Annotated[
        str, typer.Option(help="The region whose prices apply.")
    ] = "us-east-1",
    prices: PricesOption = None,
    workers: Annotated[
        int, typer.Option(help="Workers that run all month.", min=0)
    ] = 0,
    vcpu: VcpuOption = 0.5,
    gb: GbOption = 1.0,
    arm: ArmOption = False,
    egress: Annotated[
        str, typer.Option(help="Internet access of the tasks: nat, public or none.")
    ] = "nat",
    endpoints: Annotated[
        int | None,
        typer.Option(
            help="Private endpoints, each in two zones.",
            min=0,
            show_default="5 with --egress none, else 0",
        ),
    ] = None,
    alarms: Annotated[int, typer.Option(help="Metrics with an alarm.", min=0)] = 41,
    metrics: Annotated[int, typer.Option(help="Metrics published.", min=0)] = 6,
    logs: Annotated[float, typer.Option(help="Gigabytes of logs.", min=0)] = 0.1,
    stored: Annotated[
        float,
        typer.Option(help="Gigabytes in the tables, and as many in the bucket.", min=0),
    ] = 1.0,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show the price of a month without a job.

    The settings of this environment apply, such as the poll intervals of workers and
    reconciler. List prices, without taxes, discounts and free tiers.
    """

    def run(out: Output) -> None:
        from orchestrator.cli.cost_views import idle_document, idle_view
        from orchestrator.pricing.idle import IdleDeployment, idle_lines, parse_egress
        from orchestrator.pricing.table import load_prices
        from piecework.settings import load_settings

        access = parse_egress(egress)
        needed = 5 if access == "none" else 0
        deployment = IdleDeployment(
            workers=workers,
            vcpu=vcpu,
            gb=gb,
            arm=arm,
            egress=access,
            endpoints=needed if endpoints is None else endpoints,
            alarms=alarms,
            metrics=metrics,
            logs_gb=logs,
            stored_gb=stored,
        )
        table = load_prices(prices)
        lines = idle_lines(load_settings(), deployment, table, region)
        document = idle_document(lines, table, region)
        out.document(document, idle_view(document))

    run_local(run, output)
