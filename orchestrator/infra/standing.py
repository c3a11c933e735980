"""Which states of a stack allow a change, and the next step for the others."""

from __future__ import annotations

from typing import Final

from piecework.errors import UsageError

#: States in which a stack accepts a change.
READY: Final = frozenset(
    {
        "CREATE_COMPLETE",
        "IMPORT_COMPLETE",
        "IMPORT_ROLLBACK_COMPLETE",
        "UPDATE_COMPLETE",
        "UPDATE_ROLLBACK_COMPLETE",
    }
)
#: States after a failed creation; such a stack can only be deleted.
CREATION_FAILED: Final = frozenset(
    {"CREATE_FAILED", "ROLLBACK_COMPLETE", "ROLLBACK_FAILED"}
)
IN_REVIEW: Final = "REVIEW_IN_PROGRESS"
DELETED: Final = "DELETE_COMPLETE"


def is_finished(status: str) -> bool:
    """Return whether the operation has ended, its cleanup included."""
    return not status.endswith("_IN_PROGRESS")


def was_never_created(status: str) -> bool:
    """Return whether the stack was never created and so holds no data."""
    return status == IN_REVIEW or status in CREATION_FAILED


def has_succeeded(status: str) -> bool:
    """Return whether the last operation succeeded."""
    return status in {"CREATE_COMPLETE", "UPDATE_COMPLETE", DELETED}


def require_ready(stack: str, part: str, env: str, status: str) -> None:
    """Raise unless the stack accepts a change.

    Raises:
        UsageError: `infra.stack.busy`, `infra.stack.in_review`,
            `infra.stack.not_created`, `infra.stack.stuck`.
    """
    if status in READY:
        return
    destroy = f"`piecework infra destroy --env {env} --stack {part}`"
    if status == IN_REVIEW:
        code = "infra.stack.in_review"
        step = f"Execute or delete its change set, or run {destroy}."
    elif status in CREATION_FAILED:
        code, step = "infra.stack.not_created", f"Run {destroy}, then deploy again."
    elif not is_finished(status):
        code, step = "infra.stack.busy", ""
    elif status == "UPDATE_ROLLBACK_FAILED":
        code = "infra.stack.stuck"
        step = (
            "Fix the resources in its last events, then run `aws cloudformation "
            f"continue-update-rollback --stack-name {stack}`."
        )
    elif status == "DELETE_FAILED":
        code = "infra.stack.stuck"
        step = f"Fix the resources in its last events, then run {destroy}."
    else:
        code, step = "infra.stack.stuck", ""
    message = f"The stack {stack} is {status} and cannot be changed now."
    raise UsageError(message, code=code, next_step=step, stack=stack, status=status)
