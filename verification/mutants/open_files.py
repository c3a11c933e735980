"""Name the files in which some mutants survive, or were not tried.

`make mutants` leaves them out, and `--all` does not: the lists only get shorter. A file
leaves a list when each of its mutants is caught, or is equivalent.
"""

from __future__ import annotations

from collections.abc import Iterator

from verification.mutants.mutant import Mutant

#: Files whose guards are open.
GUARDS = [
    "orchestrator/piecework_orchestrator/operate/retry.py",
    "piecework/aws/queue.py",
    "piecework/reconciler/chunks.py",
    "piecework/reconciler/dead_letter_queue.py",
    "piecework/reconciler/jobs.py",
    "piecework/reconciler/liveness.py",
    "piecework/reconciler/loop.py",
    "workers/piecework_worker/notifier.py",
]
#: Files whose order, await and last mutants are open.
SEQUENCES = [
    "orchestrator/piecework_orchestrator/dead_letters/redrive.py",
    "piecework/aws/transport/answer.py",
    "piecework/calls/fleet_budgets.py",
    "piecework/calls/shared_budget.py",
    "piecework/calls/usage.py",
    "piecework/idempotency/stores.py",
    "orchestrator/piecework_orchestrator/operate/answering.py",
    "piecework/jobs/budgeting.py",
    "piecework/jobs/fan_in.py",
    "piecework/jobs/pausing.py",
    "piecework/jobs/sampling.py",
    "piecework/jobs/tolerance.py",
    "piecework/reconciler/chunks.py",
    "piecework/reconciler/dead_letter_queue.py",
    "piecework/reconciler/expiry.py",
    "piecework/reconciler/jobs.py",
    "piecework/reconciler/loop.py",
    "piecework/reconciler/pass_state.py",
    "piecework/reconciler/waits.py",
    "piecework/reconciler/watches.py",
    "piecework/resilience/budget.py",
    "piecework/resilience/shares.py",
    "workers/piecework_worker/acks.py",
    "workers/piecework_worker/budget_pause.py",
    "workers/piecework_worker/job_notes.py",
    "workers/piecework_worker/load_state.py",
    "workers/piecework_worker/cancelled_jobs.py",
    "workers/piecework_worker/draws.py",
    "workers/piecework_worker/early_outcomes.py",
    "workers/piecework_worker/lease.py",
    "workers/piecework_worker/loop_watchdog.py",
    "workers/piecework_worker/next_chunks.py",
    "workers/piecework_worker/notifier.py",
    "workers/piecework_worker/polls.py",
    "workers/piecework_worker/receiver.py",
    "workers/piecework_worker/settle.py",
    "workers/piecework_worker/turns.py",
    "workers/piecework_worker/worker.py",
]


def kind_of_list(mutant: Mutant) -> str:
    """Return which list would name the file of a mutant."""
    return "guards" if mutant.kind == "guard" else "sequences"


def open_lists() -> Iterator[tuple[str, str]]:
    """Yield the list and the path of each open file."""
    yield from (("guards", path) for path in GUARDS)
    yield from (("sequences", path) for path in SEQUENCES)


def is_open(mutant: Mutant) -> bool:
    """Return whether only `--all` tries a mutant."""
    return (kind_of_list(mutant), mutant.path) in set(open_lists())
