"""A call that a stage asks for, and the attempts at it so far."""

from __future__ import annotations

import functools
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from typing import Any, Literal

from piecework import telemetry, values
from piecework.call_names import CallScope
from piecework.classify import classify
from piecework.dependency import Dependency, Effect
from piecework.errors import ErrorEnvelope
from piecework.model import iso
from piecework.quoted import without
from piecework.retry import RetryPolicy


@dataclass(frozen=True, slots=True)
class Call:
    """A call that a stage asks for.

    Attributes:
        key: Under which its value is remembered.
        bound: The function with its arguments; `idempotency_key` is still to come.
    """

    key: str
    scope: CallScope
    dependency: Dependency
    bound: functools.partial[Awaitable[Any]]

    @property
    def policy(self) -> RetryPolicy:
        """How it is tried again: not at all, if nobody could tell what it did."""
        policy = self.dependency.retry
        once = self.dependency.effect is Effect.NON_IDEMPOTENT
        return replace(policy, attempts=1) if once else policy

    def judge(
        self, error: BaseException, now: float, attempt: int = 0
    ) -> ErrorEnvelope:
        """Return the envelope of an error that its function raised.

        It quotes nothing of what was asked.
        """
        failure = classify(
            error,
            stage=self.scope.stage,
            attempt=attempt,
            at=iso(now),
            correlation_id=f"{self.scope.job}/{self.scope.chunk}",
            layer=self.dependency.layer,
            now=now,
            translate=self.dependency.classify,
        )
        return without(failure, self.bound.args, self.bound.keywords)

    def encode(self, value: Any) -> str:
        """Return its value as it is remembered."""
        return values.encode(self.bound.func, value)


@dataclass(slots=True)
class Tries:
    """The attempts at a call so far; each is told of once, when it has ended.

    Attributes:
        key_hash: Of the key that the provider sees.
        began_at: Loop time of one that has not been told of yet.
        spent: Whether the fleet's budget had no further one left.
    """

    call: Call
    key_hash: str
    made: int = 0
    began_at: float | None = None
    spent: bool = False

    def begin(self, now: float) -> None:
        """Count an attempt that begins."""
        self.made += 1
        self.began_at = now

    def ended(
        self,
        log: telemetry.Log,
        now: float,
        outcome: Literal["answered", "failed", "cut off"],
        failure: ErrorEnvelope | None = None,
        delay: float = 0.0,
    ) -> None:
        """Tell of the attempt that has ended, if one has; then comes the delay."""
        if self.began_at is None:
            return
        duration, self.began_at = now - self.began_at, None
        telemetry.emit(
            log,
            "call.attempt",
            level="debug" if outcome == "answered" else None,
            dependency=self.call.dependency.name,
            outcome=outcome,
            error_code=failure.code if failure else None,
            attempt_number=self.made,
            delay_ms=round(delay * 1000),
            idempotency_key_hash=self.key_hash,
            duration_ms=round(duration * 1000),
        )
