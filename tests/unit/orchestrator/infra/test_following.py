"""An operation is followed to its own end, not to the end of the one before it."""

from __future__ import annotations

from typing import Any

from orchestrator.infra.following import PATIENCE, follow
from orchestrator.infra.stack import Stack
from tests.unit.orchestrator.infra.cloudformation import CloudFormation

NAME = "shop-prod-data"


def test_a_stack_that_shows_the_end_of_before_is_waited_for() -> None:
    aws = CloudFormation()
    aws.add(NAME, "UPDATE_COMPLETE")
    said: list[str] = []
    steps = iter(["UPDATE_IN_PROGRESS", "UPDATE_COMPLETE"])

    def pause(_: float) -> None:
        status = next(steps)
        aws.happen("mine", NAME, status, "")

    follow(Stack(aws, NAME, pause), f"id-{NAME}", "mine", said.append)

    assert ["UPDATE_IN_PROGRESS", "UPDATE_COMPLETE"] == [s.split()[1] for s in said]


def test_an_end_without_events_is_believed_after_a_while() -> None:
    aws = CloudFormation()
    aws.add(NAME, "UPDATE_COMPLETE")
    waited: list[Any] = []

    follow(Stack(aws, NAME, waited.append), f"id-{NAME}", "mine", print)

    assert PATIENCE == len(waited)


def test_events_of_others_are_not_told() -> None:
    aws = CloudFormation()
    aws.add(NAME)
    aws.happen("theirs", NAME, "UPDATE_COMPLETE", "")
    aws.happen("mine", "Queue", "CREATE_FAILED", "")
    aws.happen("mine", NAME, "CREATE_COMPLETE", "")
    said: list[str] = []

    follow(Stack(aws, NAME), f"id-{NAME}", "mine", said.append)

    assert ["CREATE_FAILED", "CREATE_COMPLETE"] == [s.split()[1] for s in said]


def test_a_stack_that_is_gone_needs_no_event() -> None:
    aws = CloudFormation()
    aws.add(NAME, "DELETE_COMPLETE")

    follow(Stack(aws, NAME), f"id-{NAME}", "mine", print)

    assert [] == aws.events
