"""Define the faults of both designs, and the one parameter that sets their rate.

The kinds have the proportions of a bad week of a real deployment. Throttling and
slowness are common, a lost reply is occasional, a lost message is rare.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

#: A multiple of the usual rates. With it, source 004's design leaves about 12 % of its
#: jobs incomplete, the rate that the source reports.
INTENSITY = 1.07
#: The source's "5 % of LLM calls fail"; the intensity does not change it.
CALLS = {"call.transient": 0.05}
#: The normal behaviour of a standard queue, which is not a fault.
USUAL = {"sqs.reorder": 0.3, "sqs.empty": 0.1, "dynamodb.stale": 0.5}
#: Chances at intensity 1, each time that it could happen.
RATES = {
    "request.throttled": 0.02,
    "request.server_error": 0.005,
    "request.unreachable": 0.005,
    "request.slow": 0.02,
    "request.reply_lost": 0.003,
    "request.late": 0.002,
    "sqs.duplicate": 0.01,
    "sqs.undelete": 0.005,
    "sqs.delay": 0.05,
    "sqs.partial": 0.01,
    "sqs.lost": 0.0005,
    "call.hidden": 0.01,
    "call.cut": 0.01,
    "call.slow": 0.005,
}
#: Seconds between two faults of a worker, at intensity 1.
BETWEEN_BLOWS_S = 20.0
FREEZES = 0.4
#: Longer than both designs' leases, now and then.
MAX_FREEZE_S = 400.0
#: The chance that a submitter is killed, and the seconds within which it is.
SUBMITTER_DIES = 0.02
SUBMITTER_S = 1.0


@dataclass(frozen=True, slots=True)
class WorkerFault:
    """A fault of a worker.

    Attributes:
        wait: Seconds since the previous fault.
        slot: The worker.
        freeze: Seconds that it is frozen; 0: it is killed.
    """

    wait: float
    slot: int
    freeze: float


def rates(intensity: float) -> dict[str, float]:
    """Return the rates of all kinds that are drawn when they could happen."""
    scaled = {kind: min(1.0, rate * intensity) for kind, rate in RATES.items()}
    return {**CALLS, **USUAL, **scaled}


def draw_worker_faults(
    seed: int, intensity: float, slots: int
) -> Iterator[WorkerFault]:
    """Draw the worker faults of a job, for either design."""
    rng = Random(f"blows {seed}")
    while intensity:
        wait = rng.expovariate(intensity / BETWEEN_BLOWS_S)
        slot, frozen = rng.randrange(slots), rng.random() < FREEZES
        yield WorkerFault(
            wait, slot, rng.random() ** 3 * MAX_FREEZE_S if frozen else 0.0
        )


def end_of_submitter(seed: int, intensity: float) -> float | None:
    """Draw after how many seconds the submitter is killed, if it is."""
    rng = Random(f"submitter {seed}")
    dies = rng.random() < SUBMITTER_DIES * intensity
    return rng.random() * SUBMITTER_S if dies else None
