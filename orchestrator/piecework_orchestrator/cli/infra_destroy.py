"""`infra destroy`: remove stacks after a confirmation, and report what is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from piecework.errors import UsageError
from piecework_orchestrator.cli.infra_options import (
    AppOption,
    ConfigOption,
    EnvOption,
    RegionOption,
    StackOption,
    environment,
    open_target,
)
from piecework_orchestrator.cli.options import Format, OutputOption, YesOption
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.run import confirm_now, confirm_word, run_local
from piecework_orchestrator.cli.table import Column, print_table
from piecework_orchestrator.cli.views.infra import CommandInteraction
from piecework_orchestrator.infra.destroy import (
    DestroyPlan,
    ResourcePlan,
    destroy,
    plan_destroy,
)
from piecework_orchestrator.infra.environment import Environment
from piecework_orchestrator.infra.session import AwsSession
from piecework_orchestrator.infra.templates import Part

COLUMNS = (
    Column("STACK", "stack"),
    Column("RESOURCE", "resource"),
    Column("TYPE", "type", shrinks=True, drops=1),
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
