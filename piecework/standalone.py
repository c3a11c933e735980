"""Recovery for functions outside a pipeline: no worker, no queue, no job.

    idempotent        run an operation once for each key; repeat its answer afterwards
    retry             try again with backoff and full jitter, within a budget
    circuit_breaker   stop calling a dependency that is down

The strategies of `idempotent` are `ByKey`, `SequenceNumbers` and `TimeWindow`;
`MemoryIdempotency` keeps its records in this process.
"""

from __future__ import annotations

from piecework.idempotency.decorator import idempotent
from piecework.idempotency.stores import MemoryIdempotency
from piecework.idempotency.strategies import ByKey, SequenceNumbers, TimeWindow
from piecework.resilience.decorators import circuit_breaker, retry

__all__ = [
    "ByKey",
    "MemoryIdempotency",
    "SequenceNumbers",
    "TimeWindow",
    "circuit_breaker",
    "idempotent",
    "retry",
]
