"""Piecework: split work into chunks, process each once, and account for all.

These are the public names. The other modules are the engine, the stores and the
processes.
"""

from __future__ import annotations

from piecework.breaker import CircuitBreaker
from piecework.classify import envelope_of, raise_for_stop_reason
from piecework.context import ChunkResult, Context, JoinContext
from piecework.dependency import Dependency, Effect, Fallback
from piecework.errors import (
    ErrorEnvelope,
    PermanentError,
    PieceworkError,
    PolicyError,
    SemanticError,
    StateError,
    TransientError,
)
from piecework.falling_back import FallbackUsed
from piecework.guarded import circuit_breaker
from piecework.idempotency import (
    ByKey,
    MemoryIdempotency,
    SequenceNumbers,
    TimeWindow,
    idempotent,
)
from piecework.notice import Notification
from piecework.pipeline import Document, Pipeline, Stage
from piecework.ports import MissingChunk
from piecework.retry import RetryBudget, RetryPolicy
from piecework.retrying import retry
from piecework.usage import Usage

__all__ = [
    "ByKey",
    "ChunkResult",
    "CircuitBreaker",
    "Context",
    "Dependency",
    "Document",
    "Effect",
    "ErrorEnvelope",
    "Fallback",
    "FallbackUsed",
    "JoinContext",
    "MemoryIdempotency",
    "MissingChunk",
    "Notification",
    "PermanentError",
    "PieceworkError",
    "Pipeline",
    "PolicyError",
    "RetryBudget",
    "RetryPolicy",
    "SemanticError",
    "SequenceNumbers",
    "Stage",
    "StateError",
    "TimeWindow",
    "TransientError",
    "Usage",
    "circuit_breaker",
    "envelope_of",
    "idempotent",
    "raise_for_stop_reason",
    "retry",
]
