"""The world that a pipeline calls: slow, refusing, and it keeps its own books.

What was sent lands, whatever becomes of the worker that sent it. The books say what
really happened, apart from all that Piecework's tables say; what happened twice and
should not have is a broken promise.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from piecework.call_names import CallScope
from piecework.dependency import Dependency, Effect

if TYPE_CHECKING:
    from simulation.world import World

#: Seconds that a request to the outside is on its way, at most. Shorter than what is
#: left of any lease when its holder gives up: README, "What it rests on".
DELIVERY_S = 4.0
#: How often a rule of the other side's refuses a call, where it has one.
REFUSAL_RATE = 0.3
#: Seconds of an outage, and between two, where there are any.
OUTAGE_S = 15.0
#: Seconds that an answer usually takes, at most.
ANSWER_S = 1.0


#: The scope of a call that is made apart from any stage.
NO_SCOPE = CallScope("", "", 0, "")


class ProviderError(Exception):
    """What the outside answers when it does not do it, as HTTP clients raise it."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the outside says {status}")
        self.response = SimpleNamespace(status_code=status, headers={})


@dataclass(frozen=True, slots=True)
class OutgoingCall:
    """A call under way: which one it is, for ever, and of what kind.

    Attributes:
        scope: Whose call it is.
        chain: The call in whose place it is made; empty: in its own.
    """

    identity: str
    dependency: Dependency
    scope: CallScope = NO_SCOPE
    chain: str = ""


@dataclass(slots=True)
class CallRecord:
    """What the books say of one call.

    Attributes:
        stands: How often it landed and was not undone since.
        answers: What was answered, by the key that was sent along.
    """

    effect: Effect
    executions: int = 0
    active: int = 0
    answers: dict[str, Any] = field(default_factory=dict)


CURRENT_CALL: ContextVar[OutgoingCall] = ContextVar("ASKED")
PROVIDER: ContextVar[Provider] = ContextVar("OUTSIDE")


@dataclass(slots=True)
class Provider:
    """The outside, and its books.

    Attributes:
        landing_s: Seconds that a request is on its way, at most.
        intended: The keys of which the ledger holds an intent.
        chains: The calls that were carried out in a call's place or as it, by it.
        told: How often the end of each job was told, and with which status.
        paid: How often a call was answered that costs something.
    """

    world: World
    report_violation: Callable[[str], None]
    stubs: Mapping[Callable[..., Any], Callable[..., Any]] = field(default_factory=dict)
    delivery_s: float = DELIVERY_S
    records: dict[str, CallRecord] = field(default_factory=dict)
    intended: set[str] = field(default_factory=set)
    chains: dict[str, set[str]] = field(default_factory=dict)
    notifications: Counter[str] = field(default_factory=Counter)
    paid: int = 0
    paid_twice: int = 0

    async def call(
        self,
        function: Callable[..., Awaitable[Any]],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        key: str,
    ) -> Any:
        """Carry a call to the outside and its answer back, or lose one of them."""
        faults, rng, outgoing = self.world.faults, self.world.rng, CURRENT_CALL.get()
        if faults.fires("call.transient"):
            await asyncio.sleep(rng.random() * ANSWER_S)
            raise ProviderError(503)
        if faults.fires("call.permanent"):
            await asyncio.sleep(rng.random() * ANSWER_S)
            raise ProviderError(422)
        hidden = faults.fires("call.hidden")
        slow = faults.fires("call.slow")
        answer = self.world.loop.create_future()
        landing = self.execute(function, args, kwargs, key, outgoing, answer)
        self.world.loop.create_task(landing, context=self.world.provider_context())
        if faults.fires("call.cut"):
            await asyncio.sleep(rng.random() * self.delivery_s / 4)
            message = "the connection broke"
            raise ConnectionResetError(message)
        value = await answer
        if slow:
            await asyncio.sleep(outgoing.dependency.timeout * 2)
        if hidden:
            raise ProviderError(504)
        return value

    async def execute(
        self,
        function: Callable[..., Awaitable[Any]],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        key: str,
        outgoing: OutgoingCall,
        answer: asyncio.Future[Any],
    ) -> None:
        """Do what was asked for, if the provider has not done it under this key."""
        rng, effect = self.world.rng, outgoing.dependency.effect
        carry_out: Callable[..., Any] = self.stubs.get(function) or function
        await asyncio.sleep(rng.random() * self.delivery_s)
        entry = self.records.setdefault(outgoing.identity, CallRecord(effect))
        honours = effect is Effect.PROVIDER_IDEMPOTENT
        if honours and key in entry.answers:
            value: Any = entry.answers[key]
        else:
            try:
                value = await carry_out(*args, idempotency_key=key, **kwargs)
            except Exception as error:  # noqa: BLE001 -- it is the pipeline's own
                if not answer.done():
                    answer.set_exception(error)
                return
            self.record(entry, key, value, outgoing)
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

    def refuses(self) -> bool:
        """Say whether a rule of the other side's refuses a call this time."""
        faults, rng = self.world.faults, self.world.rng
        return faults.on and rng.random() < REFUSAL_RATE

    @property
    def is_down(self) -> bool:
        """Whether the other side is out of order, where it ever is."""
        moment = self.world.loop.moment + OUTAGE_S / 3
        return self.world.faults.on and moment % (2 * OUTAGE_S) >= OUTAGE_S

    async def look_up(self, key: str) -> Any:
        """Return what stands under a key, if anything."""
        await asyncio.sleep(self.world.rng.random() * ANSWER_S)
        entry = self.records.get(CURRENT_CALL.get().identity)
        return entry.answers.get(key) if entry and entry.active else None

    def mark_compensated(self, identity: str) -> None:
        """Learn that the ledger has an effect down as undone."""
        if identity in self.records:
            self.records[identity].active = 0
