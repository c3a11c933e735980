"""Every state that CloudFormation documents, with its error code and next step."""

from __future__ import annotations

import boto3
import pytest

from piecework.errors import UsageError
from piecework_orchestrator.infra.stack import READY, require_ready, was_never_created

STUCK = {
    "DELETE_FAILED",
    "UPDATE_FAILED",
    "UPDATE_ROLLBACK_FAILED",
    "IMPORT_ROLLBACK_FAILED",
}


def states() -> list[str]:
    """Return all states of the SDK's model."""
    client = boto3.client("cloudformation", region_name="eu-central-1")
    shape = client.meta.service_model.shape_for("StackStatus")
    return [str(state) for state in shape.enum]  # type: ignore[attr-defined]


def test_every_state_is_ready_or_has_its_code_and_next_step() -> None:
    told = {}
    for state in set(states()) - READY:
        with pytest.raises(UsageError, match=state) as refused:
            require_ready("shop-prod-data", "data", "prod", state)
        assert refused.value.next_step
        told[state] = refused.value.code
    for state in READY:
        require_ready("shop-prod-data", "data", "prod", state)

    assert set(states()) > READY
    assert {"infra.stack.stuck"} == {told[state] for state in STUCK}
    assert "infra.stack.in_review" == told["REVIEW_IN_PROGRESS"]
    assert "infra.stack.not_created" == told["ROLLBACK_COMPLETE"]
    assert "infra.stack.busy" == told["UPDATE_COMPLETE_CLEANUP_IN_PROGRESS"]


def test_the_next_step_after_a_failed_rollback_is_continue_update_rollback() -> None:
    with pytest.raises(UsageError) as stuck:
        require_ready("shop-prod-data", "data", "prod", "UPDATE_ROLLBACK_FAILED")

    assert "continue-update-rollback --stack-name shop-prod-data" in (
        stuck.value.next_step
    )


def test_the_states_of_a_stack_that_was_never_created() -> None:
    assert {
        "CREATE_FAILED",
        "REVIEW_IN_PROGRESS",
        "ROLLBACK_COMPLETE",
        "ROLLBACK_FAILED",
    } == {state for state in states() if was_never_created(state)}
