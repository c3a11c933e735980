"""The options that the cost commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
    float, typer.Option("--vcpu", help="vCPUs of a worker task.", min=0)
]
GbOption = Annotated[
    float, typer.Option("--gb", help="Gigabytes of memory of a worker task.", min=0)
]
ArmOption = Annotated[bool, typer.Option("--arm", help="Tasks run on ARM.")]
