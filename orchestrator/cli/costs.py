"""`jobs cost`: the bill of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.cli.cost_options import (
    ArmOption,
    GbOption,
    PricesOption,
    RegionOption,
    VcpuOption,
)
from orchestrator.cli.formats import Format
from orchestrator.cli.options import JobArgument, OutputOption
from orchestrator.cli.run import run_connected

if TYPE_CHECKING:
    from orchestrator.cli.output import Output
    from piecework.runtime import Runtime


def job_cost(
    job: JobArgument,
    region: RegionOption = "",
    prices: PricesOption = None,
    vcpu: VcpuOption = 0.0,
    gb: GbOption = 0.0,
    arm: ArmOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show the cost of a job: requests, units, bytes, busy time, tokens.

    List prices from a dated table, without taxes, discounts and free tiers.
    """

    async def run(rt: Runtime, out: Output) -> None:
        from orchestrator.cli.cost_views import bill_view
        from orchestrator.costs import job_bill
        from orchestrator.inspector import require_job
        from orchestrator.pricing.bill import TaskSize
        from orchestrator.pricing.table import load_prices

        table, priced_in = load_prices(prices), region or region_of(rt)
        record = await require_job(rt, job)
        bill = await job_bill(rt, record, table, priced_in, TaskSize(vcpu, gb, arm))
        out.document(bill, bill_view(bill))

    run_connected(run, output)


def region_of(rt: Runtime) -> str:
    """Return the region of the deployment."""
    return rt.endpoint.region or str(rt.objects.client.meta.region_name)
