"""Throttle a table and its partitions, as AWS documents for tables on demand.

A partition takes 1,000 write units and 3,000 read units a second, and a key stays on
one partition:

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html

It may use what it did not use in the last 300 seconds, but AWS may take that away. So
it is drawn for each key:

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/burst-adaptive-capacity.html

Keys share a partition until AWS splits it, so the load of others may leave nothing for
a key. When that begins and ends is drawn. The same page has this.

A new table takes 4,000 write units and 12,000 read units a second, and later up to
twice its peak. It may throttle if its load doubles within 30 minutes. When it grows is
drawn:

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/on-demand-capacity-mode.html
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from piecework_simulation.aws.errors import Calm, Chaos, error

PARTITION_WRITES, PARTITION_READS = 1_000.0, 3_000.0
TABLE_WRITES, TABLE_READS = 4_000.0, 12_000.0
#: Seconds of unused capacity that a partition may keep.
BURST_S = 300.0
#: Seconds after which a table under load has doubled, at the least and at the most.
GROWS_S = (60.0, 1_800.0)
#: The longest time for which the load of other keys leaves nothing for a key.
HOT_S = 12.0
#: The fault of a request at which such a load begins.
HOT = "dynamodb.hot_partition"
#: The errors of a table on demand; both are documented.
CODES = ("ProvisionedThroughputExceededException", "ThrottlingException")
MESSAGE = "Throughput exceeds the current capacity of your table or index."


@dataclass(slots=True)
class Bucket:
    """Units that are left, with what is added in a second and what it holds."""

    rate: float
    most: float
    left: float
    at: float

    def refill(self, now: float) -> None:
        """Add what the time since the last request has brought."""
        self.left = min(self.most, self.left + (now - self.at) * self.rate)
        self.at = now


@dataclass(slots=True)
class Throughput:
    """The capacity that is left.

    Attributes:
        share: The part of AWS's limits of a partition that counts: a small job reaches
            a hundredth of them.
        chaos: Decides when the load of other keys begins.
        throttled: Requests that were refused.
        hot_until: When the load of other keys last ends, by kind, table and partition.
    """

    now: Callable[[], float]
    rng: Random
    share: float = 1.0
    chaos: Chaos = field(default_factory=Calm)
    throttled: int = 0
    hot_until: dict[tuple[str, str, str], float] = field(default_factory=dict)
    _buckets: dict[tuple[str, str, str], Bucket] = field(default_factory=dict)
    _grows_at: dict[tuple[str, str], float] = field(default_factory=dict)

    def take_write(self, operation: str, table: str, pk: str, units: float) -> None:
        """Use write units of a key, or raise the error of a throttled request."""
        limits = (PARTITION_WRITES * self.share, TABLE_WRITES)
        self._take(operation, ("write", table, pk), units, limits)

    def take_read(self, operation: str, table: str, pk: str, units: float) -> None:
        """Use read units of a key, or raise the error of a throttled request."""
        limits = (PARTITION_READS * self.share, TABLE_READS)
        self._take(operation, ("read", table, pk), units, limits)

    def _take(
        self,
        operation: str,
        place: tuple[str, str, str],
        units: float,
        limits: tuple[float, float],
    ) -> None:
        kind, table, pk = place
        whole = self._bucket((kind, table, ""), limits[1], 1.0)
        self._grow(whole, (kind, table))
        buckets = [whole]
        if pk:
            seconds = 1.0 + self.rng.choice((0.0, BURST_S)) * self.rng.random()
            buckets.append(self._bucket(place, limits[0], seconds))
        if any(bucket.left <= 0 for bucket in buckets) or self._is_hot(place):
            self.throttled += 1
            raise error(operation, self.rng.choice(CODES), MESSAGE)
        for bucket in buckets:
            bucket.left -= units

    def _is_hot(self, place: tuple[str, str, str]) -> bool:
        """Return whether other keys of the partition leave nothing for this one."""
        now = self.now()
        if self.chaos.fires(HOT):
            self.hot_until[place] = now + self.rng.random() ** 2 * HOT_S
        return self.hot_until.get(place, now) > now

    def _bucket(
        self, place: tuple[str, str, str], rate: float, seconds: float
    ) -> Bucket:
        now = self.now()
        found = self._buckets.get(place)
        if found is None:
            most = rate * seconds
            found = self._buckets[place] = Bucket(rate, most, most, now)
        found.refill(now)
        return found

    def _grow(self, whole: Bucket, key: tuple[str, str]) -> None:
        """Double a table some time after it first used more than half of its rate."""
        now = self.now()
        grows_at = self._grows_at.get(key)
        if grows_at is None and whole.left < whole.most / 2:
            self._grows_at[key] = now + self.rng.uniform(*GROWS_S)
        elif grows_at is not None and now >= grows_at:
            whole.rate, whole.most = 2 * whole.rate, 2 * whole.most
            del self._grows_at[key]
