"""CloudFormation's and its neighbours' refusals, as errors of ours with a next step.

Judged by operation and code, never by words; what AWS said is quoted, for people.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from piecework.classify import classify
from piecework.codes import ErrorClass
from piecework.errors import PieceworkError, UnreachableError, UsageError

#: What these mean here is not what they mean to a queue or a table.
_OWN: Final = {
    "AlreadyExistsException": "infra.stack.busy",
    "InvalidChangeSetStatus": "infra.stack.busy",
    "LimitExceededException": "aws.quota.exceeded",
}
#: Nobody who deploys to AWS is helped by the embedded one.
_NEXT: Final = {
    "config.region.missing": "Say `--region`, or set AWS_REGION.",
    "aws.credentials.missing": "Set AWS_PROFILE or sign in; "
    "`aws sts get-caller-identity` says who you are.",
}
_REFUSED: Final = frozenset({"aws.request.invalid", "aws.request.rejected"})


class InfraError(PieceworkError):
    """AWS took the work up and did not get it done; exit 1."""

    code = "infra.deploy.failed"


@contextmanager
def explained(what: str, service: str = "cloudformation") -> Iterator[None]:
    """Turn what the SDK raises about a stack or table into what a person can act on."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        raise refusal(error, what, service) from error
    except BotoCoreError as error:
        code = classify(error).code
        transient = classify(error).error_class is ErrorClass.TRANSIENT
        kind = UnreachableError if transient else UsageError
        message = f"AWS could not be asked about {what}: {error}"
        raise kind(message, code=code, next_step=_NEXT.get(code, "")) from error


def refusal(error: Exception, what: str, service: str) -> PieceworkError:
    """Return the error of ours for an answer that is no."""
    answer = getattr(error, "response", {}).get("Error", {})
    asked = f"{service}:{getattr(error, 'operation_name', '')}"
    found = classify(error)
    code = _OWN.get(str(found.provider_code), found.code)
    if code == "aws.access.denied":
        return UsageError(
            f"These credentials may not do {asked} on {what}.",
            code=code,
            next_step=f"Allow {asked} to the role that deploys; see docs/access.md.",
            action=asked,
        )
    message = f"{asked} on {what} was refused: {answer.get('Message', '')}"
    if found.error_class is ErrorClass.TRANSIENT and code == found.code:
        return UnreachableError(message, code=code)
    return UsageError(
        message, code="infra.request.refused" if code in _REFUSED else code
    )
