"""Draw results, errors and money of a job over time, as bars of an SVG.

The record has when a chunk ended, and when a claim before that failed. Money has no
time of its own: it stands where its chunk ended, and that of a running chunk at the
end of the chart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from piecework.domain.budget import NANO
from piecework.domain.chunk import Chunk
from piecework.domain.moments import iso, moment
from piecework.domain.states import ChunkStatus

#: Bars of a series at most; of one by a sample fewer, so that each has some chunks of
#: it. And seconds of a bar: what clocks and calendars divide.
MAX_BARS: Final = 60
SAMPLED_BARS: Final = 30
STEPS_S: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)
DAY_S: Final = 86_400
#: The size of a drawing in its own units; the browser stretches it.
WIDTH, HEIGHT = 1000.0, 40.0
#: A bar that is not zero can be seen.
LEAST_HEIGHT: Final = 2.0
#: Ends of claims that are errors; `dead` is that of an earlier generation.
ERRORS: Final = frozenset({"retry", "lost", "dead"})
#: The series in their order.
RESULTS, FAILURES, MONEY = "results", "errors", "money"


@dataclass(slots=True)
class JobHistory:
    """What happened to the chunks of a job: time and amount of each kind.

    Attributes:
        counts_dead: Whether a dead chunk is an error; else its dead letter is.
    """

    counts_dead: bool = True
    events: dict[str, list[tuple[float, float]]] = field(
        default_factory=lambda: {RESULTS: [], FAILURES: [], MONEY: []}
    )

    def add(self, chunk: Chunk, now: float, weight: float = 1.0) -> None:
        """Add a chunk; `now`: where the money of one that has not ended stands.

        `weight`: for how many chunks it stands.
        """
        at = moment(chunk.ended_at) if chunk.ended_at else now
        if chunk.status is ChunkStatus.SUCCEEDED:
            self.events[RESULTS].append((at, weight))
        elif chunk.status is ChunkStatus.DEAD and self.counts_dead:
            self.events[FAILURES].append((at, weight))
        for entry in chunk.history:
            if entry.get("end") in ERRORS and isinstance(entry.get("to"), str):
                self.events[FAILURES].append((moment(entry["to"]), weight))
        if nano_usd := chunk.usage_so_far.total("paid")["nano_usd"]:
            self.events[MONEY].append((at, weight * nano_usd / NANO))

    def add_deaths(self, times: Iterable[str], weight: float) -> None:
        """Add dead chunks by the ISO times of their ends."""
        self.events[FAILURES] += [(moment(at), weight) for at in times]


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar; `amount` is what happened from `at` on, for a step."""

    x: float
    y: float
    width: float
    height: float
    at: str
    amount: float


@dataclass(frozen=True, slots=True)
class Series:
    """The bars of one kind that are not zero, their highest amount and their sum."""

    bars: Sequence[Bar]
    highest: float
    total: float


@dataclass(frozen=True, slots=True)
class Chart:
    """The series by name.

    Attributes:
        began, ended: ISO times of the axis.
        step_s: Seconds of a bar.
    """

    series: Mapping[str, Series]
    began: str
    ended: str
    step_s: float


def make_chart(
    history: JobHistory, began: float, ended: float, most: int = MAX_BARS
) -> Chart | None:
    """Draw a job between two epoch seconds; None: nothing has happened yet.

    An event outside of them, by the clock of another machine, stands at the edge.
    """
    if not any(history.events.values()):
        return None
    step_s = step_of(ended - began, most)
    bars = max(1, -int(-(ended - began) // step_s))
    series = {
        name: draw(events, began, step_s, bars)
        for name, events in history.events.items()
        if events or name != MONEY
    }
    return Chart(series, iso(began), iso(began + bars * step_s), step_s)


def step_of(seconds: float, most: int) -> float:
    """Return the seconds of a bar, so that there are at most so many."""
    least = seconds / most
    found = next((step for step in STEPS_S if step >= least), None)
    return float(found or DAY_S * max(1, -int(-least // DAY_S)))


def draw(
    events: Sequence[tuple[float, float]], began: float, step_s: float, bars: int
) -> Series:
    """Return the bars of a series, as high as the highest of them allows."""
    sums = [0.0] * bars
    for at, amount in events:
        place = int((at - began) // step_s)
        sums[min(max(place, 0), bars - 1)] += amount
    highest, width = max(sums), WIDTH / bars
    drawn = []
    for place, amount in enumerate(sums):
        if amount:
            height = max(LEAST_HEIGHT, HEIGHT * amount / highest)
            x, y, since = place * width, HEIGHT - height, iso(began + place * step_s)
            drawn.append(Bar(x, y, width * 0.9, height, since, amount))
    return Series(drawn, highest, sum(sums))
