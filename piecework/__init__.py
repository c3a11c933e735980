"""Piecework: work cut into pieces, each done once and accounted for.

The public names. Everything else is the engine, the stores and the processes.
"""

from __future__ import annotations

from piecework.breaker import Breaker
from piecework.classify import envelope_of, raise_for_stop
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
from piecework.falling_back import FellBack
from piecework.guarded import guarded
from piecework.idempotency import (
    Keys,
    MemoryIdempotency,
    SequenceNumbers,
    TimeWindow,
    idempotent,
)
from piecework.notice import Notice
from piecework.pipeline import Document, Pipeline, Stage
from piecework.ports import Missing
from piecework.retry import RetryBudget, RetryPolicy
from piecework.retrying import retrying
from piecework.usage import Usage

__all__ = [
    "Breaker",
    "ChunkResult",
    "Context",
    "Dependency",
    "Document",
    "Effect",
    "ErrorEnvelope",
    "Fallback",
    "FellBack",
    "JoinContext",
    "Keys",
    "MemoryIdempotency",
    "Missing",
    "Notice",
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
    "envelope_of",
    "guarded",
    "idempotent",
    "raise_for_stop",
    "retrying",
]
