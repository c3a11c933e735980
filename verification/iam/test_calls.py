"""Every call of AWS in the code has a maker, and its maker the right to it."""

from __future__ import annotations

import pytest

from verification.iam.calls import CALLERS, SERVICES, found, operations_of, services
from verification.iam.grants import OURS
from verification.iam.operations import MEMBERS, NEEDS


def needs(actor: str) -> set[str]:
    """Return the actions that an actor's calls take."""
    taken: set[str] = set()
    for operation in operations_of(actor):
        service, _, name = operation.partition(":")
        taken |= NEEDS[service][name]
    return taken


def told(actor: str) -> set[str]:
    """Return the actions that the table says an actor takes, and that can be seen."""
    return {a for row in OURS[actor] if not row.unproven for a in row.actions}


def test_every_call_of_aws_in_the_code_is_in_the_table() -> None:
    assert sorted(CALLERS) == sorted(found())


def test_every_service_whose_client_the_code_makes_is_looked_at() -> None:
    assert SERVICES == services()


def test_every_call_has_a_maker_or_a_reason() -> None:
    actors = set(OURS)
    for who in CALLERS.values():
        assert who.startswith("- ") or set(who.split()) <= actors


@pytest.mark.parametrize("actor", sorted(set(OURS) - {"execution"}))
def test_an_actor_may_do_what_its_calls_take_and_nothing_else(actor: str) -> None:
    # Which members its transactions have, only a run can show.
    assert told(actor) <= needs(actor)
    listed = {action for row in OURS[actor] for action in row.actions}
    assert needs(actor) - set(MEMBERS.values()) <= listed
