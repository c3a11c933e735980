"""Simulate the providers that a pipeline calls, with a record of each execution.

A provider executes a request even if the worker that sent it dies. The records show
what really happened, independently of Piecework's tables. An effect that is executed
twice against its declaration is a violation.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

from piecework.calls.call import CallScope
from piecework.dependency import TAKEN, Dependency, bare, key_argument
from piecework.domain import keys
from piecework.domain.effect import Effect
from piecework.errors import PermanentError, TransientError
from piecework.idempotency.record import OperationRef
from piecework.resilience.lanes import NO_ROOM_CODE, UNSUPPORTED_CODE

if TYPE_CHECKING:
    from piecework_simulation.engine.world import World

#: Maximum seconds that a request to a provider is in transit. It is shorter than the
#: lease time that remains when an owner gives up: docs/protocol.md, "Limits". It ends
#: before the timeout of its call, too: a later execution is beyond the protocol.
DELIVERY_S = 4.0
#: The rate at which a provider's policy refuses a call, where it has one.
REFUSAL_RATE = 0.3
#: Seconds of an outage, and between two, where there are any.
OUTAGE_S = 15.0
#: Maximum seconds that a reply normally takes.
ANSWER_S = 1.0
#: The waits that a provider may request, in seconds. A chunk leaves the queue after 15
#: minutes, and SQS hides a message for at most 12 hours.
WAITS_S: Mapping[str, tuple[float, float]] = {
    "call.wait_minutes": (600.0, 7_200.0),
    "call.wait_hours": (43_200.0, 86_400.0),
}

#: The tokens of each call of `model` and `mill`, by estimate and by usage.
CALL_TOKENS = 20
#: More generations than a chunk has in any schedule.
MAX_GEN = 50
#: Tenant, job and number of a chunk.
ChunkKey: TypeAlias = tuple[str, str, int]
#: The scope of a call that is made apart from any stage.
NO_SCOPE = CallScope("", "", 0, "", "")


class ProviderError(Exception):
    """The error reply of a provider, in the form that HTTP clients raise."""

    def __init__(self, status: int, retry_after: float | None = None) -> None:
        super().__init__(f"The provider returned {status}.")
        headers = {} if retry_after is None else {"Retry-After": f"{retry_after:.0f}"}
        self.response = SimpleNamespace(status_code=status, headers=headers)


@dataclass(frozen=True, slots=True)
class OutgoingCall:
    """A call in progress, with its permanent identity.

    Attributes:
        scope: The scope of the call.
        chain: The identity of the call that it replaces as a fallback; empty: it is not
            a fallback.
        operation: What several chunks share; None: the call is its chunk's.
        estimate: The tokens that a budget reserves for it; 0: no budget counts it.
    """

    identity: str
    dependency: Dependency
    scope: CallScope = NO_SCOPE
    chain: str = ""
    operation: OperationRef | None = None
    estimate: int = 0

    @property
    def stream(self) -> str:
        """The name that all chunks have for this number of a stream; empty: none."""
        return self.operation.name if self.operation and self.operation.number else ""


@dataclass(slots=True)
class CallRecord:
    """The executions of one call.

    Attributes:
        active: Executions that were not compensated since.
        answers: The reply for each idempotency key.
        chunk: The chunk that made the call first.
    """

    effect: Effect
    executions: int = 0
    active: int = 0
    answers: dict[str, Any] = field(default_factory=dict)
    chunk: ChunkKey | None = None


@dataclass(frozen=True, slots=True)
class InputFault:
    """A fault that belongs to one input.

    Attributes:
        kind: What happens.
        late: Whether it happens after the work of the stage.
        seconds: For how long the input blocks an event loop.
    """

    kind: str
    stage: str
    late: bool
    seconds: float


#: What a call in a tier costs, in billionths of a dollar; in any other: the full price.
FULL_NANO_USD = 1_000
TIER_NANO_USD: Mapping[str, int] = {"flex": 500, "batch": 500}

#: The tier that serves the call which is executed now, as its answer may name it.
SERVED: ContextVar[str] = ContextVar("SERVED", default="")
CURRENT_CALL: ContextVar[OutgoingCall] = ContextVar("ASKED")
PROVIDER: ContextVar[Provider] = ContextVar("OUTSIDE")


@dataclass(slots=True)
class Provider:
    """The simulated providers, and their records.

    Attributes:
        stubs: What is executed in place of a function.
        stubbed: The functions whose stub was executed.
        delivery_s: Maximum seconds that a request is in transit, if the timeout of the
            call is not shorter.
        intended: The idempotency keys for which the ledger has an intent.
        chains: The calls that were executed for a call, as itself or as a fallback, by
            call.
        notifications: The number of notifications for each job and status.
        input_faults: The fault of each input that has one.
        returned: The results that the stages of each chunk returned, as JSON.
        claimed_as_suspect: Tells whether a process claimed a chunk that had lost a
            claim.
        continues: Tells whether two generations of a chunk have the same compensation.
        check_request: Notes that a stage requests a call, before it waits for anything.
        check_start: Checks the start of a call, or of a lookup.
        check_answer: Checks an answer that reaches its worker.
        note_full: Notes that the lane of a call had no room.
        full_until: The time until which the cheap lanes have no room.
        note_act: Checks that an act of a chunk, named by the first argument of a call,
            happens by one call.
        waits_end_at: The time at which the longest requested wait ends.
        paid: The number of paid calls that were executed.
        answered: The answers of each chunk's calls.
        charged: The executions of each chunk's pure calls: each of them costs money.
        answered_nano, charged_nano: What the same calls cost, of dependencies with a
            lane, by the tier that served them.
        sharing: The chunks with a call that may be equal to one of another chunk.
        numbered: The names of the numbers that chunks requested, by their calls.
        batches: The batches of the providers, a `BatchService`.
    """

    world: World
    report_violation: Callable[[str], None]
    stubs: Mapping[Callable[..., Any], Callable[..., Any]] = field(default_factory=dict)
    stubbed: set[Callable[..., Any]] = field(default_factory=set)
    delivery_s: float = DELIVERY_S
    records: dict[str, CallRecord] = field(default_factory=dict)
    intended: set[str] = field(default_factory=set)
    chains: dict[str, set[str]] = field(default_factory=dict)
    notifications: Counter[str] = field(default_factory=Counter)
    input_faults: dict[ChunkKey, InputFault] = field(default_factory=dict)
    returned: dict[ChunkKey, set[str]] = field(default_factory=dict)
    claimed_as_suspect: Callable[[str, ChunkKey], bool] = lambda *_: False
    continues: Callable[[ChunkKey, int, int], bool] = lambda *_: False
    undone_in: dict[tuple[Any, ...], int] = field(default_factory=dict)
    check_request: Callable[[OutgoingCall], None] = lambda _: None
    check_start: Callable[..., None] = lambda *_, **__: None
    check_answer: Callable[[OutgoingCall, Any], None] = lambda *_: None
    note_full: Callable[[OutgoingCall], None] = lambda _: None
    full_until: float = 0.0
    note_act: Callable[[str, ChunkKey, object, str], None] = lambda *_: None
    waits_end_at: float = 0.0
    paid: int = 0
    answered: Counter[ChunkKey] = field(default_factory=Counter)
    charged: Counter[ChunkKey] = field(default_factory=Counter)
    answered_nano: Counter[ChunkKey] = field(default_factory=Counter)
    charged_nano: Counter[ChunkKey] = field(default_factory=Counter)
    sharing: set[ChunkKey] = field(default_factory=set)
    paid_twice: int = 0
    numbered: dict[str, str] = field(default_factory=dict)
    batches: Any = field(init=False)

    async def call(
        self,
        function: Callable[..., Awaitable[Any]],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        key: str,
    ) -> Any:
        """Carry a call to the provider and its reply back, or lose one of them."""
        if (taken := TAKEN.get()) is not None and taken.said is not None:
            # A batch has answered: nothing is sent.
            return await function(*args, **kwargs, **key_argument(function, key))
        faults, rng, outgoing = self.world.faults, self.world.rng, CURRENT_CALL.get()
        self.check_start(outgoing, args)
        if self.fails_for(outgoing.scope):
            await asyncio.sleep(rng.random() * ANSWER_S)
            raise ProviderError(500)
        if faults.fires("call.transient"):
            await asyncio.sleep(rng.random() * ANSWER_S)
            raise ProviderError(503)
        if faults.fires("call.permanent"):
            await asyncio.sleep(rng.random() * ANSWER_S)
            raise ProviderError(422)
        self.refuse_lane(outgoing)
        for kind, limits in WAITS_S.items():
            if faults.fires(kind):
                raise self.busy_for(rng.uniform(*limits))
        hidden = faults.fires("call.hidden")
        slow = faults.fires("call.slow")
        answer = self.world.loop.create_future()
        landing = self.execute(function, args, kwargs, key, outgoing, answer)
        context = self.world.provider_context()
        context.run(SERVED.set, self.serving_tier())
        self.world.loop.create_task(landing, context=context)
        if faults.fires("call.cut"):
            await asyncio.sleep(rng.random() * self.delivery_s / 4)
            message = "The connection was closed."
            raise ConnectionResetError(message)
        value = await answer
        if slow:
            await asyncio.sleep(outgoing.dependency.timeout_s * 2)
        if hidden:
            raise ProviderError(504)
        self.check_answer(outgoing, value)
        return value

    def refuse_lane(self, outgoing: OutgoingCall) -> None:
        """Refuse a call in a cheap lane that has no room, or that is not there.

        Raises:
            StageError: `llm.lane.no_room`, `llm.lane.unsupported`.
        """
        faults, now, lane = self.world.faults, self.world.loop.moment, TAKEN.get()
        if lane is None or not lane.tier:
            return
        name = outgoing.dependency.name
        if faults.fires("call.no_lane"):
            raise PermanentError("There is no such lane.", code=UNSUPPORTED_CODE)
        if faults.fires("call.no_room"):
            self.full_until = now + self.world.rng.uniform(1.0, 2 * lane.within)
        if faults.on and now < self.full_until:
            self.note_full(outgoing)
            message = "The lane has no room."
            raise TransientError(message, code=NO_ROOM_CODE, dependency=name)

    def serving_tier(self) -> str:
        """Return the tier that serves a call: perhaps not the one it asks for."""
        lane = TAKEN.get()
        if lane is None or not lane.tier:
            return ""
        return "default" if self.world.faults.fires("call.other_tier") else lane.tier

    def fails_for(self, scope: CallScope) -> bool:
        """Return whether the providers fail for the input of a call, in its stage."""
        fault = self.input_faults.get((scope.tenant, scope.job, scope.chunk))
        if fault is None or (fault.kind, fault.stage) != (
            "input.provider",
            scope.stage,
        ):
            return False
        self.world.faults.fired[fault.kind] += 1
        return True

    def busy_for(self, seconds: float) -> ProviderError:
        """Return the answer that requests a wait of so many seconds."""
        end = self.world.loop.moment + seconds
        self.waits_end_at = max(self.waits_end_at, end)
        return ProviderError(429, seconds)

    async def execute(
        self,
        function: Callable[..., Awaitable[Any]],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        key: str,
        outgoing: OutgoingCall,
        answer: asyncio.Future[Any],
    ) -> None:
        """Execute the call, unless the provider already did so under this key."""
        rng, effect = self.world.rng, outgoing.dependency.effect
        carry_out: Callable[..., Any] = function
        if (replaced := bare(function)) in self.stubs:
            carry_out = bare(self.stubs[replaced])
            self.stubbed.add(replaced)
        transit = min(self.delivery_s, outgoing.dependency.timeout_s)
        await asyncio.sleep(rng.random() * transit)
        name = outgoing.stream or outgoing.identity
        entry = self.records.setdefault(name, CallRecord(effect))
        if not outgoing.stream:
            self.check_scope(entry, outgoing)
        honours = effect is Effect.PROVIDER_IDEMPOTENT
        if honours and key in entry.answers:
            value: Any = entry.answers[key]
        else:
            try:
                value = carry_out(*args, **kwargs, **key_argument(carry_out, key))
                value = await value if inspect.isawaitable(value) else value
            except Exception as error:  # noqa: BLE001 -- it is the pipeline's own
                if not answer.done():
                    answer.set_exception(error)
                return
            self.record(entry, key, value, outgoing)
            if args and not keys.is_compensation_stage(outgoing.scope.stage):
                chunk = outgoing.scope.tenant, outgoing.scope.job, outgoing.scope.chunk
                act, name = args[0], outgoing.scope.pipeline
                self.note_act(name, chunk, act, outgoing.identity)
            self.check_compensation(outgoing.scope, function, args)
        scope = outgoing.scope
        self.answered[scope.tenant, scope.job, scope.chunk] += 1
        self.answered_nano[scope.tenant, scope.job, scope.chunk] += price(outgoing)
        await asyncio.sleep(rng.random() * ANSWER_S)
        if not answer.done():
            answer.set_result(value)

    def record(
        self, entry: CallRecord, key: str, value: Any, outgoing: OutgoingCall
    ) -> None:
        """Write down that something happened."""
        entry.executions += 1
        entry.active += 1
        entry.answers[key] = value
        self.paid += 1
        name = outgoing.identity[:12]
        self.world.note(None, f"outside: {outgoing.dependency.name} {name}", None)
        if entry.effect is Effect.PURE:
            self.paid_twice += entry.executions > 1
            scope = outgoing.scope
            self.charged[scope.tenant, scope.job, scope.chunk] += 1
            self.charged_nano[scope.tenant, scope.job, scope.chunk] += price(outgoing)
            return
        if outgoing.stream:
            self.check_key(outgoing, key)
            return
        if entry.active > 1:
            self.report_violation(
                f"I6: {outgoing.dependency.name} {name} executed twice"
            )
        chain = self.chains.setdefault(outgoing.chain or outgoing.identity, set())
        chain.add(outgoing.identity)
        if sum(self.records[one].active > 0 for one in chain) > 1:
            self.report_violation(
                f"I6: {outgoing.dependency.name} {name} also ran in a fallback"
            )
        if key not in self.intended:
            self.report_violation(
                f"I7: {outgoing.dependency.name} {name} without an intent"
            )

    def note_batched(self, outgoing: OutgoingCall, nano_usd: int) -> None:
        """Write down that a batch has answered a call, and bills it."""
        scope = outgoing.scope
        chunk = scope.tenant, scope.job, scope.chunk
        self.paid += 1
        self.answered[chunk] += 1
        self.charged[chunk] += 1
        self.answered_nano[chunk] += nano_usd
        self.charged_nano[chunk] += nano_usd

    def check_key(self, outgoing: OutgoingCall, key: str) -> None:
        """Check that the key of a number is that of all chunks in its generation."""
        known = {keys.provider_key(outgoing.stream, gen) for gen in range(MAX_GEN)}
        if key not in known:
            self.report_violation(f"I26: {outgoing.dependency.name} got another key")

    def check_compensation(
        self, scope: CallScope, function: Callable[..., Any], args: Sequence[Any]
    ) -> None:
        """Check that a compensation that runs again does not repeat its calls."""
        if not keys.is_compensation_stage(scope.stage):
            return
        stage, _, gen = scope.stage.rpartition(":")
        chunk = scope.tenant, scope.job, scope.chunk
        what = (*chunk, stage, function, *args)
        other = self.undone_in.get(what)
        if other not in {None, int(gen)} and self.continues(chunk, int(gen), other):
            name = f"{scope.job}/{scope.chunk}"
            self.report_violation(f"I23: {name} repeated a call of {stage}")
        self.undone_in[what] = int(gen)

    # ── what belongs to one chunk ───────────────────────────────────────────

    def check_scope(self, entry: CallRecord, outgoing: OutgoingCall) -> None:
        """Check that no two chunks make calls of the same identity."""
        made = outgoing.scope.tenant, outgoing.scope.job, outgoing.scope.chunk
        entry.chunk = entry.chunk or made
        if entry.chunk != made:
            self.report_violation(f"I13: {outgoing.identity[:12]} is of two chunks")

    def record_value(self, chunk: ChunkKey, text: str) -> None:
        """Record a value that a stage of a chunk returned."""
        self.returned.setdefault(chunk, set()).add(keys.sha256(text.encode()))

    def check_value(self, chunk: ChunkKey, text: str) -> None:
        """Check that a value that a chunk has was returned by its own stages.

        The stages of a pipeline that is not instrumented are not recorded.
        """
        own = self.returned.get(chunk, ())
        if self.returned and keys.sha256(text.encode()) not in own:
            tenant, job, number = chunk
            self.report_violation(f"I13: {tenant}/{job}/{number} has a foreign value")

    def check_harm(self, chunk: ChunkKey, worker: str) -> None:
        """Check that a chunk that harms its worker was not suspect at its claim."""
        if self.claimed_as_suspect(worker, chunk):
            tenant, job, number = chunk
            self.report_violation(f"I16: suspect {tenant}/{job}/{number} did harm")

    def refuses(self) -> bool:
        """Return whether the provider's policy refuses a call now."""
        faults, rng = self.world.faults, self.world.rng
        return faults.on and rng.random() < REFUSAL_RATE

    @property
    def is_down(self) -> bool:
        """Whether the provider has an outage now."""
        moment = self.world.loop.moment + OUTAGE_S / 3
        return self.world.faults.on and moment % (2 * OUTAGE_S) >= OUTAGE_S

    async def look_up(self, key: str) -> Any:
        """Return the reply of an executed call, if there is one under this key."""
        self.check_start(CURRENT_CALL.get(), (), is_lookup=True)
        await asyncio.sleep(self.world.rng.random() * ANSWER_S)
        entry = self.records.get(CURRENT_CALL.get().identity)
        return entry.answers.get(key) if entry and entry.active else None

    def mark_compensated(self, identity: str) -> None:
        """Record that the ledger marks an effect as compensated."""
        if identity in self.records:
            self.records[identity].active = 0


def price(call: OutgoingCall) -> int:
    """Return what a call costs by the tier that serves it; 0: it has no such price."""
    if not call.dependency.lane.tier:
        return 0
    return TIER_NANO_USD.get(SERVED.get(), FULL_NANO_USD)
