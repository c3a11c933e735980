"""Check that no minute or second holds more starts of calls than the limits.

The checker counts the starts that the provider sees, of all workers. It knows of the
limits that an operator sets from the writes to their rows.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from piecework.dependency import Dependency
from piecework.domain import keys
from piecework.resilience.limits import Limits
from piecework.store.limits import read_quota
from piecework.store.serialization import from_item
from piecework_simulation.aws.dynamodb import Change

if TYPE_CHECKING:
    from piecework_simulation.engine.world import World

MINUTE_S = 60.0
#: Seconds after which workers have noticed a lower limit, under faults of the table.
NOTICED_S = 30.0
#: The clocks of two workers may differ by half a second, and the minute is kept. The
#: dates of AWS correct a wrong clock to within a second: the minute is shorter then.
WRONG_CLOCKS_S = 2.0

#: The moment of a start, and its tokens.
Start = tuple[float, int]


@dataclass(slots=True)
class QuotaInvariants:
    """The starts of the last minute, and the limits that were in force.

    Attributes:
        operators: The limits that operators have set, each with its moment.
    """

    world: World
    report_violation: Callable[[str], None]
    starts: dict[str, deque[Start]] = field(default_factory=lambda: defaultdict(deque))
    operators: dict[str, list[tuple[float, Limits]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def check_write(self, change: Change) -> None:
        """Check a write to the row of a limit, and note what an operator has set."""
        name = change.sk.removeprefix(keys.LIMITS_PREFIX)
        if change.new is None:
            self.report_violation(f"I17: the limits of {name} were deleted")
            return
        new = read_quota(from_item(change.new))
        old = read_quota(from_item(change.old)) if change.old else None
        if old is not None and new.seq not in {old.seq, old.seq + 1}:
            self.report_violation(f"I17: {name} moved from {old.seq} to {new.seq}")
        if new.operator != (old.operator if old else Limits()):
            self.operators[name].append((self.world.loop.moment, new.operator))

    def check_start(
        self, dependency: Dependency, args: Any, *, is_lookup: bool = False
    ) -> None:
        """Count a start, and check the minute that it ends."""
        name, now = dependency.name, self.world.loop.moment
        if not dependency.limits and name not in self.operators:
            return
        weighed = dependency.estimate is not None and not is_lookup
        tokens = dependency.estimate(*args) if weighed and dependency.estimate else 0
        starts = self.starts[name]
        starts.append((now, tokens))
        while starts[0][0] <= now - self.minute_s:
            starts.popleft()
        requests, limited_tokens, a_second = self.most(dependency, now)
        last = sum(at > now - 1.0 for at, _ in starts)
        if a_second is not None and last > a_second:
            self.report_violation(f"I17: {name} started {last} of {a_second} a second")
        if requests is not None and len(starts) > requests:
            self.report_violation(f"I17: {name} started {len(starts)} of {requests}")
        # The tokens of one call may come on top: docs/limits.md, "Tokens".
        used = sum(each for _, each in starts) - max(each for _, each in starts)
        if limited_tokens is not None and used > limited_tokens:
            self.report_violation(f"I17: {name} used {used} of {limited_tokens} tokens")

    @property
    def minute_s(self) -> float:
        """The seconds for which the limit holds."""
        has_offsets = "clock.offset" in self.world.faults.rates
        return MINUTE_S - WRONG_CLOCKS_S * has_offsets

    def most(self, dependency: Dependency, now: float) -> tuple[int | None, ...]:
        """Return the highest limits that were in force in the last minute.

        They are those of requests and of tokens, then the requests of a second.
        """
        declared = dependency.limits or Limits()
        history = [(0.0, Limits()), *self.operators[dependency.name]]
        since = now - MINUTE_S - NOTICED_S
        latest = [at for at, _ in history if at <= since][-1]
        found = [declared.changed_by(each) for at, each in history if at >= latest]
        return (
            highest([each.requests_per_minute for each in found]),
            highest([each.tokens_per_minute for each in found]),
            highest([each.requests_per_second for each in found]),
        )


def highest(limits: list[int | None]) -> int | None:
    """Return the highest limit; None: there was a time without one."""
    return max(each or 0 for each in limits) if all(limits) else None
