"""What Application Auto Scaling makes of an alarm, by its documentation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from verification.scaling.alarm import Alarm, Source, read_alarm
from verification.scaling.metric_math import Series


class Policy(Protocol):
    """Something that wants a number of tasks."""

    @property
    def needs(self) -> Mapping[Source, int]:
        """The metrics that it looks at, and for how many minutes."""
        ...

    def wants(
        self, figures: Mapping[Source, Series], tasks: int, now: float
    ) -> int | None:
        """Return the number of tasks that it wants now; None: it has no opinion."""
        ...


@dataclass(frozen=True, slots=True)
class Step:
    """One step adjustment: from where to where beyond the threshold, and by what."""

    lower: float
    upper: float
    by: float


@dataclass(slots=True)
class Stepped:
    """A step scaling policy and an alarm that sets it off."""

    name: str
    alarm: Alarm
    kind: str
    steps: tuple[Step, ...]
    cooldown: float
    least: int
    state: Cooling

    @property
    def needs(self) -> Mapping[Source, int]:
        """The metrics that it looks at, and for how many minutes."""
        return dict.fromkeys(self.alarm.sources.values(), self.alarm.window)

    def wants(
        self, figures: Mapping[Source, Series], tasks: int, now: float
    ) -> int | None:
        """Return the number of tasks after the step, if a step is due."""
        value = self.alarm.breaching_value(figures)
        if value is None:
            return None
        change = self.change(value - self.alarm.threshold, tasks)
        if change > 0:
            return tasks + self.state.out(change, now, self.cooldown)
        if change < 0 and self.state.may_shrink(now, self.cooldown):
            return tasks + change
        return None

    def change(self, beyond: float, tasks: int) -> int:
        """Return by how much a value so far beyond the threshold changes the number."""
        above = beyond > 0
        for step in self.steps:
            low_is_in = step.lower <= beyond < step.upper
            if low_is_in if above else step.lower < beyond <= step.upper:
                return self.adjusted(step.by, tasks)
        return 0

    def adjusted(self, by: float, tasks: int) -> int:
        """Return an adjustment in tasks."""
        if self.kind == "ExactCapacity":
            return round(by) - tasks
        if self.kind == "ChangeInCapacity":
            return round(by)
        share = tasks * by / 100
        size = 1 if 0 < abs(share) < 1 else math.floor(abs(share))
        return int(math.copysign(max(size, self.least), by))


@dataclass(slots=True)
class Cooling:
    """What a policy did last, as far as it holds back what comes soon after."""

    grew_at: float = -math.inf
    grew_by: int = 0
    shrank_at: float = -math.inf

    def out(self, change: int, now: float, cooldown: float) -> int:
        """Return what is added: within the cooldown, only what is beyond the last."""
        if now - self.grew_at >= cooldown:
            self.grew_at, self.grew_by = now, change
            return change
        more = max(0, change - self.grew_by)
        self.grew_by += more
        return more

    def may_shrink(self, now: float, cooldown: float) -> bool:
        """Return whether the cooldown is over; start the next one if it is."""
        if now - max(self.grew_at, self.shrank_at) < cooldown:
            return False
        self.shrank_at = now
        return True


@dataclass(frozen=True, slots=True)
class Scaling:
    """A template's scalable target, and its policies."""

    least: int
    most: int
    policies: tuple[Policy, ...]

    @property
    def needs(self) -> dict[Source, int]:
        """The metrics that are looked at, and for how many minutes."""
        found: dict[Source, int] = {}
        for policy in self.policies:
            for source, minutes in policy.needs.items():
                found[source] = max(minutes, found.get(source, 0))
        return found

    def desired(self, figures: Mapping[Source, Series], tasks: int, now: float) -> int:
        """Return the number of tasks from now on: the most that any policy wants."""
        wanted = [p.wants(of(p, figures), tasks, now) for p in self.policies]
        said = [number for number in wanted if number is not None]
        return min(self.most, max(self.least, *said)) if said else tasks


def of(policy: Policy, figures: Mapping[Source, Series]) -> dict[Source, Series]:
    """Return the minutes that a policy looks at."""
    return {source: figures[source][-n:] for source, n in policy.needs.items()}


def read_scaling(template: Mapping[str, Any]) -> Scaling:
    """Return the scaling that a template describes."""
    resources = template["Resources"]
    target = resources["Workers"]["Properties"]
    cooling: dict[str, Cooling] = {}
    policies: list[Policy] = []
    for name, resource in resources.items():
        if resource["Type"] == "AWS::CloudWatch::Alarm":
            (action,) = resource["Properties"]["AlarmActions"]
            state = cooling.setdefault(action, Cooling())
            policy = resources[action]["Properties"]
            policies.append(stepped(name, resource["Properties"], policy, state))
    return Scaling(
        int(target["MinCapacity"]), int(target["MaxCapacity"]), tuple(policies)
    )


def stepped(
    name: str, alarm: Mapping[str, Any], policy: Mapping[str, Any], state: Cooling
) -> Stepped:
    """Return the policy of its properties and those of its alarm."""
    how = policy["StepScalingPolicyConfiguration"]
    return Stepped(
        name=name,
        alarm=read_alarm(alarm),
        kind=how["AdjustmentType"],
        steps=tuple(
            Step(
                float(step.get("MetricIntervalLowerBound", -math.inf)),
                float(step.get("MetricIntervalUpperBound", math.inf)),
                float(step["ScalingAdjustment"]),
            )
            for step in how["StepAdjustments"]
        ),
        cooldown=float(how["Cooldown"]),
        least=int(how.get("MinAdjustmentMagnitude", 0)),
        state=state,
    )
