"""Compare the account's quotas of Fargate with what the most workers need."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

from piecework.errors import UnreachableError
from piecework_orchestrator.infra.environment import Environment, parameter
from piecework_orchestrator.infra.errors import translated_aws_errors
from piecework_orchestrator.infra.look_ahead import UNREADABLE, WITH_TASKS
from piecework_orchestrator.infra.session import AwsSession
from piecework_orchestrator.infra.stack import StackState
from piecework_orchestrator.infra.templates import Part, load

SERVICE: Final = "fargate"
#: Units of `Cpu` in a task definition for one vCPU.
UNITS: Final = 1024
RECONCILER_VCPU: Final = 0.25
#: The most workers that scaling.yaml accepts.
MOST_WORKERS: Final = 1000
#: Some partitions of AWS have no such quota.
NOT_TOLD: Final = UNREADABLE | {"NoSuchResourceException"}


@dataclass(frozen=True, slots=True)
class Quota:
    """A quota of vCPU in use at once, in one account and region."""

    code: str
    name: str


ON_DEMAND: Final = Quota("L-3032A538", "Fargate On-Demand vCPU")
SPOT: Final = Quota("L-36FBB829", "Fargate Spot vCPU")


@dataclass(frozen=True, slots=True)
class Fleet:
    """The workers of an environment, and how they are bought.

    Attributes:
        vcpu: Of one worker.
        base: Workers on demand before the weights count.
        on_demand: The weight of on demand among the other workers.
        spot: The weight of Spot.
    """

    vcpu: float
    base: int
    on_demand: int
    spot: int

    def needs(self, workers: int) -> dict[Quota, float]:
        """Return the vCPU that so many workers and the reconciler use, by quota."""
        base = min(self.base, workers)
        share = self.spot / (self.on_demand + self.spot or 1)
        spot = ceil((workers - base) * share)
        on_demand = workers - spot
        return {
            ON_DEMAND: on_demand * self.vcpu + RECONCILER_VCPU,
            SPOT: spot * self.vcpu,
        }

    def most(self, quota: Quota, vcpu: float) -> int:
        """Return the most workers for which a quota is enough."""
        workers = 0
        while workers < MOST_WORKERS and self.needs(workers + 1)[quota] <= vcpu:
            workers += 1
        return workers


def shortages(
    session: AwsSession,
    environment: Environment,
    parts: Collection[Part],
    present: Mapping[Part, StackState],
) -> Iterator[str]:
    """Tell each quota that is too small for the most workers, and how to raise it.

    It refuses nothing: fewer workers still work. A quota that these credentials may
    not read is left out.
    """
    if session.endpoint.loopback or not WITH_TASKS & {*parts}:
        return
    fleet = fleet_of(environment, present)
    workers = int(parameter(environment, Part.SCALING, "MaxWorkers", present))
    client = session.make_client("service-quotas")
    for quota, needed in fleet.needs(workers).items():
        allowed = read_quota(client, quota)
        if allowed is not None and allowed < needed:
            yield (
                f"The quota {quota.name} is {allowed:g}, and MaxWorkers={workers} "
                f"needs {needed:g}: {fleet.most(quota, allowed)} workers can run. "
                f"To raise it, run `{raise_command(quota, needed)}`."
            )


def fleet_of(environment: Environment, present: Mapping[Part, StackState]) -> Fleet:
    """Return the fleet that a deploy would make."""

    def value(name: str) -> str:
        return parameter(environment, Part.SERVICE, name, present)

    sizes = load(Part.SERVICE).body["Mappings"]["Sizes"]
    return Fleet(
        vcpu=int(sizes[value("WorkerSize")]["Cpu"]) / UNITS,
        base=int(value("OnDemandBase")),
        on_demand=int(value("OnDemandWeight")),
        spot=int(value("SpotWeight")),
    )


def read_quota(client: Any, quota: Quota) -> float | None:
    """Return the quota of the account; None if it may not be read, or is not there."""
    from botocore.exceptions import ClientError

    try:
        with translated_aws_errors(quota.name, "servicequotas"):
            try:
                answer = client.get_service_quota(
                    ServiceCode=SERVICE, QuotaCode=quota.code
                )
            except ClientError as error:
                if error.response["Error"]["Code"] in NOT_TOLD:
                    return None
                raise
    except UnreachableError:  # a network may reach CloudFormation alone
        return None
    return float(answer["Quota"]["Value"])


def raise_command(quota: Quota, vcpu: float) -> str:
    """Return the command that asks AWS for a higher quota."""
    return (
        "aws service-quotas request-service-quota-increase "
        f"--service-code {SERVICE} --quota-code {quota.code} "
        f"--desired-value {ceil(vcpu)}"
    )
