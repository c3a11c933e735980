"""Codes of `piecework infra`: stacks, their parameters and their change sets."""

from __future__ import annotations

from typing import Final

from piecework.codes.row import Code, ErrorClass

_P: Final = ErrorClass.PERMANENT

ROWS: Final = (
    Code(
        "infra.change.refused",
        _P,
        "CloudFormation could not create a change set.",
        "Correct what the message quotes, then deploy again. Nothing was changed.",
    ),
    Code(
        "infra.config.invalid",
        _P,
        "The environment file is not valid, or no environment is named.",
        "Correct what the message names; `docs/deploy.md` has an example.",
    ),
    Code(
        "infra.delete.failed",
        _P,
        "A resource that a stack left could not be deleted.",
        "Correct what the message quotes, then delete the resource with the AWS CLI.",
    ),
    Code(
        "infra.deploy.failed",
        _P,
        "CloudFormation started the change and could not complete it.",
        "Correct the first failure, check with `piecework infra status`, then "
        "deploy again.",
    ),
    Code(
        "infra.jobs.running",
        ErrorClass.STATE,
        "The environment has jobs that have not ended.",
        "List them with `piecework jobs list`. Wait, or run `piecework jobs "
        "cancel JOB`.",
    ),
    Code(
        "infra.parameter.invalid",
        _P,
        "A parameter does not have the form `Key=Value`.",
        "Write `--parameter Name=value`; see `piecework infra deploy --help`.",
    ),
    Code(
        "infra.parameter.missing",
        _P,
        "A parameter of a stack has no value, and no earlier stack exports one.",
        "Pass it as the message says, or add it to the environment file.",
    ),
    Code(
        "infra.parameter.unknown",
        _P,
        "No template has a parameter with this name.",
        "Choose one that the message lists.",
    ),
    Code(
        "infra.replacement.refused",
        ErrorClass.POLICY,
        "The change would replace or remove a resource that stores data.",
        "Do not deploy it, or name each resource with `--allow-replacement`.",
    ),
    Code(
        "infra.request.refused",
        _P,
        "AWS found a request about a stack invalid.",
        "Correct what the message quotes, then run the command again.",
    ),
    Code(
        "infra.stack.busy",
        ErrorClass.TRANSIENT,
        "Another operation on the stack is in progress.",
        "Wait until `piecework infra status` shows its end, then deploy again.",
    ),
    Code(
        "infra.stack.in_review",
        ErrorClass.STATE,
        "A change set created the stack and was never executed.",
        "If no review is in progress, remove the empty stack with `piecework "
        "infra destroy`.",
    ),
    Code(
        "infra.stack.not_created",
        ErrorClass.STATE,
        "The creation of the stack failed; such a stack can only be deleted.",
        "Correct the cause, remove the stack with `piecework infra destroy`, then "
        "deploy again.",
    ),
    Code(
        "infra.stack.stuck",
        ErrorClass.STATE,
        "An operation on the stack failed, and its rollback failed too.",
        "Read the stack's events in the CloudFormation console, and correct what "
        "they name.",
    ),
    Code(
        "infra.template.missing",
        _P,
        "A file of `infra/` is not part of this installation.",
        "Install Piecework again, or run it from a checkout.",
    ),
    Code(
        "infra.template.too_large",
        _P,
        "A template is larger than a CloudFormation request allows.",
        "Report the error: the template must be split.",
    ),
)
