"""Codes of `piecework infra`: stacks, their parameters and their change sets."""

from __future__ import annotations

from typing import Final

from piecework.codes.row import Code, ErrorClass

_P: Final = ErrorClass.PERMANENT

ROWS: Final = (
    Code(
        "infra.change.refused",
        _P,
        "CloudFormation made no change set of the template and its parameters.",
        "Mend what the message quotes, then deploy again; nothing was changed.",
    ),
    Code(
        "infra.config.invalid",
        _P,
        "The environment file does not fit, or no environment is named.",
        "Mend what the message names; docs/deploy.md has an example.",
    ),
    Code(
        "infra.delete.failed",
        _P,
        "What a stack left behind could not be deleted.",
        "Mend what the message quotes, then delete it with the AWS CLI.",
    ),
    Code(
        "infra.deploy.failed",
        _P,
        "CloudFormation began the change and did not get it done.",
        "Mend what failed first, look with `piecework infra status`, deploy again.",
    ),
    Code(
        "infra.jobs.running",
        ErrorClass.STATE,
        "Jobs are under way that the environment must not be taken from.",
        "See them with `piecework jobs list`; wait, or `piecework jobs cancel JOB`.",
    ),
    Code(
        "infra.parameter.invalid",
        _P,
        "A parameter was not given as `Key=Value`.",
        "Write `--parameter Name=value`; see `piecework infra deploy --help`.",
    ),
    Code(
        "infra.parameter.missing",
        _P,
        "A stack has a parameter without a value, and none of the stacks before it "
        "gives one.",
        "Add it as the message says, or put it into the environment file.",
    ),
    Code(
        "infra.parameter.unknown",
        _P,
        "No template has a parameter of that name.",
        "Choose one of those that the message lists.",
    ),
    Code(
        "infra.replacement.refused",
        ErrorClass.POLICY,
        "The change would replace or remove what holds data.",
        "Leave it, or name each resource with `--allow-replacement`.",
    ),
    Code(
        "infra.request.refused",
        _P,
        "AWS found the request about a stack invalid.",
        "Mend what the message quotes, then run the command again.",
    ),
    Code(
        "infra.stack.busy",
        ErrorClass.TRANSIENT,
        "Something is under way on the stack.",
        "Wait until `piecework infra status` shows its end, then deploy again.",
    ),
    Code(
        "infra.stack.in_review",
        ErrorClass.STATE,
        "The stack was begun by a change set that nobody has executed.",
        "If nobody reviews it, `piecework infra destroy` removes the empty stack.",
    ),
    Code(
        "infra.stack.not_created",
        ErrorClass.STATE,
        "The stack's creation failed, and such a stack can only be deleted.",
        "Mend the cause, `piecework infra destroy` that stack, then deploy again.",
    ),
    Code(
        "infra.stack.stuck",
        ErrorClass.STATE,
        "An operation on the stack failed, and so did the way back.",
        "Read its events in the console of CloudFormation, and mend what they name.",
    ),
    Code(
        "infra.template.missing",
        _P,
        "A file of `infra/` is not part of this installation.",
        "Install Piecework again, or run from a checkout.",
    ),
    Code(
        "infra.template.too_large",
        _P,
        "A template is longer than CloudFormation takes in a request.",
        "Report the fault: the template has to be split.",
    ),
)
