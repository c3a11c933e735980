"""Store the results as a file, and read them as medians and ranges."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.adapters.systems import PIECEWORK

FOLDER = Path(__file__).parent / "results"
LATEST = FOLDER / "full.json"
#: The error of a run that the user interrupted.
INTERRUPTED = "interrupted"
#: A run counts as quiet when others used less than so many cores meanwhile.
QUIET_CORES = 0.25


@dataclass(frozen=True, slots=True)
class Record:
    """One run.

    Attributes:
        aws_server: The kind of AWS server.
        made: The day and the commit, as in `2026-11-29 (1a2b3c4)`.
    """

    workload: str
    system: str
    variant: str
    round: int
    values: Mapping[str, float]
    counts: Mapping[str, list[float]]
    noise: Mapping[str, float]
    error: str = ""
    aws_server: str = "ministack"
    made: str = ""


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over several runs."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The one in the middle."""
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        """The smallest."""
        return min(self.values)

    @property
    def high(self) -> float:
        """The largest."""
        return max(self.values)


@dataclass(frozen=True, slots=True)
class Results:
    """All runs, with the machine and the versions."""

    form: str
    machine: Mapping[str, str]
    versions: Mapping[str, str]
    records: list[Record] = field(default_factory=list)

    def runs_of(self, workload: str, system: str, variant: str = "") -> list[Record]:
        """Return the successful runs of a system."""
        wanted = (workload, system, variant)
        return [
            each
            for each in self.records
            if (each.workload, each.system, each.variant) == wanted and not each.error
        ]

    def figure(
        self, workload: str, system: str, name: str, variant: str = ""
    ) -> Spread | None:
        """Return a figure of a system; None if it was not measured."""
        runs = self.runs_of(workload, system, variant)
        values = tuple(run.values[name] for run in runs if name in run.values)
        return Spread(values) if values else None

    def errors(self) -> list[Record]:
        """Return the runs that failed."""
        return [each for each in self.records if each.error]

    def systems(self, workload: str) -> list[str]:
        """Return the systems that ran a workload, in order."""
        found = (each.system for each in self.records if each.workload == workload)
        return list(dict.fromkeys(found))

    def variants(self, workload: str) -> list[str]:
        """Return the variants of a workload, in the order of the runs."""
        found = (each.variant for each in self.records if each.workload == workload)
        return list(dict.fromkeys(found))

    def quiet(self) -> int:
        """Return the number of runs without noise."""
        return sum(r.noise["foreign_cores"] < QUIET_CORES for r in self.records)

    def days(self) -> dict[str, list[str]]:
        """Return the workloads that were run on each day, at which commit."""
        found: dict[str, list[str]] = {}
        for workload in dict.fromkeys(each.workload for each in self.records):
            days = {each.made for each in self.records if each.workload == workload}
            found.setdefault(" and ".join(sorted(days)), []).append(workload)
        return found

    def beside(self, older: Results) -> Results:
        """Return these runs, with older ones of what was not run now.

        A run of all takes longer than a night, so that a part is run again. Runs of
        another machine or form are left out: they cannot be compared.
        """
        if (older.form, older.machine) != (self.form, self.machine):
            return self
        now = {(each.workload, each.system) for each in self.records}
        kept = [r for r in older.records if (r.workload, r.system) not in now]
        records = sorted(
            [*self.records, *kept],
            key=lambda each: (each.workload, each.system != PIECEWORK),
        )
        versions = {**older.versions, **self.versions}
        return Results(self.form, self.machine, versions, records)

    def save(self, path: Path) -> None:
        """Write it down."""
        path.parent.mkdir(parents=True, exist_ok=True)
        document = json.dumps(rounded(asdict(self)), indent=1)
        path.write_text(document + "\n", encoding="utf-8")


def load(path: Path) -> Results:
    """Read a file written by `save`."""
    document = json.loads(path.read_text(encoding="utf-8"))
    records = [Record(**each) for each in document.pop("records")]
    return Results(**document, records=records)


def rounded(value: Any) -> Any:
    """Round figures to six digits; the rest is noise."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [rounded(each) for each in value]
    return value
