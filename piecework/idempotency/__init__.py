"""Do the same operation once, around any async function, inside a pipeline or not.

wrapper     `idempotent`, which wraps a function
guard       ask the store, make the call, write what came of it
strategies  what makes two calls the same operation: keys, numbers, a window of time
operation   a call as its strategy sees it
record      what is remembered of it, and what that says to who asks again
refusals    what a caller is told instead of an answer
store       what a place for the records has to do
memory      such a place in this process; `piecework.store.idempotency` is a table
"""

from __future__ import annotations

from piecework.idempotency.memory import MemoryIdempotency
from piecework.idempotency.store import IdempotencyStore
from piecework.idempotency.strategies import ByKey, SequenceNumbers, TimeWindow
from piecework.idempotency.wrapper import Idempotent, idempotent

__all__ = [
    "ByKey",
    "IdempotencyStore",
    "Idempotent",
    "MemoryIdempotency",
    "SequenceNumbers",
    "TimeWindow",
    "idempotent",
]
