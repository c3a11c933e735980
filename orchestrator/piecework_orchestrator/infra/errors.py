"""Translate errors of CloudFormation and other services into errors with a next step.

The translation uses operation and error code, never the text. The message quotes AWS.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from piecework.aws.trust import tls_error
from piecework.errors import PieceworkError, UnreachableError, UsageError
from piecework.errors.classify import classify
from piecework.errors.codes import ErrorClass

#: Provider codes with another meaning here than for a queue or table.
_CODE_OVERRIDES: Final = {
    "AlreadyExistsException": "infra.stack.busy",
    "InvalidChangeSetStatus": "infra.stack.busy",
    "LimitExceededException": "aws.quota.exceeded",
}
#: The usual next step of these codes, the embedded AWS, does not help a deploy to AWS.
_NEXT_STEPS: Final = {
    "config.region.missing": "Add `--region`, or set AWS_REGION.",
    "aws.credentials.missing": "Set AWS_PROFILE or sign in; "
    "`aws sts get-caller-identity` shows the identity in use.",
}
_REJECTED: Final = frozenset({"aws.request.invalid", "aws.request.rejected"})


class InfraError(PieceworkError):
    """AWS accepted the operation and did not complete it; exit code 1."""

    code = "infra.deploy.failed"


@contextmanager
def translated_aws_errors(
    resource: str, service: str = "cloudformation"
) -> Iterator[None]:
    """Translate the SDK's errors about a resource into errors with a next step."""
    from botocore.exceptions import BotoCoreError, ClientError

    from piecework.runtime import unreadable  # loads the SDK

    try:
        yield
    except ClientError as error:
        raise to_piecework_error(error, resource, service) from error
    except BotoCoreError as error:
        untrusted = tls_error(error, f"AWS for {resource}", time.time())
        if untrusted is not None:
            raise untrusted from error
        code = classify(error).code
        if code not in _NEXT_STEPS and (unread := unreadable(error)) is not None:
            raise unread from error
        transient = classify(error).error_class is ErrorClass.TRANSIENT
        kind = UnreachableError if transient else UsageError
        message = f"The AWS request about {resource} failed: {error}"
        raise kind(message, code=code, next_step=_NEXT_STEPS.get(code, "")) from error


def to_piecework_error(error: Exception, resource: str, service: str) -> PieceworkError:
    """Return the Piecework error for an error response of AWS."""
    details = getattr(error, "response", {}).get("Error", {})
    action = f"{service}:{getattr(error, 'operation_name', '')}"
    found = classify(error)
    code = _CODE_OVERRIDES.get(str(found.provider_code), found.code)
    if code == "aws.access.denied":
        return UsageError(
            f"These credentials do not allow {action} on {resource}.",
            code=code,
            next_step=f"Allow {action} for the deploying role; see docs/access.md.",
            action=action,
        )
    message = f"AWS refused {action} on {resource}: {details.get('Message', '')}"
    if found.error_class is ErrorClass.TRANSIENT and code == found.code:
        return UnreachableError(message, code=code)
    return UsageError(
        message, code="infra.request.refused" if code in _REJECTED else code
    )
