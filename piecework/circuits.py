"""The breakers of one process, in step with the fleet's while its record is in reach.

    guard    closed: go on; open: refused; half-open: the probe, if nobody else has it
    look     tell what changed here, then read how the fleet's breakers stand

The record is read twice a second while calls are made, all breakers at once, and asked
for each probe; a call costs no request. Out of reach, each process goes by what it
sees itself: a call never fails because a breaker's row could not be read.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from types import TracebackType
from typing import Final

from piecework import telemetry
from piecework.breaker import (
    PROBED_S,
    Breaker,
    Circuit,
    Health,
    Passage,
    State,
    Wait,
    refusal,
)
from piecework.dependency import Dependency
from piecework.errors import ErrorEnvelope, StoreError
from piecework.fleet import BreakerRecord, Known, Message, Standing

#: Seconds after which what was read of the fleet's breakers is not believed any more.
BELIEVED_S: Final = 2.0
#: Seconds that a call waits for the record before it goes on without it.
PATIENCE_S: Final = 2.0
#: Seconds beyond a call's own time after which its probe counts as lost.
GRACE_S: Final = 5.0


@dataclass(slots=True)
class Circuits:
    """The breakers of one process, by the name of the dependency.

    Attributes:
        record: The fleet's; None: this process is all there is.
        changed: Set when there is something to tell the fleet.
    """

    clock: Callable[[], float]
    rng: Random
    log: telemetry.Log
    record: BreakerRecord | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    known: dict[str, Known] = field(default_factory=dict)
    _found: Mapping[str, Standing] = field(default_factory=dict)
    _read_at: float | None = None
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _looked: asyncio.Event = field(default_factory=asyncio.Event)
    _reading: asyncio.Task[None] | None = None

    def guard(
        self, dependency: Dependency, classify: Callable[[Exception], ErrorEnvelope]
    ) -> Guard:
        """Return what lets one call through that is made inside, or refuses it."""
        return Guard(self, dependency, classify)

    def of(self, name: str, rules: Breaker) -> Known:
        """Return what is known of a dependency's breaker."""
        if name not in self.known:
            self.known[name] = Known(Circuit(rules, self.rng))
            self.known[name].read(self._found.get(name))
        known = self.known[name]
        known.circuit.rules = rules
        return known

    async def enter(self, dependency: Dependency, known: Known) -> Passage:
        """Let a call through.

        Raises:
            TransientError: `runtime.breaker.open`: the call is not made.
        """
        await self._believe()
        circuit, probe_s = known.circuit, dependency.timeout + GRACE_S
        passage = circuit.ask(self.clock(), probe_s)
        if isinstance(passage, Passage) and passage.probe:
            try:
                await self._take_probe(dependency.name, known)
            except BaseException:  # it is cut off: let somebody else probe
                self.ended(dependency.name, known, passage, Health.UNKNOWN)
                raise
            if passage.generation != circuit.generation:
                passage = circuit.ask(self.clock(), probe_s)
        if isinstance(passage, Wait):
            raise refusal(dependency.name, passage.seconds)
        return passage

    async def _take_probe(self, name: str, known: Known) -> None:
        """Ask for the fleet's one probe; go by the record where it is another's."""
        if self.record is None or known.recorded.state is State.CLOSED:
            return
        known.token = uuid.UUID(int=self.rng.getrandbits(128)).hex
        try:
            async with asyncio.timeout(PATIENCE_S):
                rival = await self.record.probe(
                    name, known.recorded.gen, known.token, known.circuit.probed_until
                )
        except (StoreError, TimeoutError) as error:
            self._alone(error)
            return
        if rival is not None:
            known.take_over(rival)
            known.circuit.probed(self.clock() + PROBED_S)

    def ended(self, name: str, known: Known, passage: Passage, health: Health) -> None:
        """Take in how a call ended; tell of a breaker that opens or closes by it."""
        circuit = known.circuit
        before = circuit.generation
        circuit.ended(passage, health, self.clock())
        if known.message is Message.GIVE_BACK or circuit.generation != before:
            self.changed.set()
        if circuit.generation == before:
            return
        if circuit.state is State.CLOSED:
            telemetry.emit(self.log, "breaker.closed", dependency=name)
            return
        telemetry.emit(
            self.log,
            "breaker.opened",
            dependency=name,
            error_code=known.code,
            delay_s=round(circuit.until - self.clock(), 3),
            failed_probes=circuit.failed_probes,
        )

    @property
    def untold(self) -> bool:
        """Whether there is something to tell the fleet."""
        known = self.known.values()
        return self.record is not None and any(each.message for each in known)

    def refuses(self, dependency: Dependency) -> float | None:
        """Return for how long no further call is worth a try; None: it is now."""
        known = self.known.get(dependency.name)
        if known is None or known.circuit.state is State.CLOSED:
            return None
        return max(PROBED_S, known.circuit.until - self.clock())

    def expect(self) -> None:
        """Begin to read the record, if calls may come: they have less to wait for then.

        Who has never guarded a call reads it once, to be ready for the first.
        """
        if self.record is None or self._looking.locked() or not self._old():
            return
        if self.known or self._read_at is None:
            self._reading = asyncio.create_task(self._believe())
            self._reading.add_done_callback(_heard)

    async def _believe(self) -> None:
        """Read the record, if what was read of it is old; one call does for all."""
        while self.record is not None and self._old():
            if self._looking.locked():
                await self._looked.wait()  # which lets all go on at once
                continue
            async with self._looking:
                await self._look(self.record)

    def _old(self) -> bool:
        return self._read_at is None or self.clock() - self._read_at > BELIEVED_S

    async def look(self) -> None:
        """Tell what changed here, and go by what the fleet's record says."""
        if self.record is not None and self.known:
            async with self._looking:
                await self._look(self.record)

    async def _look(self, record: BreakerRecord) -> None:
        self.changed.clear()
        self._looked.clear()
        try:
            async with asyncio.timeout(PATIENCE_S):
                for name, known in list(self.known.items()):
                    await known.tell(name, record)
                self._found = await record.all()
        except (StoreError, TimeoutError) as error:
            self._alone(error)
        else:
            for name, known in self.known.items():
                known.read(self._found.get(name))
        finally:
            self._looked.set()
        self._read_at = self.clock()

    def _alone(self, error: Exception) -> None:
        self.log.debug("breaker.record_unreachable", error=type(error).__name__)


def _heard(reading: asyncio.Task[None]) -> None:
    """Let a failure go: the call that reads in its turn meets it, too."""
    if not reading.cancelled():
        reading.exception()


@dataclass(slots=True)
class Guard:
    """One call's way through its breaker: it is made inside `async with`.

    No generator makes it up: there is one for each call.

    Raises:
        TransientError: `runtime.breaker.open`: the call is not made.
    """

    circuits: Circuits
    dependency: Dependency
    classify: Callable[[Exception], ErrorEnvelope]
    _known: Known | None = None
    _passage: Passage | None = None

    async def __aenter__(self) -> None:
        """Enter, if the breaker lets the call through."""
        rules = self.dependency.breaker
        if rules is not None:
            self._known = self.circuits.of(self.dependency.name, rules)
            self._passage = await self.circuits.enter(self.dependency, self._known)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Tell the breaker how the call ended."""
        rules, known, passage = self.dependency.breaker, self._known, self._passage
        if rules is None or known is None or passage is None:
            return
        health = Health.WELL if error is None else Health.UNKNOWN
        try:
            if isinstance(error, Exception):
                failure = self.classify(error)
                health = rules.health(failure)
                known.code = failure.code if health is Health.FAILED else known.code
        finally:
            self.circuits.ended(self.dependency.name, known, passage, health)
