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
LANDING_S = 4.0
#: How often a rule of the other side's refuses a call, where it has one.
REFUSED = 0.3
#: Seconds of an outage, and between two, where there are any.
OUTAGE_S = 15.0
#: Seconds that an answer usually takes, at most.
ANSWER_S = 1.0


#: The scope of a call that is made apart from any stage.
NOBODY = CallScope("", "", 0, "")


class OutsideError(Exception):
    """What the outside answers when it does not do it, as HTTP clients raise it."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the outside says {status}")
        self.response = SimpleNamespace(status_code=status, headers={})


@dataclass(frozen=True, slots=True)
class Asked:
    """A call under way: which one it is, for ever, and of what kind.

    Attributes:
        scope: Whose call it is.
        chain: The call in whose place it is made; empty: in its own.
    """

    identity: str
    dependency: Dependency
    scope: CallScope = NOBODY
    chain: str = ""


@dataclass(slots=True)
class Entry:
    """What the books say of one call.

    Attributes:
        stands: How often it landed and was not undone since.
        answers: What was answered, by the key that was sent along.
    """

    effect: Effect
    landed: int = 0
    stands: int = 0
    answers: dict[str, Any] = field(default_factory=dict)


ASKED: ContextVar[Asked] = ContextVar("ASKED")
OUTSIDE: ContextVar[Outside] = ContextVar("OUTSIDE")


@dataclass(slots=True)
class Outside:
    """The outside, and its books.

    Attributes:
        landing_s: Seconds that a request is on its way, at most.
        intended: The keys of which the ledger holds an intent.
        chains: The calls that were carried out in a call's place or as it, by it.
        told: How often the end of each job was told, and with which status.
        paid: How often a call was answered that costs something.
    """

    world: World
    broken: Callable[[str], None]
    stand_ins: Mapping[Callable[..., Any], Callable[..., Any]] = field(
        default_factory=dict
    )
    landing_s: float = LANDING_S
    books: dict[str, Entry] = field(default_factory=dict)
    intended: set[str] = field(default_factory=set)
    chains: dict[str, set[str]] = field(default_factory=dict)
    told: Counter[str] = field(default_factory=Counter)
    paid: int = 0
    paid_again: int = 0

    async def call(
        self,
        function: Callable[..., Awaitable[Any]],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        key: str,
    ) -> Any:
        """Carry a call to the outside and its answer back, or lose one of them."""
        faults, rng, asked = self.world.faults, self.world.rng, ASKED.get()
        if faults.fires("call.transient"):
            await asyncio.sleep(rng.random() * ANSWER_S)
            raise OutsideError(503)
        if faults.fires("call.permanent"):
            await asyncio.sleep(rng.random() * ANSWER_S)
            raise OutsideError(422)
        hidden = faults.fires("call.hidden")
        slow = faults.fires("call.slow")
        answer = self.world.loop.create_future()
        landing = self.land(function, args, kwargs, key, asked, answer)
        self.world.loop.create_task(landing, context=self.world.surroundings())
        if faults.fires("call.cut"):
            await asyncio.sleep(rng.random() * self.landing_s / 4)
            message = "the connection broke"
            raise ConnectionResetError(message)
        value = await answer
        if slow:
            await asyncio.sleep(asked.dependency.timeout * 2)
        if hidden:
            raise OutsideError(504)
        return value

    async def land(
        self,
        function: Callable[..., Awaitable[Any]],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        key: str,
        asked: Asked,
        answer: asyncio.Future[Any],
    ) -> None:
        """Do what was asked for, if the provider has not done it under this key."""
        rng, effect = self.world.rng, asked.dependency.effect
        carry_out: Callable[..., Any] = self.stand_ins.get(function) or function
        await asyncio.sleep(rng.random() * self.landing_s)
        entry = self.books.setdefault(asked.identity, Entry(effect))
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
            self.book(entry, key, value, asked)
        await asyncio.sleep(rng.random() * ANSWER_S)
        if not answer.done():
            answer.set_result(value)

    def book(self, entry: Entry, key: str, value: Any, asked: Asked) -> None:
        """Write down that something happened."""
        entry.landed += 1
        entry.stands += 1
        entry.answers[key] = value
        self.paid += 1
        name = asked.identity[:12]
        self.world.note(None, f"outside: {asked.dependency.name} {name}", None)
        if entry.effect is Effect.PURE:
            self.paid_again += entry.landed > 1
            return
        if entry.stands > 1:
            self.broken(f"I6: {asked.dependency.name} {name} happened twice")
        chain = self.chains.setdefault(asked.chain or asked.identity, set())
        chain.add(asked.identity)
        if sum(self.books[one].stands > 0 for one in chain) > 1:
            self.broken(f"I6: {asked.dependency.name} {name} happened elsewhere too")
        if key not in self.intended:
            self.broken(f"I7: {asked.dependency.name} {name} without an intent")

    def refuses(self) -> bool:
        """Say whether a rule of the other side's refuses a call this time."""
        faults, rng = self.world.faults, self.world.rng
        return faults.on and rng.random() < REFUSED

    @property
    def is_down(self) -> bool:
        """Whether the other side is out of order, where it ever is."""
        moment = self.world.loop.moment + OUTAGE_S / 3
        return self.world.faults.on and moment % (2 * OUTAGE_S) >= OUTAGE_S

    async def look_up(self, key: str) -> Any:
        """Return what stands under a key, if anything."""
        await asyncio.sleep(self.world.rng.random() * ANSWER_S)
        entry = self.books.get(ASKED.get().identity)
        return entry.answers.get(key) if entry and entry.stands else None

    def undone(self, identity: str) -> None:
        """Learn that the ledger has an effect down as undone."""
        if identity in self.books:
            self.books[identity].stands = 0
