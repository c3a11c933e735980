"""`infra`: deploy, compare, render and describe an environment's stacks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from piecework_orchestrator.cli.infra_options import (
    AppOption,
    ConfigOption,
    EnvOption,
    GroupOption,
    ImageOption,
    OwnerOption,
    ParameterOption,
    PipelinesOption,
    RegionOption,
    RoleOption,
    RunbookOption,
    StackOption,
    SubnetsOption,
    TagOption,
    VpcOption,
    environment,
    open_target,
)
from piecework_orchestrator.cli.options import Format, OutputOption, YesOption
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.run import run_local
from piecework_orchestrator.cli.views.infra import (
    CommandInteraction,
    show_changes,
    show_files,
    show_outcomes,
    show_stacks,
)
from piecework_orchestrator.infra.deploy import DeployRequest, deploy, diff
from piecework_orchestrator.infra.render import render, write
from piecework_orchestrator.infra.status import status

#: The exit code of `diff --exit-code` if a deploy would change something.
DIFFERS = 9


def deploy_stacks(  # noqa: PLR0913, PLR0917 -- options of a command
    env: EnvOption = "",
    stack: StackOption = None,
    image: ImageOption = "",
    pipelines: PipelinesOption = "",
    owner: OwnerOption = "",
    runbook: RunbookOption = "",
    vpc: VpcOption = "",
    subnets: SubnetsOption = "",
    security_group: GroupOption = "",
    parameter: ParameterOption = None,
    config: ConfigOption = None,
    allow_replacement: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LOGICAL_ID",
            help="A resource with data that may be replaced or removed; repeatable.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the changes, make none.")
    ] = False,
    yes: YesOption = False,
    tag: TagOption = None,
    role_arn: RoleOption = "",
    app: AppOption = "",
    region: RegionOption = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Deploy the stacks after a confirmation.

    Each change set is shown first, then executed and followed to its end.

    A second deploy without changes does nothing. Parameters that are not named keep
    the values of the stacks.
    """

    def run(out: Output) -> None:
        wanted = environment(
            env, app, region, config, parameter,
            image, pipelines, owner, runbook,
            vpc, subnets, security_group, tag, role_arn,
        )  # fmt: skip
        request = DeployRequest(
            wanted, tuple(stack or ()), tuple(allow_replacement or ())
        )
        session = open_target(wanted, out)
        if dry_run:
            show_changes(out, diff(session, request))
        else:
            show_outcomes(
                out, deploy(session, request, CommandInteraction(out, yes=yes))
            )

    run_local(run, output)


def diff_stacks(  # noqa: PLR0913, PLR0917 -- as deploy
    env: EnvOption = "",
    stack: StackOption = None,
    image: ImageOption = "",
    pipelines: PipelinesOption = "",
    owner: OwnerOption = "",
    runbook: RunbookOption = "",
    vpc: VpcOption = "",
    subnets: SubnetsOption = "",
    security_group: GroupOption = "",
    parameter: ParameterOption = None,
    config: ConfigOption = None,
    exit_code: Annotated[
        bool,
        typer.Option("--exit-code", help="Return exit code 9 if there are changes."),
    ] = False,
    tag: TagOption = None,
    role_arn: RoleOption = "",
    app: AppOption = "",
    region: RegionOption = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Show what a deploy would change; change nothing."""

    def run(out: Output) -> int:
        wanted = environment(
            env, app, region, config, parameter,
            image, pipelines, owner, runbook,
            vpc, subnets, security_group, tag, role_arn,
        )  # fmt: skip
        found = diff(
            open_target(wanted, out), DeployRequest(wanted, tuple(stack or ()))
        )
        show_changes(out, found)
        changed = any(outcome.changed for outcome in found)
        return DIFFERS if exit_code and changed else 0

    run_local(run, output)


def render_templates(  # noqa: PLR0913, PLR0917 -- as deploy
    env: EnvOption = "",
    stack: StackOption = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", help="The folder for the files.", file_okay=False),
    ] = None,
    image: ImageOption = "",
    pipelines: PipelinesOption = "",
    owner: OwnerOption = "",
    runbook: RunbookOption = "",
    vpc: VpcOption = "",
    subnets: SubnetsOption = "",
    security_group: GroupOption = "",
    parameter: ParameterOption = None,
    config: ConfigOption = None,
    app: AppOption = "",
    region: RegionOption = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Print or write the templates.

    With parameters and AWS CLI commands; no call goes to AWS.
    """

    def run(out: Output) -> None:
        wanted = environment(
            env, app, region, config, parameter,
            image, pipelines, owner, runbook, vpc, subnets, security_group,
        )  # fmt: skip
        files = render(DeployRequest(wanted, tuple(stack or ())))
        show_files(out, files, write(files, to) if to else [])

    run_local(run, output)


def show_status(
    env: EnvOption = "",
    config: ConfigOption = None,
    app: AppOption = "",
    region: RegionOption = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Show the status, differences and outputs."""

    def run(out: Output) -> None:
        wanted = environment(env, app, region, config)
        show_stacks(out, status(open_target(wanted, out), wanted))

    run_local(run, output)
