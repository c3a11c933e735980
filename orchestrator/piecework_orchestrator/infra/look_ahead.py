"""Refuse a deploy that cannot come up, before anything is created.

Names of roles are global in an account, and a task needs an address of a subnet. AWS
would tell both only in the middle of a deploy, or when the workers are needed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from ipaddress import ip_network
from typing import Any, Final

from piecework.errors import UsageError
from piecework_orchestrator.infra.environment import Environment, parameter
from piecework_orchestrator.infra.errors import translated_aws_errors
from piecework_orchestrator.infra.session import AwsSession
from piecework_orchestrator.infra.stack import StackState
from piecework_orchestrator.infra.templates import Part

#: Addresses of each subnet that AWS keeps.
KEPT_BY_AWS: Final = 5
#: A rolling update runs old and new tasks side by side: MaximumPercent of service.yaml.
GENERATIONS: Final = 2
RECONCILERS: Final = 1
#: The parts whose tasks need addresses, or decide how many there are.
WITH_TASKS: Final = frozenset({Part.SERVICE, Part.SCALING})
UNREADABLE: Final = frozenset(
    {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"}
)


def look_ahead(
    session: AwsSession,
    environment: Environment,
    parts: Collection[Part],
    present: Mapping[Part, StackState],
) -> None:
    """Refuse what can be seen before the first stack is changed.

    What these credentials may not read is not checked.

    Raises:
        UsageError: `infra.environment.elsewhere`, `infra.subnets.too_small`.
    """
    if session.endpoint.loopback:  # an emulator has no roles, and starts no task
        return
    if Part.ROLES not in present:
        _refuse_second_region(session, environment)
    if WITH_TASKS & {*parts}:
        _refuse_small_subnets(session, environment, present)


def _refuse_second_region(session: AwsSession, environment: Environment) -> None:
    """Refuse if the environment's roles exist without their stack in this region."""
    role = f"{environment.name}-worker"
    iam = session.make_client("iam")
    if _read(role, "iam", lambda: iam.get_role(RoleName=role), "NoSuchEntity") is None:
        return
    raise UsageError(
        f"The account has the role {role} already, and {session.region} has no stack "
        f"{environment.stack(Part.ROLES)}. Names of roles are global in an account.",
        code="infra.environment.elsewhere",
    )


def _refuse_small_subnets(
    session: AwsSession,
    environment: Environment,
    present: Mapping[Part, StackState],
) -> None:
    """Refuse if known subnets have fewer addresses than the most tasks.

    Those of a new network stack are not known, and have enough for 1,000 workers.
    Before the first deploy the free addresses count. Later the own tasks use some of
    them, so all addresses count.
    """
    ids = parameter(environment, Part.SERVICE, "SubnetIds", present).split(",")
    if not all(ids):
        return
    workers = int(parameter(environment, Part.SCALING, "MaxWorkers", present))
    ec2 = session.make_client("ec2")
    found = _read("the subnets", "ec2", lambda: ec2.describe_subnets(SubnetIds=ids))
    if found is None:
        return
    free, what = 0, "addresses"
    for subnet in found["Subnets"]:
        free += ip_network(subnet["CidrBlock"]).num_addresses - KEPT_BY_AWS
    if Part.SERVICE not in present:
        free = sum(subnet["AvailableIpAddressCount"] for subnet in found["Subnets"])
        what = "free addresses"
    needed = GENERATIONS * (workers + RECONCILERS)
    if needed <= free:
        return
    most = free // GENERATIONS - RECONCILERS
    raise UsageError(
        f"MaxWorkers={workers} needs {needed} addresses: {workers} workers and "
        f"{RECONCILERS} reconciler, twice while an update replaces them. "
        f"The subnets {', '.join(ids)} have {free} {what}.",
        code="infra.subnets.too_small",
        next_step=f"Set MaxWorkers to {most} or fewer, or name larger subnets."
        if most > 0
        else "Name larger subnets.",
    )


def _read(resource: str, service: str, request: Any, absent: str = "") -> Any:
    """Return the answer; None if the code is `absent`, or if it may not be read."""
    from botocore.exceptions import ClientError

    with translated_aws_errors(resource, service):
        try:
            return request()
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code in UNREADABLE | {absent}:
                return None
            raise
