"""`jobs cost` and `infra cost`: the bill of a job, and of a month without a job."""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import Annotated

import typer

from piecework.settings import load_settings
from piecework_orchestrator.cli.options import Format, JobArgument, OutputOption
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.run import run_client, run_local
from piecework_orchestrator.cli.views.cost import bill_view, idle_document, idle_view
from piecework_orchestrator.client import Client
from piecework_orchestrator.cost.bill import TaskSize
from piecework_orchestrator.cost.idle import IdleDeployment, idle_lines, parse_egress
from piecework_orchestrator.cost.prices import load_prices

#: The largest task of Fargate, and the tasks of one service.
MOST_VCPU, MOST_GB, MOST_TASKS = 16, 120, 5_000
#: A petabyte: a larger figure is a slip.
MOST_STORED_GB = 1_000_000


def require_number(value: float) -> float:
    """Refuse NaN: older versions of click find it in each range."""
    if isnan(value):
        message = "nan is not a number."
        raise typer.BadParameter(message)
    return value


RegionOption = Annotated[
    str,
    typer.Option(
        "--region",
        help="The region whose prices apply.",
        show_default="the deployment's region",
    ),
]
PricesOption = Annotated[
    Path | None,
    typer.Option(
        "--prices",
        help="A price file that overrides the built-in prices.",
        dir_okay=False,
    ),
]
VcpuOption = Annotated[
    float,
    typer.Option(
        "--vcpu",
        help="vCPUs of a worker task.",
        min=0,
        max=MOST_VCPU,
        callback=require_number,
    ),
]
GbOption = Annotated[
    float,
    typer.Option(
        "--gb",
        help="Gigabytes of memory of a worker task.",
        min=0,
        max=MOST_GB,
        callback=require_number,
    ),
]
ArmOption = Annotated[bool, typer.Option("--arm", help="Tasks run on ARM.")]


def job_cost(
    job: JobArgument,
    region: RegionOption = "",
    prices: PricesOption = None,
    vcpu: VcpuOption = 0.5,
    gb: GbOption = 1.0,
    arm: ArmOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show the cost of a job: what it used, and costs until its deletion.

    List prices from a dated table, without taxes, discounts and free tiers.
    """

    async def run(client: Client, out: Output) -> None:
        task = TaskSize(vcpu, gb, arm)
        bill = await client.job(job).cost(region=region, prices=prices, task=task)
        out.document(bill, bill_view(bill))

    run_client(run, output)


def infra_cost(  # noqa: PLR0913, PLR0917 -- options of a command
    region: Annotated[
        str, typer.Option(help="The region whose prices apply.")
    ] = "us-east-1",
    prices: PricesOption = None,
    workers: Annotated[
        int, typer.Option(help="Workers that run all month.", min=0, max=MOST_TASKS)
    ] = 0,
    vcpu: VcpuOption = 0.5,
    gb: GbOption = 1.0,
    arm: ArmOption = False,
    egress: Annotated[
        str, typer.Option(help="Internet access of the tasks: nat, public or none.")
    ] = "public",
    endpoints: Annotated[
        int | None,
        typer.Option(
            help="Private endpoints, each in two zones.",
            min=0,
            show_default="5 with --egress none, else 0",
        ),
    ] = None,
    alarms: Annotated[int, typer.Option(help="Metrics with an alarm.", min=0)] = 45,
    metrics: Annotated[int, typer.Option(help="Metrics published.", min=0)] = 7,
    logs: Annotated[
        float,
        typer.Option(
            help="Gigabytes of logs.",
            min=0,
            max=MOST_STORED_GB,
            callback=require_number,
        ),
    ] = 0.1,
    stored: Annotated[
        float,
        typer.Option(
            help="Gigabytes in the tables, and as many in the bucket.",
            min=0,
            max=MOST_STORED_GB,
            callback=require_number,
        ),
    ] = 1.0,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show the price of a month without a job.

    The settings of this environment apply, such as the poll intervals of workers and
    reconciler. List prices, without taxes, discounts and free tiers.
    """

    def run(out: Output) -> None:
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
