"""The questions of `infra destroy`, and what is said of what stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.cli.asking import confirm_now, confirm_word
from orchestrator.cli.infra_talk import CommandInteraction
from orchestrator.cli.output import Column, Output, print_table
from orchestrator.infra.destroy import DestroyPlan, ResourcePlan, destroy, plan_destroy
from orchestrator.infra.environment import Environment
from orchestrator.infra.parts import Part
from orchestrator.infra.site import AwsSession
from piecework.errors import UsageError

COLUMNS = (
    Column("STACK", "stack"),
    Column("RESOURCE", "resource"),
    Column("TYPE", "type", shrinks=True),
    Column("ACTION", "action"),
    Column("ID", "id", folds=True),
)
#: How to remove by hand what no command removes.
BY_HAND = {
    "AWS::S3::Bucket": (
        'its versions, then itself: python -c "import boto3; '
        "b = boto3.resource('s3').Bucket('{id}'); b.object_versions.delete(); "
        'b.delete()"'
    ),
    "AWS::KMS::Key": "aws kms schedule-key-deletion --key-id {id}",
    # It would be in the way of the next key for as long as this one waits for its end.
    "AWS::KMS::Alias": "aws kms delete-alias --alias-name {id}",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says."""

    environment: Environment
    parts: tuple[Part, ...]
    with_data: bool
    confirm_env: str
    yes: bool
    dry_run: bool


def check(asked: Asked) -> None:
    """Refuse what does not fit together.

    Raises:
        UsageError: `cli.confirmation.needed`: the data was to go, and the environment
            was not named twice.
    """
    wrong = bool(asked.confirm_env) and asked.confirm_env != asked.environment.env
    silent = asked.with_data and asked.yes and not asked.confirm_env
    if wrong or (silent and not asked.dry_run):
        message = "With its data an environment goes only if it is named twice."
        step = f"Add --confirm-env {asked.environment.env}, if it is that one."
        raise UsageError(message, code="cli.confirmation.needed", next_step=step)


def act(session: AwsSession, asked: Asked, out: Output) -> None:
    """Show what would go and what would stay, ask, and do it."""
    planned = plan_destroy(
        session, asked.environment, asked.parts, with_data=asked.with_data
    )
    if not planned.stacks:
        kept = "" if asked.with_data else " but what --with-data would remove"
        out.rows([], COLUMNS, f"there is nothing to remove{kept}")
    elif asked.dry_run:
        rows = [row.document() for row in planned.resources]
        out.rows(rows, COLUMNS, "the stacks have no resources")
    else:
        show(out, planned.resources)
        agree(session, asked, planned, out)
        destroy(session, planned, CommandInteraction(out, yes=True))
        rows = [{"stack": s.name, "result": "removed"} for _, s, _ in planned.stacks]
        columns = (Column("STACK", "stack"), Column("RESULT", "result"))
        out.rows(rows, columns, "")
    say_kept(out, planned.resources)


def show(out: Output, resources: Sequence[ResourcePlan]) -> None:
    """Show what becomes of each resource, beside the result."""
    rows = [resource.document() for resource in resources]
    out.draw(lambda console: print_table(console, rows, COLUMNS), beside=True)


def agree(session: AwsSession, asked: Asked, planned: DestroyPlan, out: Output) -> None:
    """Return if it is meant; of data the environment has to be typed."""
    names = ", ".join(stack.name for _, stack, _ in planned.stacks)
    what = f"Remove {names} in {session}"
    if not asked.with_data:
        confirm_now(what, out, yes=asked.yes)
    elif not asked.confirm_env or not asked.yes:
        confirm_word(f"{what}, with tables and queues", out, asked.environment.env)


def say_kept(out: Output, resources: Sequence[ResourcePlan]) -> None:
    """Say of what stays how it is removed by hand."""
    for resource in resources:
        if resource.action == "retain" and resource.type in BY_HAND:
            out.say(f"retained: {resource.id}")
            out.say(f"to remove it: {BY_HAND[resource.type].format(id=resource.id)}")
