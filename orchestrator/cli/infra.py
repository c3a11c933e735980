"""`infra`: deploy, compare, describe, price and remove an environment's stacks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.cost import infra_cost
from orchestrator.cli.formats import Format
from orchestrator.cli.infra_options import (
    AppOption,
    ConfigOption,
    EnvOption,
    GroupOption,
    ImageOption,
    ParameterOption,
    PipelinesOption,
    RegionOption,
    StackOption,
    SubnetsOption,
    VpcOption,
    environment,
)
from orchestrator.cli.options import OutputOption, YesOption
from orchestrator.cli.run import run_local

if TYPE_CHECKING:
    from orchestrator.cli.output import Output
    from orchestrator.infra.environment import Environment
    from orchestrator.infra.site import AwsSession

app = typer.Typer(
    help="Deploy the stacks to AWS; compare, price and remove them.",
    no_args_is_help=True,
)
app.command("cost")(infra_cost)

#: The exit code of `diff --exit-code` if a deploy would change something.
DIFFERS = 9


@app.command("deploy")
def deploy_stacks(  # noqa: PLR0913, PLR0917 -- options of a command
    env: EnvOption = "",
    stack: StackOption = None,
    image: ImageOption = "",
    pipelines: PipelinesOption = "",
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
        from orchestrator.cli.infra_talk import CommandInteraction
        from orchestrator.cli.infra_views import show_changes, show_outcomes
        from orchestrator.infra.deploy import DeployRequest, deploy, diff

        wanted = environment(
            env, app, region, config, parameter,
            image, pipelines, vpc, subnets, security_group,
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


@app.command("diff")
def diff_stacks(  # noqa: PLR0913, PLR0917 -- as deploy
    env: EnvOption = "",
    stack: StackOption = None,
    image: ImageOption = "",
    pipelines: PipelinesOption = "",
    vpc: VpcOption = "",
    subnets: SubnetsOption = "",
    security_group: GroupOption = "",
    parameter: ParameterOption = None,
    config: ConfigOption = None,
    exit_code: Annotated[
        bool,
        typer.Option("--exit-code", help="Return exit code 9 if there are changes."),
    ] = False,
    app: AppOption = "",
    region: RegionOption = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Show what a deploy would change; change nothing."""

    def run(out: Output) -> int:
        from orchestrator.cli.infra_views import show_changes
        from orchestrator.infra.deploy import DeployRequest, diff

        wanted = environment(
            env, app, region, config, parameter,
            image, pipelines, vpc, subnets, security_group,
        )  # fmt: skip
        found = diff(
            open_target(wanted, out), DeployRequest(wanted, tuple(stack or ()))
        )
        show_changes(out, found)
        changed = any(outcome.changed for outcome in found)
        return DIFFERS if exit_code and changed else 0

    run_local(run, output)


@app.command("destroy")
def destroy_stacks(  # noqa: PLR0913, PLR0917 -- safeguards, each wanted alone
    env: EnvOption = "",
    stack: StackOption = None,
    with_data: Annotated[
        bool, typer.Option("--with-data", help="Also remove tables and queues.")
    ] = False,
    confirm_env: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="With --with-data and --yes: repeat the environment's name.",
            show_default=False,
        ),
    ] = "",
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show what would be removed, remove nothing."),
    ] = False,
    yes: YesOption = False,
    config: ConfigOption = None,
    app: AppOption = "",
    region: RegionOption = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Remove the stacks, but keep the data.

    --with-data also removes tables and queues. Refused while jobs run. This command
    never removes the bucket and the keys.
    """

    def run(out: Output) -> None:
        from orchestrator.cli import infra_destroying as destroying

        wanted = environment(env, app, region, config)
        request = destroying.DestroyRequest(
            wanted, tuple(stack or ()), with_data, confirm_env, yes, dry_run
        )
        destroying.check_options(request)
        destroying.show_and_destroy(open_target(wanted, out), request, out)

    run_local(run, output)


@app.command("render")
def render_templates(  # noqa: PLR0913, PLR0917 -- as deploy
    env: EnvOption = "",
    stack: StackOption = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", help="The folder for the files.", file_okay=False),
    ] = None,
    image: ImageOption = "",
    pipelines: PipelinesOption = "",
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
        from orchestrator.cli.infra_views import show_files
        from orchestrator.infra.deploy import DeployRequest
        from orchestrator.infra.render import render, write

        wanted = environment(
            env, app, region, config, parameter,
            image, pipelines, vpc, subnets, security_group,
        )  # fmt: skip
        files = render(DeployRequest(wanted, tuple(stack or ())))
        show_files(out, files, write(files, to) if to else [])

    run_local(run, output)


@app.command("status")
def show_status(
    env: EnvOption = "",
    config: ConfigOption = None,
    app: AppOption = "",
    region: RegionOption = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Show the status, differences and outputs."""

    def run(out: Output) -> None:
        from orchestrator.cli.infra_views import show_stacks
        from orchestrator.infra.status import status

        wanted = environment(env, app, region, config)
        show_stacks(out, status(open_target(wanted, out), wanted))

    run_local(run, output)


def open_target(wanted: Environment, out: Output) -> AwsSession:
    """Open a session and write its account, to prevent a deploy to a wrong one."""
    from orchestrator.infra.site import open_session

    session = open_session(wanted.region)
    if out.table:
        endpoint = f"{session.endpoint.url}, " if session.endpoint.url else ""
        out.say(f"{wanted.name} in {endpoint}{session}")
    return session
