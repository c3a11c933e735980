"""Piecework: split work into chunks, process each once, and account for all.

These are the public names. The other modules are the engine, the stores and the
processes.
"""

from __future__ import annotations

from importlib import import_module  # noqa: TID251 -- of the table below
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from piecework.client import run
    from piecework.context import ChunkResult, Context, Results
    from piecework.declared import PipelineFunction, pipeline
    from piecework.dependency import (
        DeclaredCall,
        Dependency,
        Fallback,
        FallbackUsed,
        Usage,
    )
    from piecework.domain.effect import Effect
    from piecework.domain.happened import (
        Happened,
        MayHaveHappened,
        NotHappened,
        Occurrence,
    )
    from piecework.domain.identity import named_call
    from piecework.domain.ladder import Escalation, Ladder, Rung
    from piecework.domain.notification import Notification
    from piecework.domain.protocols import MissingChunk
    from piecework.errors import (
        AnswerTimeoutError,
        ErrorEnvelope,
        NotFoundError,
        PermanentError,
        PieceworkError,
        PolicyError,
        SemanticError,
        StateError,
        StoreError,
        TransientError,
        UnreachableError,
        UsageError,
        WaitTimeoutError,
    )
    from piecework.errors.classify import envelope_of
    from piecework.errors.codes import Code, ErrorClass
    from piecework.errors.stop_reasons import raise_for_stop_reason
    from piecework.idempotency.strategies import SequenceNumbers, TimeWindow
    from piecework.pipelines import Document, Pipeline, Stage
    from piecework.questions import Approval, Escalate
    from piecework.resilience.breaker import CircuitBreaker
    from piecework.resilience.limits import Limits
    from piecework.resilience.retry import RetryPolicy, RetryTime

__all__ = [
    "AnswerTimeoutError",
    "Approval",
    "ChunkResult",
    "CircuitBreaker",
    "Code",
    "Context",
    "DeclaredCall",
    "Dependency",
    "Document",
    "Effect",
    "ErrorClass",
    "ErrorEnvelope",
    "Escalate",
    "Escalation",
    "Fallback",
    "FallbackUsed",
    "Happened",
    "Ladder",
    "Limits",
    "MayHaveHappened",
    "MissingChunk",
    "NotFoundError",
    "NotHappened",
    "Notification",
    "Occurrence",
    "PermanentError",
    "PieceworkError",
    "Pipeline",
    "PipelineFunction",
    "PolicyError",
    "Results",
    "RetryPolicy",
    "RetryTime",
    "Rung",
    "SemanticError",
    "SequenceNumbers",
    "Stage",
    "StateError",
    "StoreError",
    "TimeWindow",
    "TransientError",
    "UnreachableError",
    "Usage",
    "UsageError",
    "WaitTimeoutError",
    "envelope_of",
    "named_call",
    "pipeline",
    "raise_for_stop_reason",
    "run",
]

#: The module of each name. A program imports only the modules of the names it uses.
_MODULES = {
    "AnswerTimeoutError": "piecework.errors",
    "Approval": "piecework.questions",
    "ChunkResult": "piecework.context",
    "CircuitBreaker": "piecework.resilience.breaker",
    "Code": "piecework.errors.codes",
    "Context": "piecework.context",
    "DeclaredCall": "piecework.dependency",
    "Dependency": "piecework.dependency",
    "Document": "piecework.pipelines",
    "Effect": "piecework.domain.effect",
    "ErrorClass": "piecework.errors.codes",
    "ErrorEnvelope": "piecework.errors",
    "Escalate": "piecework.questions",
    "Fallback": "piecework.dependency",
    "FallbackUsed": "piecework.dependency",
    "Escalation": "piecework.domain.ladder",
    "Happened": "piecework.domain.happened",
    "Ladder": "piecework.domain.ladder",
    "Limits": "piecework.resilience.limits",
    "MayHaveHappened": "piecework.domain.happened",
    "MissingChunk": "piecework.domain.protocols",
    "NotFoundError": "piecework.errors",
    "NotHappened": "piecework.domain.happened",
    "Notification": "piecework.domain.notification",
    "Occurrence": "piecework.domain.happened",
    "PermanentError": "piecework.errors",
    "PieceworkError": "piecework.errors",
    "Pipeline": "piecework.pipelines",
    "PipelineFunction": "piecework.declared",
    "PolicyError": "piecework.errors",
    "Results": "piecework.context",
    "RetryTime": "piecework.resilience.retry",
    "RetryPolicy": "piecework.resilience.retry",
    "Rung": "piecework.domain.ladder",
    "SemanticError": "piecework.errors",
    "SequenceNumbers": "piecework.idempotency.strategies",
    "Stage": "piecework.pipelines",
    "StateError": "piecework.errors",
    "StoreError": "piecework.errors",
    "TimeWindow": "piecework.idempotency.strategies",
    "TransientError": "piecework.errors",
    "UnreachableError": "piecework.errors",
    "Usage": "piecework.dependency",
    "UsageError": "piecework.errors",
    "WaitTimeoutError": "piecework.errors",
    "envelope_of": "piecework.errors.classify",
    "named_call": "piecework.domain.identity",
    "pipeline": "piecework.declared",
    "raise_for_stop_reason": "piecework.errors.stop_reasons",
    "run": "piecework.client",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is used."""
    try:
        module = _MODULES[name]
    except KeyError:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message) from None
    found: object = getattr(import_module(module), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Return the public names, for completion."""
    return sorted({*globals(), *__all__})
