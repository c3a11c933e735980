"""Print each figure of the flow as `name=value`; end with 1 if one exceeds its limit.

    make flow                     all figures
    make flow ARGS="poison"       those whose name begins so

A figure is a function that returns a number; its row has the largest number allowed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from piecework import telemetry
from verification.flow import (
    budgets,
    forecasting,
    limits,
    order,
    processes,
    queues,
    slots,
)
from verification.flow.fairness import (
    largest_by_smallest_share,
    low_not_started_percent,
    small_beside_large,
)
from verification.flow.poison import (
    few_last_dead_letter_s,
    five_last_dead_letter_s,
    harmed_innocents,
    others_delay_s,
    poison_dead_letter_s,
    poisoned_innocents,
)


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured number, and the largest one that is allowed."""

    name: str
    measure: Callable[[], float]
    limit: float


FIGURES: Final = (
    Figure("poison_dead_letter_s", poison_dead_letter_s, 300.0),
    Figure("poisoned_innocents", poisoned_innocents, 0),
    Figure("poison_few_last_dead_letter_s", few_last_dead_letter_s, 300.0),
    Figure("poison_five_last_dead_letter_s", five_last_dead_letter_s, 300.0),
    Figure("poison_harmed_innocents", harmed_innocents, 0),
    Figure("poison_delays_other_job_s", others_delay_s, 1.0),
    Figure("fair_small_beside_large", small_beside_large, 2),
    Figure("fair_low_not_started_percent", low_not_started_percent, 95),
    Figure("fair_largest_by_smallest", largest_by_smallest_share, 1.2),
    Figure("order_makespan_by_ideal", order.makespan_by_ideal, 1.2),
    Figure("order_low_makespan_by_ideal", order.low_makespan_by_ideal, 1.25),
    Figure("order_small_beside_ordered", order.small_beside_ordered, 2),
    # The chunks take 100 ms; the requests 2 ms, and then 5 ms, as in the same region.
    Figure("slots_unused_percent", slots.near_percent, 5),
    Figure("slots_unused_in_region_percent", slots.region_percent, 8),
    # The mean error of eight samples of 20 chunks, and the largest one.
    Figure("forecast_equal_cost_percent", forecasting.equal_cost_percent, 15),
    Figure("forecast_skewed_cost_percent", forecasting.skewed_cost_percent, 15),
    Figure("forecast_failing_cost_percent", forecasting.failing_cost_percent, 15),
    Figure("forecast_largest_cost_percent", forecasting.largest_cost_percent, 25),
    Figure("forecast_time_percent", forecasting.time_percent, 25),
    # In virtual time, with the true attempts, budgets and limits.
    Figure("budget_calls_beyond_cap", budgets.calls_beyond_cap, 0),
    Figure("budget_killed_beyond_cap", budgets.killed_calls_beyond_cap, 0),
    Figure("budget_low_estimates_by_flight", budgets.low_estimates_by_in_flight, 1),
    Figure("budget_unspent_percent", budgets.unspent_percent, 1),
    Figure("budget_killed_unspent_percent", budgets.killed_unspent_percent, 5),
    Figure("budget_writes_a_second", budgets.writes_a_second_and_worker, 1.3),
    Figure("limits_calls_in_a_minute", limits.calls_in_a_minute, 600),
    Figure("limits_requests_unused_percent", limits.requests_unused_percent, 5),
    Figure("limits_tokens_unused_percent", limits.tokens_unused_percent, 5),
    Figure("limits_refused_percent", limits.refusals_declared_percent, 0.1),
    Figure("limits_settle_s", limits.settle_declared_s, 30),
    Figure("limits_example_by_ideal", limits.example_by_ideal, 1.15),
    Figure("limits_writes_a_second", limits.writes_a_second_and_worker, 1.3),
    Figure("limits_requests_without", limits.requests_without_limits, 0),
    Figure("adaptive_unused_percent", limits.adaptive_unused_percent, 15),
    Figure("adaptive_refused_percent", limits.refusals_adaptive_percent, 2),
    Figure("adaptive_settle_s", limits.settle_adaptive_s, 30),
    # From true worker processes, in about four minutes.
    Figure("processes_calls_in_a_minute", processes.calls_in_a_minute, 600),
    Figure("processes_unused_percent", processes.requests_unused_percent, 5),
    Figure("processes_refused_percent", processes.refused_percent, 0.1),
    Figure("processes_settle_s", processes.settle_s, 30),
    Figure("processes_example_by_ideal", processes.example_by_ideal, 1.15),
    # The workers beside two processes that only compute, and without these.
    Figure(
        "second_busy_refused_percent",
        partial(processes.second_refused_percent, busy=True),
        0.5,
    ),
    Figure(
        "second_busy_unused_percent",
        partial(processes.second_unused_percent, busy=True),
        5,
    ),
    Figure(
        "second_refused_percent",
        partial(processes.second_refused_percent, busy=False),
        0.5,
    ),
    Figure(
        "second_unused_percent",
        partial(processes.second_unused_percent, busy=False),
        5,
    ),
    # From two fleets of worker processes, with a pipeline and a queue each.
    Figure("unknown_received", queues.unknown_received, 0),
)


def main(prefixes: Sequence[str]) -> int:
    """Measure and print; return the exit code."""
    telemetry.configure("error")
    exceeded = []
    for figure in FIGURES:
        if prefixes and not figure.name.startswith(tuple(prefixes)):
            continue
        value = figure.measure()
        sys.stdout.write(f"{figure.name}={value:g}\n")
        if value > figure.limit:
            exceeded.append(f"{figure.name}: the limit is {figure.limit:g}")
    for line in exceeded:
        sys.stderr.write(f"{line}\n")
    return int(bool(exceeded))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
