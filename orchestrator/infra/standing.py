"""What can be done with a stack in the state that it is in, and what else to do."""

from __future__ import annotations

from typing import Final

from piecework.errors import UsageError

#: States in which a stack takes a change.
READY: Final = frozenset(
    {
        "CREATE_COMPLETE",
        "IMPORT_COMPLETE",
        "IMPORT_ROLLBACK_COMPLETE",
        "UPDATE_COMPLETE",
        "UPDATE_ROLLBACK_COMPLETE",
    }
)
#: States from which a delete is all that helps; nothing in them was ever complete.
STILLBORN: Final = frozenset({"CREATE_FAILED", "ROLLBACK_COMPLETE", "ROLLBACK_FAILED"})
REVIEW: Final = "REVIEW_IN_PROGRESS"
GONE: Final = "DELETE_COMPLETE"


def over(status: str) -> bool:
    """Say whether an operation has come to its end, the tidying after it included."""
    return not status.endswith("_IN_PROGRESS")


def never_whole(status: str) -> bool:
    """Say whether the stack never came into being: it holds nothing of anybody's."""
    return status == REVIEW or status in STILLBORN


def succeeded(status: str) -> bool:
    """Say whether an operation did what it was to do."""
    return status in {"CREATE_COMPLETE", "UPDATE_COMPLETE", GONE}


def require_ready(stack: str, part: str, env: str, status: str) -> None:
    """Raise unless the stack takes a change.

    Raises:
        UsageError: `infra.stack.busy`, `infra.stack.in_review`,
            `infra.stack.not_created`, `infra.stack.stuck`.
    """
    if status in READY:
        return
    destroy = f"`piecework infra destroy --env {env} --stack {part}`"
    if status == REVIEW:
        code, step = "infra.stack.in_review", f"If nobody reviews it: {destroy}."
    elif status in STILLBORN:
        code, step = "infra.stack.not_created", f"{destroy}, then deploy again."
    elif not over(status):
        code, step = "infra.stack.busy", ""
    elif status == "UPDATE_ROLLBACK_FAILED":
        code = "infra.stack.stuck"
        step = (
            "Mend what its last events name, then `aws cloudformation "
            f"continue-update-rollback --stack-name {stack}`."
        )
    elif status == "DELETE_FAILED":
        code, step = "infra.stack.stuck", f"Mend what its last events name, {destroy}."
    else:
        code, step = "infra.stack.stuck", ""
    message = f"The stack {stack} is in {status} and takes no change."
    raise UsageError(message, code=code, next_step=step, stack=stack, status=status)
