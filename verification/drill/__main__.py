"""Stop a job in each way, explain it, and say whether the first finding is right.

make drill                    all exercises, and the figures; deletes a job, too
make drill ARGS="busy"        the exercises whose name begins so
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from piecework import telemetry
from piecework.explain.findings import FINDINGS, Rank
from piecework_orchestrator.reading.job_documents import Document
from verification.drill.deletion import deleted_traces
from verification.drill.exercises import EXERCISES, Exercise
from verification.drill.fleet import Fleet, exercise
from verification.drill.large import large
from verification.drill.workloads import WORKLOADS, estimated

#: The limits of an explanation of 100,000 chunks.
MAX_REQUESTS, MAX_S = 20, 2.0
#: The largest error of P50, as a part of the rest.
MAX_ERROR = 0.15


def wrong(each: Exercise) -> str:
    """Return what is wrong with the findings of an exercise; empty: nothing."""

    async def act(fleet: Fleet) -> list[Document]:
        await each.act(fleet)
        return await fleet.explain()

    found = exercise(act)
    codes = [finding["code"] for finding in found]
    if codes[0] != each.first:
        return f"first {codes[0]}, not {each.first}; all: {', '.join(codes)}"
    causes = [f["chunks"] for f in found if FINDINGS[f["code"]].rank <= Rank.PASSES]
    if 0 in causes and len(causes) > 1:
        return f"a worker is about to act, beside another cause: {', '.join(codes)}"
    missing = each.also and each.also not in codes
    return f"without {each.also}; all: {', '.join(codes)}" if missing else ""


def main(prefixes: Sequence[str]) -> int:
    """Run the exercises; return the exit code."""
    telemetry.configure("critical")
    chosen = [
        e for e in EXERCISES if not prefixes or e.name.startswith(tuple(prefixes))
    ]
    failed = 0
    for each in chosen:
        problem = wrong(each)
        failed += bool(problem)
        sys.stdout.write(f"{each.name}: {problem or each.first}\n")
    sys.stdout.write(f"findings_wrong={failed} of {len(chosen)}\n")
    if not prefixes:
        measured = large()
        sys.stdout.write(f"explain_requests={measured.requests}\n")
        sys.stdout.write(f"explain_s={measured.seconds:.3f}\n")
        failed += measured.requests > MAX_REQUESTS or measured.seconds > MAX_S
        failed += estimates_wrong()
        found = deleted_traces()
        sys.stdout.write(
            f"payload_traces={found.before} deleted_payload_traces={found.after}\n"
        )
        failed += not found.before or found.after > 0
    return int(failed > 0)


def estimates_wrong() -> bool:
    """Print the finish times of the workloads at half of their chunks."""
    close = in_time = 0
    for workload in WORKLOADS:
        found = estimated(workload)
        close += found.error <= MAX_ERROR
        in_time += found.truth_s <= found.p90_s
        sys.stdout.write(
            f"{workload.name}: P50 {found.p50_s:.0f} s, P90 {found.p90_s:.0f} s,"
            f" true {found.truth_s:.0f} s\n"
        )
    sys.stdout.write(f"finish_p50_within_15_percent={close} of {len(WORKLOADS)}\n")
    sys.stdout.write(f"finish_by_p90={in_time} of {len(WORKLOADS)}\n")
    return close < len(WORKLOADS) - 1 or in_time < len(WORKLOADS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
