"""The options that commands about money share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RegionOption = Annotated[
    str,
    typer.Option(
        "--region", help="Whose prices.", show_default="the deployment's region"
    ),
]
PricesOption = Annotated[
    Path | None,
    typer.Option(
        "--prices",
        help="A file of prices, over those that come with us.",
        dir_okay=False,
    ),
]
VcpuOption = Annotated[
    float, typer.Option("--vcpu", help="vCPUs of a worker's task.", min=0)
]
GbOption = Annotated[
    float, typer.Option("--gb", help="Gigabytes of a worker's task.", min=0)
]
ArmOption = Annotated[bool, typer.Option("--arm", help="Tasks run on ARM.")]
