"""Create the roles that ECS and its autoscaling need once in each account.

CloudFormation does not create them. In an account without them, AWS refuses a cluster
with capacity providers: "Unable to assume the service linked role". CloudFormation then
rolls the stack back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from piecework.errors import UsageError
from piecework_orchestrator.infra.errors import InfraError, translated_aws_errors
from piecework_orchestrator.infra.session import AwsSession
from piecework_orchestrator.infra.stack import POLL_S
from piecework_orchestrator.infra.templates import Template

#: Polls of a new role: a minute. IAM shows a change after some seconds.
MAX_POLLS: Final = 30
DENIED: Final = frozenset({"AccessDenied", "AccessDeniedException"})


class ServiceRole(NamedTuple):
    """A service, and the role that it has in each account that uses it."""

    service: str
    role: str


#: The role that a type of resource needs.
NEEDED: Final = {
    "AWS::ECS::Cluster": ServiceRole("ecs.amazonaws.com", "AWSServiceRoleForECS"),
    "AWS::ApplicationAutoScaling::ScalableTarget": ServiceRole(
        "ecs.application-autoscaling.amazonaws.com",
        "AWSServiceRoleForApplicationAutoScaling_ECSService",
    ),
}


def ensure_service_roles(
    session: AwsSession, template: Template, report: Callable[[str], None]
) -> None:
    """Create the roles that a template's resources need, and wait for them.

    An emulator has no such roles, so nothing is done for one.

    Raises:
        UsageError: `infra.service_role.missing`: an administrator must create it.
        InfraError: `infra.deploy.failed`: IAM does not show the new role in time.
    """
    types = {resource["Type"] for resource in template.body["Resources"].values()}
    needed = [role for kind, role in NEEDED.items() if kind in types]
    if session.endpoint.loopback or not needed:
        return
    iam = session.make_client("iam")
    for role in needed:
        _ensure(iam, role, session, report)


def _ensure(
    iam: Any, role: ServiceRole, session: AwsSession, report: Callable[[str], None]
) -> None:
    from botocore.exceptions import ClientError

    if _exists(iam, role):
        return
    with translated_aws_errors(role.role, "iam"):
        try:
            iam.create_service_linked_role(AWSServiceName=role.service)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code in DENIED:
                raise _missing(role) from error
            # InvalidInput: another deploy has created it meanwhile, or IAM has another
            # reason. The wait tells which.
            if code != "InvalidInput":
                raise
    for _ in range(MAX_POLLS):
        if _exists(iam, role):
            report(f"created {role.role}, which {role.service} needs in this account")
            return
        session.sleep(POLL_S)
    raise InfraError(f"IAM does not show the new role {role.role} yet.")


def _exists(iam: Any, role: ServiceRole) -> bool:
    from botocore.exceptions import ClientError

    with translated_aws_errors(role.role, "iam"):
        try:
            iam.get_role(RoleName=role.role)
        except ClientError as error:
            if error.response["Error"]["Code"] != "NoSuchEntity":
                raise
            return False
    return True


def _missing(role: ServiceRole) -> UsageError:
    command = f"aws iam create-service-linked-role --aws-service-name {role.service}"
    return UsageError(
        f"The account has no role {role.role}, and these credentials may not create"
        " it.",
        code="infra.service_role.missing",
        next_step=f"Let an administrator run `{command}` once, then deploy again.",
    )
