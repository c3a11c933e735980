"""Run the steps of a plan in rounds, each in its own environment."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench import machine
from bench.adapters.product import PieceworkAdapter
from bench.adapters.rival import RivalAdapter, run_rival_server, unavailable_reason
from bench.emulator import Kind
from bench.environment import open_environment
from bench.plan import Step
from bench.processes import FailedError
from bench.results import INTERRUPTED, Record
from bench.rivals.local_server import UnavailableError
from bench.workloads import Outcome


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs steps; each keeps its files in a folder of its own."""

    folder: Path
    say: Callable[[str], None]
    aws_server: Kind = "models"

    def run(self, steps: Sequence[Step]) -> list[Record]:
        """Run all rounds: every step once, then every step again.

        An interrupt returns the results so far.
        """
        records: list[Record] = []
        # A rival's server may run as another user, which must reach its files.
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o711)
        rounds = max((step.rounds for step in steps), default=0)
        for number in range(rounds):
            for step in steps:
                if number >= step.rounds:
                    continue
                try:
                    records.append(self.run_step(step, number))
                except KeyboardInterrupt:
                    return [*records, self.interrupted_record(step, number)]
        return records

    def run_step(self, step: Step, number: int) -> Record:
        """Run a step once; a failure is a record, too."""
        place = self.folder / slug(f"{step.name} {number}")
        place.mkdir(parents=True)
        before = machine.sample()
        try:
            outcome, error = measure_step(step, place, self.aws_server), ""
        except (FailedError, UnavailableError) as failed:
            outcome, error = Outcome({}), f"{failed}"
        except Exception as failed:  # noqa: BLE001 -- the other steps still run
            outcome, error = Outcome({}), f"{type(failed).__name__}: {failed}"
        noise_values = machine.between(before, machine.sample())
        self.say(progress_line(step, number, outcome, error, noise_values["seconds"]))
        return Record(
            workload=step.workload,
            system=step.system,
            variant=step.variant,
            round=number,
            values=outcome.values,
            counts=outcome.counts.document(),
            noise=noise_values,
            error=error,
            aws_server=self.aws_server,
            made=today(),
        )

    def interrupted_record(self, step: Step, number: int) -> Record:
        """Return the record of an interrupted run."""
        return Record(
            *(step.workload, step.system, step.variant, number),
            values={},
            counts={},
            noise={"foreign_cores": 0.0},
            error=INTERRUPTED,
            aws_server=self.aws_server,
            made=today(),
        )


def today() -> str:
    """Return the day and the commit, as in `2026-11-29 (1a2b3c4)`."""
    return f"{datetime.now(UTC).date().isoformat()} ({machine.commit()})"


def measure_step(step: Step, place: Path, aws_server: Kind) -> Outcome:
    """Open the environment, and run the measurement on the adapter."""
    if step.rival is None:
        with open_environment(step.config, place, aws_server) as ours:
            return step.measure(ours, PieceworkAdapter(ours))
    if why := unavailable_reason(step.rival.lock):
        raise FailedError(why)
    with (
        run_rival_server(step.rival, place) as where,
        open_environment({**step.config, **where}, place, aws_server) as theirs,
    ):
        return step.measure(theirs, RivalAdapter(theirs, step.rival))


def progress_line(
    step: Step, number: int, outcome: Outcome, error: str, seconds: float
) -> str:
    """Return the progress line of a run."""
    shown = {
        name: outcome.values[name]
        for name in PROGRESS_FIGURES
        if name in outcome.values
    }
    said = " ".join(f"{name}={value:.3g}" for name, value in shown.items())
    clock = time.strftime("%H:%M:%S")
    return f"{clock} {step.name} #{number + 1} ({seconds:.0f} s) {error or said}"


PROGRESS_FIGURES = (
    "requests_per_task",
    "worker_cpu_s_per_1000",
    "drain_per_s",
    "makespan_x_ideal",
    "paid_twice",
    "recovery_s",
    "repeated",
    "lost",
    "submit_to_first_call_s",
    "last_settle_to_end_s",
    "cancel_to_quiesced_s",
    "takeover_s",
    "jobs_per_s",
    "worker_rss_mb",
)


def slug(text: str) -> str:
    """Return a text as a name of folders, queues and tables."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
