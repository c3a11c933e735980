"""W5: how long one waits for a beginning, an end, a cancel, a takeover."""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import replace

from bench.ours import Piecework
from bench.processes import run
from bench.stand import Stand
from bench.waiting import begun, finished, ready, settled, wait, working
from bench.workloads import WARM_S, Outcome

SOON_S = 0.005
#: Seconds after which a second worker waits for work, too.
LOADED_S = 4.0


def begin_and_end(stand: Stand, ours: Piecework, samples: int) -> Outcome:
    """Submit small jobs, one after the other, to a worker that waits for work."""
    ours.setup()
    first, last = [], []
    with working(ours) as groups:
        ready(ours, groups)
        time.sleep(WARM_S)
        for number in range(samples):
            job = replace(ours, jobs=[f"job-{number}"])
            told = job.enqueue()
            finished(stand, groups, number + 1)
            ended = settled(job, every_s=SOON_S)
            facts = stand.ledger.look()
            began = told["ended"] - told["seconds"]
            first.append(facts.started_at[-1] / 1e9 - began)
            last.append(ended - facts.last_done / 1e9)
    return Outcome(
        {
            "submit_to_first_call_s": statistics.median(first),
            "last_settle_to_end_s": statistics.median(last),
        }
    )


def cancelled(stand: Stand, ours: Piecework) -> Outcome:
    """Cancel a job whose chunks are all in hand, and would be for long."""
    ours.setup()
    ours.enqueue()
    n = len(stand.config.tasks)
    with working(ours) as groups:
        wait(lambda: len(stand.ledger.look().starts) >= n, groups, "not all begun")
        module = [sys.executable, "-m", "bench.cancelling", *ours.jobs]
        asked = float(run(module, ours.environment, stand.folder / "cancel.log"))
        quiet = settled(ours, every_s=SOON_S)
    done = len(stand.ledger.look().dones)
    return Outcome({"cancel_to_quiet_s": quiet - asked, "done_meanwhile": done})


def taken_over(stand: Stand, ours: Piecework) -> Outcome:
    """Kill a worker that has a chunk in hand, while another one waits for work."""
    ours.setup()
    facts = stand.ledger.look
    with working(ours) as dying:
        ours.enqueue()
        begun(stand, dying)
        with working(ours) as groups:
            time.sleep(LOADED_S)
            dying[0].kill()
            at = time.monotonic()
            wait(lambda: facts().started_again, groups, "nobody took over")
    again = facts().started_at[-1] / 1e9 - at
    return Outcome({"takeover_s": again, "lease_s": stand.config.visibility_s})
