"""Cancel a large job beside live workers, and submit the next job at once.

The last line has the figures, as JSON. `quiet_s`: from the cancel to the last start or
end of a stage. `cancelled_s`: to the certificate. `next_job_first_chunk_s`: from the
end of the next submit to its first stage. `requests_a_chunk`: all requests to AWS from
the cancel to the end of the next job.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.adapters.product import PieceworkAdapter
from bench.environment import BenchEnvironment, open_environment
from bench.processes import run, wait_until
from bench.waiting import (
    POLL_S,
    SETTLE_TIMEOUT_S,
    run_workers,
    wait_until_settled,
    wait_while_alive,
)

#: Chunks that a worker runs at once, and the seconds of each.
CONCURRENCY = 16
HOLD_S = 3.0
WORKERS = 2
#: Chunks of the job that follows.
NEXT_CHUNKS = 10


def main() -> int:
    """Measure once; return 0."""
    parser = argparse.ArgumentParser(prog="python -m bench.cancel_large")
    parser.add_argument("--chunks", type=int, default=20_000)
    chunks = parser.parse_args().chunks
    config = {
        "workload": "W1",
        "n": chunks,
        "concurrency": CONCURRENCY,
        "visibility_s": 5,
        "sleep_s": HOLD_S,
    }
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "cancel-large"
        place.mkdir()
        with open_environment(config, place, "models") as env:
            figures = measure(env, chunks)
    sys.stdout.write(json.dumps(figures) + "\n")
    return 0


def measure(env: BenchEnvironment, chunks: int) -> dict[str, Any]:
    """Cancel one job in progress, and run the next one."""
    large, small = PieceworkAdapter(env), PieceworkAdapter(env, jobs=["job-2"])
    large.setup()
    submit(large, large.manifest)
    next_manifest = env.folder / "next.jsonl"
    lines = "".join(f'{{"n":{n}}}\n' for n in range(NEXT_CHUNKS))
    next_manifest.write_text(lines, encoding="ascii")
    with run_workers(large, WORKERS) as groups, ThreadPoolExecutor(1) as beside:
        running = 2 * WORKERS * CONCURRENCY
        wait_while_alive(
            lambda: len(env.ledger.poll().starts) >= running,
            groups,
            "The chunks did not start in time.",
        )
        before = env.counts()
        asked = beside.submit(cancel, large)
        wait_until(
            lambda: large.status("job-1") != "RUNNING",
            SETTLE_TIMEOUT_S,
            every_s=POLL_S,
        )
        submitted_at = submit(small, next_manifest)
        first_at = first_start(env, "job-2")
        cancelled_at = wait_until_settled(large)
        wait_until_settled(small)
        requests = env.counts().since(before).requests
        cancel_at = asked.result()
    return {
        "chunks": chunks,
        "quiet_s": round(last_change(env, "job-1") - cancel_at, 2),
        "cancelled_s": round(cancelled_at - cancel_at, 2),
        "next_job_first_chunk_s": round(first_at - submitted_at, 2),
        "requests_a_chunk": round(requests / chunks, 3),
    }


def submit(adapter: PieceworkAdapter, manifest: Path) -> float:
    """Submit a manifest in a process of its own; return when that ended."""
    module = [sys.executable, "-m", "bench.submitting"]
    command = [*module, "held", str(manifest), *adapter.jobs]
    said = run(command, adapter.environment, adapter.env.folder / "submit.log")
    return float(json.loads(said)["ended"])


def cancel(adapter: PieceworkAdapter) -> float:
    """Cancel a job in a process of its own; return when that began."""
    command = [sys.executable, "-m", "bench.cancelling", *adapter.jobs]
    return float(run(command, adapter.environment, adapter.env.folder / "cancel.log"))


def first_start(env: BenchEnvironment, job: str) -> float:
    """Wait for the first stage of a job; return its time."""
    wait_until(
        lambda: any(task.startswith(f"{job}.") for task in env.ledger.poll().starts),
        SETTLE_TIMEOUT_S,
        every_s=POLL_S,
    )
    return min(times(env, job, "START"))


def last_change(env: BenchEnvironment, job: str) -> float:
    """Return the last time at which a stage of a job started or ended."""
    return max(times(env, job, "START", "DONE"))


def times(env: BenchEnvironment, job: str, *words: str) -> list[float]:
    """Return the times in the ledger of a job, in seconds."""
    lines = Path(env.config.ledger).read_text(encoding="ascii").splitlines()
    found = [line.split() for line in lines]
    return [
        int(at) / 1e9
        for word, task, at, *_ in found
        if word in words and task.startswith(f"{job}.")
    ]


if __name__ == "__main__":
    sys.exit(main())
