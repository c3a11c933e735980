"""W5: how long one waits for a beginning, an end, a cancel, a takeover."""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import replace
from random import Random

from bench.adapters.product import PieceworkAdapter
from bench.environment import BenchEnvironment
from bench.processes import run
from bench.waiting import (
    run_workers,
    wait_until_begun,
    wait_until_done,
    wait_until_ready,
    wait_until_settled,
    wait_while_alive,
)
from bench.workloads import WARMUP_S, Outcome
from piecework_orchestrator.cost.prices import load_prices

FAST_POLL_S = 0.005
#: Seconds from its start after which a second worker waits for work, too.
WORKER_START_S = 4.0


def measure_begin_and_end(
    env: BenchEnvironment, adapter: PieceworkAdapter, samples: int
) -> Outcome:
    """Submit small jobs, one after the other, to a worker that waits for work."""
    adapter.setup()
    first, last = [], []
    with run_workers(adapter) as groups:
        wait_until_ready(adapter, groups)
        time.sleep(WARMUP_S)
        for number in range(samples):
            job = replace(adapter, jobs=[f"job-{number}"])
            submit_figures = job.enqueue()
            wait_until_done(env, groups, number + 1)
            ended = wait_until_settled(job, every_s=FAST_POLL_S)
            facts = env.ledger.poll()
            began = submit_figures["ended"] - submit_figures["seconds"]
            first.append(facts.started_at[-1] / 1e9 - began)
            last.append(ended - facts.last_done / 1e9)
    return Outcome(
        {
            "submit_to_first_call_s": statistics.median(first),
            "last_settle_to_end_s": statistics.median(last),
        }
    )


def measure_cancel(env: BenchEnvironment, adapter: PieceworkAdapter) -> Outcome:
    """Cancel a job whose chunks are all in progress in long calls."""
    adapter.setup()
    adapter.enqueue()
    n = len(env.config.tasks)
    with run_workers(adapter) as groups:
        wait_while_alive(
            lambda: len(env.ledger.poll().starts) >= n,
            groups,
            "Some chunks did not start in time.",
        )
        module = [sys.executable, "-m", "bench.cancelling", *adapter.jobs]
        requested_at = float(
            run(module, adapter.environment, env.folder / "cancel.log")
        )
        settled_at = wait_until_settled(adapter, every_s=FAST_POLL_S)
    done = len(env.ledger.poll().dones)
    return Outcome(
        {"cancel_to_quiesced_s": settled_at - requested_at, "done_meanwhile": done}
    )


def measure_takeover(env: BenchEnvironment, adapter: PieceworkAdapter) -> Outcome:
    """Kill a worker with a chunk in progress, while another one is idle.

    It renews its lease every third of it; the kill falls at a random moment between two
    renewals.
    """
    adapter.setup()
    phase_s = Random(env.folder.name).uniform(0.0, env.config.visibility_s / 3)
    facts = env.ledger.poll
    with run_workers(adapter) as dying:
        adapter.enqueue()
        wait_until_begun(env, dying)
        with run_workers(adapter) as groups:
            wait_while_alive(
                lambda: adapter.started() > 1, groups, "No second worker started."
            )
            time.sleep(WORKER_START_S + phase_s)
            dying[0].kill()
            at = time.monotonic()
            wait_while_alive(
                lambda: facts().started_again,
                groups,
                "No worker took the chunk over in time.",
            )
    again = facts().started_at[-1] / 1e9 - at
    return Outcome({"takeover_s": again, "lease_s": env.config.visibility_s})


def measure_long_chunks(env: BenchEnvironment, adapter: PieceworkAdapter) -> Outcome:
    """Drain chunks that take long with two workers; count what that costs of AWS.

    The submit is left out. What is left are renewals, and the reads of reconcilers.
    """
    adapter.setup()
    adapter.enqueue()
    n, before = len(env.config.tasks), env.counts()
    with run_workers(adapter, 2) as groups:
        wait_until_begun(env, groups)
        wait_until_settled(adapter)
        used = env.counts().since(before)
    return Outcome(
        {
            "long_chunks_usd_per_million": used.usd(load_prices()) / n * 1e6,
            "long_chunks_read_units": used.units(reads=True) / n,
        },
        used,
    )
