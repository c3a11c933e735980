"""Policies that are simpler than ours, and often seen: what ours is compared with.

Each is a target tracking policy, as AWS documents it. It adds tasks in proportion after
three minutes above the target. It removes tasks after fifteen below nine tenths of it.
AWS does not say how many: here in proportion, too, and at most half at a time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from verification.scaling.alarm import Alarm, Source
from verification.scaling.metric_math import Series
from verification.scaling.policy import Cooling, Scaling
from verification.scaling.simulate import ECS, INSIGHTS, SQS

COOLDOWN_S = 300.0
VISIBLE = Source(SQS, "ApproximateNumberOfMessagesVisible", "Maximum")
HIDDEN = Source(SQS, "ApproximateNumberOfMessagesNotVisible", "Maximum")
TASKS = Source(INSIGHTS, "RunningTaskCount", "Maximum")
CPU = Source(ECS, "CPUUtilization", "Average")


@dataclass(slots=True)
class Tracking:
    """A target tracking policy: one figure is to stay near its target."""

    target: float
    sources: Mapping[str, Source]
    expression: str
    state: Cooling = field(default_factory=Cooling)

    @property
    def needs(self) -> Mapping[Source, int]:
        """The metrics that it looks at, and for how many minutes."""
        return dict.fromkeys(self.sources.values(), self.low.window)

    @property
    def high(self) -> Alarm:
        """The alarm that asks for more."""
        return Alarm(
            sources=self.sources,
            expressions={"tracked": self.expression},
            returned="tracked",
            breaches=lambda value, target: value > target,
            threshold=self.target,
            periods=3,
            datapoints=3,
            missing="missing",
        )

    @property
    def low(self) -> Alarm:
        """The alarm that asks for fewer."""
        return replace(
            self.high,
            breaches=lambda value, target: value < target,
            threshold=0.9 * self.target,
            periods=15,
            datapoints=15,
        )

    def wants(
        self, figures: Mapping[Source, Series], tasks: int, now: float
    ) -> int | None:
        """Return the number of tasks that would put the figure on its target."""
        if (value := self.high.breaching_value(figures)) is not None:
            fit = math.ceil(tasks * value / self.target)
            return tasks + self.state.out(max(0, fit - tasks), now, COOLDOWN_S)
        if (value := self.low.breaching_value(figures)) is not None:
            fit = max(math.ceil(tasks * value / self.target), tasks // 2)
            if fit < tasks and self.state.may_shrink(now, COOLDOWN_S):
                return fit
        return None


def rivals(most: int, backlog: float) -> dict[str, Scaling]:
    """Return the others, each with one task at the least: none can start from zero."""
    queue = {"visible": VISIBLE, "hidden": HIDDEN, "tasks": TASKS}
    seen = {"visible": VISIBLE, "tasks": TASKS}
    tracked = {
        "processor at 50 %": Tracking(50.0, {"cpu": CPU}, "cpu + 0"),
        "visible a task": Tracking(backlog, seen, "visible / tasks"),
        "visible and not a task": Tracking(
            backlog, queue, "(visible + hidden) / tasks"
        ),
    }
    return {name: Scaling(1, most, (policy,)) for name, policy in tracked.items()}
