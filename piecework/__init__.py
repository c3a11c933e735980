"""Piecework: work cut into pieces, each done once and accounted for.

The public names. Everything else is the engine, the stores and the processes.
"""

from __future__ import annotations

from piecework.context import ChunkResult, Context, JoinContext
from piecework.dependency import Dependency, Effect
from piecework.errors import (
    ErrorEnvelope,
    PermanentError,
    PieceworkError,
    PolicyError,
    SemanticError,
    StateError,
    TransientError,
)
from piecework.notice import Notice
from piecework.pipeline import Document, Pipeline, Stage
from piecework.ports import Missing
from piecework.retry import RetryPolicy

__all__ = [
    "ChunkResult",
    "Context",
    "Dependency",
    "Document",
    "Effect",
    "ErrorEnvelope",
    "JoinContext",
    "Missing",
    "Notice",
    "PermanentError",
    "PieceworkError",
    "Pipeline",
    "PolicyError",
    "RetryPolicy",
    "SemanticError",
    "Stage",
    "StateError",
    "TransientError",
]
