"""`follow` waits for the end of its own operation, not of an earlier one."""

from __future__ import annotations

from typing import Any

from piecework_orchestrator.infra.stack import MAX_POLLS, Stack, follow
from tests.unit.orchestrator.infra.cloudformation import CloudFormation

NAME = "shop-prod-data"


def test_follow_waits_while_the_stack_shows_the_end_of_an_earlier_operation() -> None:
    aws = CloudFormation()
    aws.add(NAME, "UPDATE_COMPLETE")
    said: list[str] = []
    steps = iter(["UPDATE_IN_PROGRESS", "UPDATE_COMPLETE"])

    def sleep(_: float) -> None:
        status = next(steps)
        aws.add_event("mine", NAME, status, "")

    follow(Stack(aws, NAME, sleep), f"id-{NAME}", "mine", said.append)

    assert ["UPDATE_IN_PROGRESS", "UPDATE_COMPLETE"] == [s.split()[1] for s in said]


def test_an_end_without_events_is_accepted_after_max_polls() -> None:
    aws = CloudFormation()
    aws.add(NAME, "UPDATE_COMPLETE")
    waited: list[Any] = []

    follow(Stack(aws, NAME, waited.append), f"id-{NAME}", "mine", print)

    assert MAX_POLLS == len(waited)


def test_events_of_other_operations_are_not_reported() -> None:
    aws = CloudFormation()
    aws.add(NAME)
    aws.add_event("theirs", NAME, "UPDATE_COMPLETE", "")
    aws.add_event("mine", "Queue", "CREATE_FAILED", "")
    aws.add_event("mine", NAME, "CREATE_COMPLETE", "")
    said: list[str] = []

    follow(Stack(aws, NAME), f"id-{NAME}", "mine", said.append)

    assert ["CREATE_FAILED", "CREATE_COMPLETE"] == [s.split()[1] for s in said]


def test_a_deleted_stack_needs_no_event() -> None:
    aws = CloudFormation()
    aws.add(NAME, "DELETE_COMPLETE")

    follow(Stack(aws, NAME), f"id-{NAME}", "mine", print)

    assert [] == aws.events
