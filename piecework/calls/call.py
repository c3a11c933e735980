"""A call that a stage requests, and the attempts at it so far."""

from __future__ import annotations

import copy
import functools
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from piecework import telemetry
from piecework.dependency import Dependency, Usage
from piecework.domain import keys, values
from piecework.domain.effect import Effect
from piecework.domain.happened import DIGEST_LENGTH
from piecework.domain.identity import function_text
from piecework.domain.moments import iso
from piecework.domain.protocols import Called
from piecework.errors import UsageError
from piecework.errors.classify import classify
from piecework.errors.payload_redaction import redact_payload
from piecework.idempotency.record import OperationRef
from piecework.resilience.lanes import DIRECT, Lane
from piecework.resilience.retry import not_executed, not_sent

if TYPE_CHECKING:
    from piecework.calls.limiter import Limiter
    from piecework.calls.portion import Turn
    from piecework.calls.shared_budget import Reservation
    from piecework.domain.budget import Amount
    from piecework.domain.protocols import Ledger
    from piecework.errors import ErrorEnvelope
    from piecework.resilience.limits import Start

# ── count the calls of a claim ────────────────────────────────────────────────

#: End times that are kept, to count the calls that ended after a cancel.
MAX_END_TIMES = 10_000


@dataclass(slots=True)
class CallCounts:
    """The calls of a claim, and the earlier deferrals and probes of its chunk."""

    made: int = 0
    replayed: int = 0
    #: Answered by the cache that the jobs of a tenant share, or by an equal call.
    cached: int = 0
    retried: int = 0
    #: Attempts that were sent and failed, or were cut off; those of them that were
    #: repeated.
    failed: int = 0
    repeated: int = 0
    #: How often the chunk was deferred because a dependency could not be called.
    deferrals: int = 0
    #: Deferrals among these for an open breaker, and the time of the first in seconds
    #: since 1970; 0: none.
    breaker_deferrals: int = 0
    breaker_since: float = 0.0
    #: Deferrals among these for an exhausted retry budget.
    budget_deferrals: int = 0
    #: Deferrals among these because earlier numbers of a stream were missing.
    early_deferrals: int = 0
    #: The failed probes of open breakers in earlier claims of the chunk. The failure of
    #: the probe in this claim.
    failed_probes: int = 0
    probe_failure: ErrorEnvelope | None = None
    #: Since when each dependency fails for the chunk, as its earlier claims tell, in
    #: seconds since 1970.
    failed_before: dict[str, float] = field(default_factory=dict)
    #: The last failure of each dependency whose retries the fleet ended, not the call.
    unretried: dict[str, ErrorEnvelope] = field(default_factory=dict)
    #: The stage at which no earlier claim has attempted anything.
    untried: str = ""
    #: False while the claim compensates. Only the latest end times of forward calls
    #: are kept.
    forward: bool = True
    end_times: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_END_TIMES))
    #: `repeated` and `failed` at the start of the current stage.
    _at_stage_start: tuple[int, int] = (0, 0)

    @property
    def has_failed_probe(self) -> bool:
        """Whether a probe of the chunk has failed, in this claim or an earlier one."""
        return self.failed_probes > 0 or self.probe_failure is not None

    def failing_since(self, dependency: str) -> float:
        """Return since when a dependency failed before this claim; 0.0: it did not.

        A call that was answered in this claim is progress: the time begins anew.
        """
        return 0.0 if self.made else self.failed_before.get(dependency, 0.0)

    def start_stage(self) -> None:
        """Start to count for a new stage."""
        self._at_stage_start = self.repeated, self.failed

    @property
    def stage_retried(self) -> bool:
        """Whether any call of the current stage was retried after it was sent."""
        return self.repeated > self._at_stage_start[0]

    @property
    def stage_failed(self) -> bool:
        """Whether a call of the current stage was sent, and failed or was cut off."""
        return self.failed > self._at_stage_start[1]

    def count_ended_after(self, moment: float) -> int:
        """Count the forward calls that ended after that moment."""
        return sum(end > moment for end in self.end_times)


# ── key of a call ─────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class CallScope:
    """The chunk and the stage that make a call: a part of the call's key.

    `pipeline` is part of the keys that the jobs of a tenant share.
    """

    tenant: str
    job: str
    chunk: int
    stage: str
    pipeline: str

    @property
    def chunk_name(self) -> str:
        """The chunk as a text that no other chunk of any tenant has."""
        return f"{self.tenant}/{self.job}/{self.chunk}"


def call_key(
    scope: CallScope, dependency: Dependency, function: Callable[..., Any], digest: str
) -> str:
    """Return the key of a call with arguments of that digest: equal for equal calls.

    The key does not contain a time, an attempt or a random number.

    Raises:
        UsageError: `pipeline.call.indistinct`.
    """
    chunk = (scope.tenant, scope.job, scope.chunk, scope.stage)
    return keys.sha256_of(*chunk, dependency.name, function_text(function), digest)


def copy_arguments(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> functools.partial[Any]:
    """Return the function with a deep copy of its arguments.

    Raises:
        UsageError: `pipeline.argument.indistinct`: an argument refuses to be copied.
    """
    try:
        args, kwargs = copy.deepcopy((tuple(args), dict(kwargs)))
    except Exception as error:
        message = f"An argument cannot be copied: {type(error).__name__}."
        raise UsageError(message, code="pipeline.argument.indistinct") from error
    return functools.partial(function, *args, **kwargs)


@dataclass(frozen=True, slots=True)
class Call:
    """A call that a stage requests.

    Attributes:
        key: The key under which the call's value is stored.
        bound: The function with its arguments, without `idempotency_key`, as they were
            when the key was made. It must not be called: a function may change them.
        digest: The digest of the arguments.
        operation: The place of the operation that several chunks share; None: the call
            is this chunk's own.
        after: The answers that the claim had paid for when the stage requested it.
        lane: The lane that its attempts take now; no part of the key.
    """

    key: str
    scope: CallScope
    dependency: Dependency
    bound: functools.partial[Awaitable[Any]]
    digest: str
    operation: OperationRef | None = None
    after: int = 0
    lane: Lane = DIRECT

    @property
    def timeout_s(self) -> float:
        """Seconds that a single attempt may take in its lane."""
        return self.lane.timeout or self.dependency.timeout_s

    def sent_key(self, gen: int) -> str:
        """Return the idempotency key that the provider sees in a generation.

        Equal numbers have the same key, so that a repetition in doubt happens once. A
        call that is made again after its time window is another operation.
        """
        operation, by = self.operation, self.dependency.by
        if operation is None or by is None or by.best_effort:
            return keys.provider_key(self.key, gen)
        return keys.provider_key(operation.name, gen)

    def copied(self) -> functools.partial[Awaitable[Any]]:
        """Return the function with its own copy of the arguments, for one attempt."""
        return copy_arguments(self.bound.func, self.bound.args, self.bound.keywords)

    def may_repeat_after(self, failure: ErrorEnvelope) -> bool:
        """Return whether another attempt cannot execute the call a second time."""
        once = self.dependency.effect is Effect.NON_IDEMPOTENT
        return not once or not_executed(failure)

    def classify(
        self, error: BaseException, now: float, attempt: int, *, ours: bool = False
    ) -> ErrorEnvelope:
        """Return the envelope of an error that the function raised.

        The call's arguments are redacted from the message. `ours`: the error is
        Piecework's own, which the dependency's `classify` does not know. An envelope
        of a dependency that could not be connected to names it.
        """
        failure = classify(
            error,
            stage=self.scope.stage,
            attempt=attempt,
            at=iso(now),
            correlation_id=f"{self.scope.job}/{self.scope.chunk}",
            layer=self.dependency.layer,
            now=now,
            translate=None if ours else self.dependency.classify,
            in_call=not ours,
        )
        if failure.is_not_connected:
            named = {"dependency": self.dependency.name}
            failure = failure.model_copy(update=named)
        return redact_payload(failure, self.bound.args, self.bound.keywords)

    @property
    def lookup(self) -> functools.partial[Awaitable[Any]] | None:
        """The dependency's lookup with the arguments of the call."""
        lookup, bound = self.dependency.lookup, self.bound
        if lookup is None:
            return None
        return copy_arguments(lookup, bound.args, bound.keywords)

    def decode(self, text: str) -> Any:
        """Return a stored value."""
        return values.decode(self.bound.func, text)

    def encode(self, value: Any) -> str:
        """Return the value as JSON, as it is stored."""
        return values.encode(self.bound.func, value)


def told(used: Usage) -> dict[str, object]:
    """Return what the event of an attempt says of the usage of its answer."""
    found: dict[str, object] = {
        "cached_tokens_in": used.cached_tokens_in,
        "cache_write_tokens_in": used.cache_write_tokens_in,
        "response_model": used.response_model,
        "finish_reasons": [used.finish_reason] if used.finish_reason else None,
    }
    known = {name: value for name, value in found.items() if value}
    return {"tokens_in": used.tokens_in, "tokens_out": used.tokens_out, **known}


@dataclass(slots=True)
class CallAttempts:
    """The attempts at a call so far. Each emits one event when it ends.

    Attributes:
        sent_key: The idempotency key that the provider sees.
        began_at: Loop time of the attempt that has not ended yet.
        retry_budget_exhausted: Whether the retry budget refused a retry.
        retried: The failures of the attempts that were retried.
        turn: The part of a second's requests that the last execution uses.
        limiter, estimate: The limits that the last execution kept to, and its tokens.
        start: The start that these limits gave it; None: it needs none.
        reservation: What the last execution has reserved of budgets; None: nothing.
        ledger: Receives the intent before the first execution; None: it needs none.
    """

    call: Call
    sent_key: str
    made: int = 0
    began_at: float | None = None
    retry_budget_exhausted: bool = False
    retried: tuple[ErrorEnvelope, ...] = ()
    turn: Turn | None = None
    limiter: Limiter | None = None
    estimate: int = 0
    start: Start | None = None
    reservation: Reservation | None = None
    ledger: Ledger | None = None

    async def write_intent(self) -> Ledger | None:
        """Write the intent of an effect, and return where; None: it needs none now.

        Raises:
            ClaimLostError: Another claim owns the chunk now.
        """
        call, dependency, ledger = self.call, self.call.dependency, self.ledger
        if ledger is None or ledger.may_have_happened(call.key):
            return None
        stage, longest = call.scope.stage, dependency.timeout_s
        arguments = call.digest[:DIGEST_LENGTH]
        function = function_text(call.bound.func)
        called = Called(function, arguments, dependency.name)
        await ledger.begin(call.key, stage, dependency.effect, longest, called)
        return ledger

    async def note_not_executed(self, failure: ErrorEnvelope) -> None:
        """End the intent of an effect before a delay that its worker may not survive.

        Only of a call that could not be repeated: its intent would leave it in doubt.
        """
        key, ledger = self.call.key, self.ledger
        once = self.call.dependency.effect is Effect.NON_IDEMPOTENT
        if once and ledger is not None and ledger.may_have_happened(key):
            await ledger.mark_refused(key, sent=not not_sent(failure))

    def correct_budgets(self, used: Amount) -> None:
        """Replace what is reserved by what was used."""
        reservation, self.reservation = self.reservation, None
        if reservation is not None:
            reservation.correct(used)

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
        *,
        used: Usage | None = None,
        level: Literal["debug", "info"] | None = None,
    ) -> None:
        """Emit the event of the attempt that has ended, if one had begun.

        `delay`: seconds until the next attempt. `level`: that of the event; None: that
        of the catalogue.
        """
        if self.began_at is None:
            return
        duration, self.began_at = now - self.began_at, None
        dependency = self.call.dependency
        facts: dict[str, object] = {}
        if dependency.model:
            facts = {"provider": dependency.provider, "model": dependency.model}
        if used is not None:
            facts |= told(used)
        telemetry.emit(
            log,
            "call.attempt",
            level=level,
            **facts,
            dependency=dependency.name,
            outcome=outcome,
            error_code=failure.code if failure else None,
            attempt_number=self.made,
            delay_ms=round(delay * 1000),
            idempotency_key_hash=keys.sha256(self.sent_key.encode())[:12],
            duration_ms=round(duration * 1000),
        )
