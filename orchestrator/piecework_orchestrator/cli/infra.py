"""`infra`: deploy, compare, describe, price and remove an environment's stacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from piecework.errors import UsageError
from piecework_orchestrator.cli.cost import infra_cost
from piecework_orchestrator.cli.options import Format, OutputOption, YesOption
from piecework_orchestrator.cli.output import Column, Output, print_table
from piecework_orchestrator.cli.run import confirm_now, confirm_word, run_local
from piecework_orchestrator.cli.views.infra import CHANGE_COLUMNS
from piecework_orchestrator.infra.change_set import Change
from piecework_orchestrator.infra.destroy import (
    DestroyPlan,
    ResourcePlan,
    destroy,
    plan_destroy,
)
from piecework_orchestrator.infra.environment import Environment
from piecework_orchestrator.infra.session import AwsSession
from piecework_orchestrator.infra.templates import Part

if TYPE_CHECKING:
    from piecework_orchestrator.cli.output import Output
    from piecework_orchestrator.infra.environment import Environment
    from piecework_orchestrator.infra.session import AwsSession

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
        from piecework_orchestrator.cli.views.infra import show_changes, show_outcomes
        from piecework_orchestrator.infra.deploy import DeployRequest, deploy, diff

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
        from piecework_orchestrator.cli.views.infra import show_changes
        from piecework_orchestrator.infra.deploy import DeployRequest, diff

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

        wanted = environment(env, app, region, config)
        request = DestroyRequest(
            wanted, tuple(stack or ()), with_data, confirm_env, yes, dry_run
        )
        check_options(request)
        show_and_destroy(open_target(wanted, out), request, out)

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
        from piecework_orchestrator.cli.views.infra import show_files
        from piecework_orchestrator.infra.deploy import DeployRequest
        from piecework_orchestrator.infra.render import render, write

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
        from piecework_orchestrator.cli.views.infra import show_stacks
        from piecework_orchestrator.infra.status import status

        wanted = environment(env, app, region, config)
        show_stacks(out, status(open_target(wanted, out), wanted))

    run_local(run, output)


def open_target(wanted: Environment, out: Output) -> AwsSession:
    """Open a session and write its account, to prevent a deploy to a wrong one."""
    from piecework_orchestrator.infra.session import open_session

    session = open_session(wanted.region)
    if out.table:
        endpoint = f"{session.endpoint.url}, " if session.endpoint.url else ""
        out.say(f"{wanted.name} in {endpoint}{session}")
    return session


# Confirm `infra destroy`, and report which resources are kept.

COLUMNS = (
    Column("STACK", "stack"),
    Column("RESOURCE", "resource"),
    Column("TYPE", "type", shrinks=True),
    Column("ACTION", "action"),
    Column("ID", "id", folds=True),
)
#: How to remove by hand the resources that no command removes.
BY_HAND = {
    "AWS::S3::Bucket": (
        'its versions, then itself: python -c "import boto3; '
        "b = boto3.resource('s3').Bucket('{id}'); b.object_versions.delete(); "
        'b.delete()"'
    ),
    "AWS::KMS::Key": "aws kms schedule-key-deletion --key-id {id}",
    # The alias would block the next key while the deletion of this key is pending.
    "AWS::KMS::Alias": "aws kms delete-alias --alias-name {id}",
}


@dataclass(frozen=True, slots=True)
class DestroyRequest:
    """The options of `infra destroy`."""

    environment: Environment
    parts: tuple[Part, ...]
    with_data: bool
    confirm_env: str
    yes: bool
    dry_run: bool


def check_options(request: DestroyRequest) -> None:
    """Refuse to remove data unless the environment is named twice.

    Raises:
        UsageError: `cli.confirmation.needed`.
    """
    wrong = bool(request.confirm_env) and request.confirm_env != request.environment.env
    silent = request.with_data and request.yes and not request.confirm_env
    if wrong or (silent and not request.dry_run):
        message = "--with-data removes the data: name the environment twice."
        step = f"Add --confirm-env {request.environment.env}."
        raise UsageError(message, code="cli.confirmation.needed", next_step=step)


def show_and_destroy(session: AwsSession, request: DestroyRequest, out: Output) -> None:
    """Show what is removed and what is kept, ask, and remove it."""
    planned = plan_destroy(
        session, request.environment, request.parts, with_data=request.with_data
    )
    if not planned.stacks:
        kept = "" if request.with_data else " without --with-data"
        out.rows([], COLUMNS, f"nothing to remove{kept}")
    elif request.dry_run:
        rows = [row.document() for row in planned.resources]
        out.rows(rows, COLUMNS, "the stacks have no resources")
    else:
        show_resources(out, planned.resources)
        confirm_destroy(session, request, planned, out)
        destroy(session, planned, CommandInteraction(out, yes=True))
        rows = [{"stack": s.name, "result": "removed"} for _, s, _ in planned.stacks]
        columns = (Column("STACK", "stack"), Column("RESULT", "result"))
        out.rows(rows, columns, "")
    report_retained(out, planned.resources)


def show_resources(out: Output, resources: Sequence[ResourcePlan]) -> None:
    """Show the fate of each resource on stderr."""
    rows = [resource.document() for resource in resources]
    out.draw(lambda console: print_table(console, rows, COLUMNS), on_stderr=True)


def confirm_destroy(
    session: AwsSession, request: DestroyRequest, planned: DestroyPlan, out: Output
) -> None:
    """Return if confirmed; to remove data the operator types the environment."""
    names = ", ".join(stack.name for _, stack, _ in planned.stacks)
    what = f"Remove {names} in {session}"
    if not request.with_data:
        confirm_now(what, out, yes=request.yes)
    elif not request.confirm_env or not request.yes:
        confirm_word(f"{what}, with tables and queues", out, request.environment.env)


def report_retained(out: Output, resources: Sequence[ResourcePlan]) -> None:
    """Write how to remove the kept resources by hand."""
    for resource in resources:
        if resource.action == "retain" and resource.type in BY_HAND:
            out.say(f"retained: {resource.id}")
            out.say(f"to remove it: {BY_HAND[resource.type].format(id=resource.id)}")


# The options that the commands of `infra` share.

if TYPE_CHECKING:
    from piecework_orchestrator.infra.environment import Environment

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


def environment(  # noqa: PLR0913, PLR0917 -- the options, each wanted alone
    env: str,
    app: str,
    region: str,
    config: Path | None,
    parameters: list[str] | None = None,
    image: str = "",
    pipelines: str = "",
    vpc: str = "",
    subnets: str = "",
    security_group: str = "",
) -> Environment:
    """Return the environment that the options name."""
    from piecework_orchestrator.infra.environment import Options, resolve_environment

    shorthand = {
        "image": image,
        "pipelines": pipelines,
        "vpc": vpc,
        "subnets": subnets,
        "security_group": security_group,
    }
    return resolve_environment(
        Options(app, env, region, config, tuple(parameters or ()), shorthand)
    )


# Progress, changes and questions of the `infra` commands, written to stderr.


@dataclass(frozen=True, slots=True)
class CommandInteraction:
    """Report to the terminal and ask the user there.

    Attributes:
        yes: Confirm every change without a question.
    """

    out: Output
    yes: bool

    def report(self, text: str) -> None:
        """Write one line of progress."""
        self.out.say(text)

    def show_changes(self, stack: str, changes: Sequence[Change]) -> None:
        """Show the planned changes of one stack."""
        self.out.say(f"{stack}:")
        rows = [change.document() for change in changes]
        self.out.draw(lambda c: print_table(c, rows, CHANGE_COLUMNS), on_stderr=True)

    def confirm(self, action: str) -> None:
        """Return if the user confirms the action."""
        confirm_now(action, self.out, yes=self.yes)
