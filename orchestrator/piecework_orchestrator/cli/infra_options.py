"""The options of the `infra` commands, and the environment that they name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.infra.environment import (
    Environment,
    Options,
    resolve_environment,
)
from piecework_orchestrator.infra.session import AwsSession, open_session
from piecework_orchestrator.infra.templates import Part

EnvOption = Annotated[
    str,
    typer.Option(
        "--env", metavar="NAME", help="The environment.", show_default="PIECEWORK_ENV"
    ),
]
AppOption = Annotated[
    str,
    typer.Option(
        "--app",
        metavar="NAME",
        help="The prefix of all resource names.",
        show_default="PIECEWORK_APP",
    ),
]
RegionOption = Annotated[
    str, typer.Option(help="The region.", show_default="as the AWS variables say")
]
StackOption = Annotated[
    list[Part] | None,
    typer.Option("--stack", help="Only this stack; repeatable.", show_default="all"),
]
ParameterOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="A template parameter; repeatable.",
        show_default=False,
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        help="An environment file.", exists=True, dir_okay=False, show_default=False
    ),
]
ImageOption = Annotated[
    str,
    typer.Option(
        metavar="URI", help="The worker image, by digest.", show_default=False
    ),
]
PipelinesOption = Annotated[
    str,
    typer.Option(
        metavar="MODULE,…",
        help="The modules whose pipelines the workers serve.",
        show_default=False,
    ),
]
OwnerOption = Annotated[
    str,
    typer.Option(
        metavar="TEAM",
        help="Who is responsible for dead letters of pipelines that name no owner.",
        show_default=False,
    ),
]
RunbookOption = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS",
        help="The instructions for dead letters of pipelines that name none.",
        show_default=False,
    ),
]
VpcOption = Annotated[
    str,
    typer.Option(
        metavar="ID", help="An existing VPC, instead of a new one.", show_default=False
    ),
]
SubnetsOption = Annotated[
    str,
    typer.Option(
        metavar="ID,…", help="Subnets of that VPC, in two zones.", show_default=False
    ),
]
GroupOption = Annotated[
    str,
    typer.Option(
        metavar="ID", help="A security group of that VPC.", show_default=False
    ),
]
TagOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tag",
        metavar="KEY=VALUE",
        help="A tag of every stack and its resources; repeatable.",
        show_default=False,
    ),
]
RoleOption = Annotated[
    str,
    typer.Option(
        "--role-arn",
        metavar="ARN",
        help="The role with which CloudFormation works.",
        show_default="the caller's",
    ),
]


def environment(  # noqa: PLR0913, PLR0917 -- the options, each wanted alone
    env: str,
    app: str,
    region: str,
    config: Path | None,
    parameters: list[str] | None = None,
    image: str = "",
    pipelines: str = "",
    owner: str = "",
    runbook: str = "",
    vpc: str = "",
    subnets: str = "",
    security_group: str = "",
    tags: list[str] | None = None,
    role_arn: str = "",
) -> Environment:
    """Return the environment that the options name."""
    shorthand = {
        "image": image,
        "pipelines": pipelines,
        "owner": owner,
        "runbook": runbook,
        "vpc": vpc,
        "subnets": subnets,
        "security_group": security_group,
    }
    return resolve_environment(
        Options(
            app,
            env,
            region,
            config,
            tuple(parameters or ()),
            shorthand,
            tuple(tags or ()),
            role_arn,
        )
    )


def open_target(wanted: Environment, out: Output) -> AwsSession:
    """Open a session and write its account, to prevent a deploy to a wrong one."""
    session = open_session(wanted.region)
    if out.table:
        endpoint = f"{session.endpoint.url}, " if session.endpoint.url else ""
        out.say(f"{wanted.name} in {endpoint}{session}")
    return session
