"""The questions of `infra destroy`, and what is said of what stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.cli.asking import confirm_now, confirm_word
from orchestrator.cli.infra_talk import CommandTalk
from orchestrator.cli.output import Column, Output, print_table
from orchestrator.infra.destroy import Destruction, Fate, destroy, foresee
from orchestrator.infra.environment import Environment
from orchestrator.infra.parts import Part
from orchestrator.infra.site import Site
from piecework.errors import UsageError

COLUMNS = (
    Column("STACK", "stack"),
    Column("RESOURCE", "resource"),
    Column("TYPE", "type", shrinks=True),
    Column("FATE", "fate"),
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


def act(site: Site, asked: Asked, out: Output) -> None:
    """Show what would go and what would stay, ask, and do it."""
    planned = foresee(site, asked.environment, asked.parts, with_data=asked.with_data)
    if not planned.stacks:
        kept = "" if asked.with_data else " but what --with-data would remove"
        out.rows([], COLUMNS, f"there is nothing to remove{kept}")
    elif asked.dry_run:
        out.rows([fate.document() for fate in planned.fates], COLUMNS, "empty stacks")
    else:
        show(out, planned.fates)
        agree(site, asked, planned, out)
        destroy(site, planned, CommandTalk(out, yes=True))
        rows = [{"stack": s.name, "result": "removed"} for _, s, _ in planned.stacks]
        columns = (Column("STACK", "stack"), Column("RESULT", "result"))
        out.rows(rows, columns, "")
    say_kept(out, planned.fates)


def show(out: Output, fates: Sequence[Fate]) -> None:
    """Show what becomes of each resource, beside the result."""
    rows = [fate.document() for fate in fates]
    out.draw(lambda console: print_table(console, rows, COLUMNS), beside=True)


def agree(site: Site, asked: Asked, planned: Destruction, out: Output) -> None:
    """Return if it is meant; of data the environment has to be typed."""
    names = ", ".join(stack.name for _, stack, _ in planned.stacks)
    what = f"Remove {names} in {site}"
    if not asked.with_data:
        confirm_now(what, out, yes=asked.yes)
    elif not asked.confirm_env or not asked.yes:
        confirm_word(f"{what}, with tables and queues", out, asked.environment.env)


def say_kept(out: Output, fates: Sequence[Fate]) -> None:
    """Say of what stays how it is removed by hand."""
    for fate in fates:
        if fate.fate == "kept" and fate.type in BY_HAND:
            out.say(f"kept: {fate.id}")
            out.say(f"to remove {BY_HAND[fate.type].format(id=fate.id)}")
