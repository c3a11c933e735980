"""A breaker that a fleet shares: what stands on record, and what it must be told.

The record's generation rises with each change that is written, and each write names
the one that it comes from. So of two that see the same outage one writes, and whoever
comes late with news of an earlier generation writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

from piecework.breaker import Circuit, State


@dataclass(frozen=True, slots=True)
class Standing:
    """A breaker as the record has it; without a row: closed, in generation 0."""

    gen: int = 0
    state: State = State.CLOSED
    until: float = 0.0
    failed_probes: int = 0
    probed_until: float = 0.0


class BreakerRecord(Protocol):
    """The fleet's record. A write that comes late returns what stands instead of it."""

    async def all(self) -> Mapping[str, Standing]:
        """Read every breaker of the fleet."""

    async def open(
        self, name: str, gen: int, until: float, code: str
    ) -> Standing | None:
        """Open a breaker that was closed."""

    async def probe(
        self, name: str, gen: int, token: str, until: float
    ) -> Standing | None:
        """Take the one probe of an open breaker."""

    async def give_back(self, name: str, gen: int, token: str) -> Standing | None:
        """Let somebody else have the probe."""

    async def reopen(
        self, name: str, gen: int, token: str, until: float, failed_probes: int
    ) -> Standing | None:
        """Keep a breaker open whose probe failed."""

    async def close(self, name: str, gen: int, token: str) -> Standing | None:
        """Close a breaker whose probe was answered."""


class Message(Enum):
    """What the record is to be told."""

    OPEN = auto()
    CLOSE = auto()
    REOPEN = auto()
    GIVE_BACK = auto()


@dataclass(slots=True)
class Known:
    """A dependency's breaker, here and on record.

    Attributes:
        recorded: The record, as it was last read or written.
        told: The generation of the circuit that the record knows of.
        token: Of the probe that we asked the record for.
        code: Of the last failure.
    """

    circuit: Circuit
    recorded: Standing = field(default_factory=Standing)
    told: int = 0
    token: str = ""
    code: str = ""

    @property
    def untold(self) -> bool:
        """Whether the circuit has changed since the record knew of it."""
        return self.circuit.generation != self.told

    @property
    def message(self) -> Message | None:
        """What the record is to be told; None: nothing, or it has the last word."""
        is_open = self.circuit.state is State.OPEN
        if is_open and self.recorded.state is State.CLOSED:
            return Message.OPEN
        if not self.token:
            return None
        if not is_open:
            return Message.CLOSE
        if self.untold:
            return Message.REOPEN
        return None if self.circuit.probed_until else Message.GIVE_BACK

    async def tell(self, name: str, record: BreakerRecord) -> None:
        """Write what the record is to be told; go by it where we come too late."""
        gen, token, circuit = self.recorded.gen, self.token, self.circuit
        told, until, failed = circuit.generation, circuit.until, circuit.failed_probes
        match self.message:
            case None:
                return
            case Message.OPEN:
                stands = await record.open(name, gen, until, self.code)
                written = Standing(gen + 1, State.OPEN, until)
            case Message.REOPEN:
                stands = await record.reopen(name, gen, token, until, failed)
                written = Standing(gen + 1, State.OPEN, until, failed)
            case Message.CLOSE:
                stands = await record.close(name, gen, token)
                written = Standing(gen + 1)
            case Message.GIVE_BACK:
                stands = await record.give_back(name, gen, token)
                written = Standing(gen, State.OPEN, until, failed)
        if stands is None:
            self.recorded, self.told = written, told
            self.token = "" if self.token == token else self.token
        else:
            self.take_over(stands)

    def read(self, standing: Standing | None) -> None:
        """Go by what was read, unless it is older than what we know, or to be told."""
        standing = standing or Standing()
        if self.message is not None or standing.gen < self.recorded.gen:
            return
        if self.untold or standing.gen > self.recorded.gen:
            self.take_over(standing)
        elif not self.token:
            self.circuit.probed_until = standing.probed_until

    def take_over(self, standing: Standing) -> None:
        """Go by the record from now on."""
        circuit = self.circuit
        if standing.state is State.OPEN:
            circuit.open(standing.until, standing.failed_probes)
            circuit.probed_until = standing.probed_until
        else:
            circuit.close()
        self.recorded, self.told, self.token = standing, circuit.generation, ""
