"""A call that a stage requests, and the attempts at it so far."""

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
from piecework.quoted import redact_payload
from piecework.retry import RetryPolicy


@dataclass(frozen=True, slots=True)
class Call:
    """A call that a stage requests.

    Attributes:
        key: The key under which the call's value is stored.
        bound: The function with its arguments, without `idempotency_key`.
    """

    key: str
    scope: CallScope
    dependency: Dependency
    bound: functools.partial[Awaitable[Any]]

    @property
    def policy(self) -> RetryPolicy:
        """The retry policy; a non-idempotent call has one attempt.

        A failed attempt may have been executed, and a second could execute it twice.
        """
        policy = self.dependency.retry
        once = self.dependency.effect is Effect.NON_IDEMPOTENT
        return replace(policy, attempts=1) if once else policy

    def classify(
        self, error: BaseException, now: float, attempt: int = 0
    ) -> ErrorEnvelope:
        """Return the envelope of an error that the function raised.

        The call's arguments are redacted from the message.
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
        return redact_payload(failure, self.bound.args, self.bound.keywords)

    def encode(self, value: Any) -> str:
        """Return the value as JSON, as it is stored."""
        return values.encode(self.bound.func, value)


@dataclass(slots=True)
class CallAttempts:
    """The attempts at a call so far. Each emits one event when it ends.

    Attributes:
        key_hash: Hash of the key that the provider sees.
        began_at: Loop time of the attempt that has not ended yet.
        budget_exhausted: Whether the fleet's budget refused a retry.
    """

    call: Call
    key_hash: str
    made: int = 0
    began_at: float | None = None
    budget_exhausted: bool = False

    def begin(self, now: float) -> None:
        """Count an attempt."""
        self.made += 1
        self.began_at = now

    def end(
        self,
        log: telemetry.Log,
        now: float,
        outcome: Literal["answered", "failed", "cut off"],
        failure: ErrorEnvelope | None = None,
        delay: float = 0.0,
    ) -> None:
        """Emit the event of the attempt that has ended, if one had begun.

        `delay`: seconds until the next attempt.
        """
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
