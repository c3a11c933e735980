"""Piecework: split work into chunks, process each once, and account for all.

These are the public names. The other modules are the engine, the stores and the
processes.
"""

from __future__ import annotations

from piecework.calls.fallback import FallbackUsed
from piecework.context import ChunkResult, Context, JoinContext
from piecework.declared import PipelineFunction, Results, pipeline
from piecework.dependency import DeclaredCall, Dependency, Fallback, Usage
from piecework.domain.identity import named_call
from piecework.domain.model import Effect
from piecework.domain.notification import Notification
from piecework.domain.protocols import MissingChunk
from piecework.errors import (
    ErrorEnvelope,
    NotFoundError,
    PermanentError,
    PieceworkError,
    PolicyError,
    SemanticError,
    StateError,
    TransientError,
    UnreachableError,
    UsageError,
    WaitTimeoutError,
)
from piecework.errors.classify import envelope_of
from piecework.errors.classify_llm import raise_for_stop_reason
from piecework.pipelines import Document, Pipeline, Stage
from piecework.resilience.breaker import CircuitBreaker
from piecework.resilience.retry import RetryBudget, RetryPolicy

__all__ = [
    "ChunkResult",
    "CircuitBreaker",
    "Context",
    "DeclaredCall",
    "Dependency",
    "Document",
    "Effect",
    "ErrorEnvelope",
    "Fallback",
    "FallbackUsed",
    "JoinContext",
    "MissingChunk",
    "NotFoundError",
    "Notification",
    "PermanentError",
    "PieceworkError",
    "Pipeline",
    "PipelineFunction",
    "PolicyError",
    "Results",
    "RetryBudget",
    "RetryPolicy",
    "SemanticError",
    "Stage",
    "StateError",
    "TransientError",
    "UnreachableError",
    "Usage",
    "UsageError",
    "WaitTimeoutError",
    "envelope_of",
    "named_call",
    "pipeline",
    "raise_for_stop_reason",
]
