"""A breaker that a fleet shares: its stored record, and what must be written to it.

The record's generation rises with each change, and each write names the generation that
it is based on. So if two processes see the same outage, one of them writes, and a late
write that is based on an earlier generation changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

from piecework.breaker import BreakerPhase, BreakerState


@dataclass(frozen=True, slots=True)
class BreakerSnapshot:
    """A breaker as it is stored; without a row it is closed, in generation 0."""

    gen: int = 0
    phase: BreakerPhase = BreakerPhase.CLOSED
    open_until: float = 0.0
    failed_probes: int = 0
    probe_until: float = 0.0


class BreakerRecord(Protocol):
    """The fleet's record.

    A write that comes too late changes nothing and returns the current snapshot.
    """

    async def read_all(self) -> Mapping[str, BreakerSnapshot]:
        """Read every breaker of the fleet."""

    async def open(
        self, name: str, gen: int, until: float, code: str
    ) -> BreakerSnapshot | None:
        """Open a breaker that was closed."""

    async def take_probe(
        self, name: str, gen: int, token: str, until: float
    ) -> BreakerSnapshot | None:
        """Take the one probe of an open breaker."""

    async def release_probe(
        self, name: str, gen: int, token: str
    ) -> BreakerSnapshot | None:
        """Release the probe, so that another process can take it."""

    async def reopen(
        self, name: str, gen: int, token: str, until: float, failed_probes: int
    ) -> BreakerSnapshot | None:
        """Keep a breaker open after its probe failed."""

    async def close(self, name: str, gen: int, token: str) -> BreakerSnapshot | None:
        """Close a breaker after its probe was answered."""


class PendingWrite(Enum):
    """A change of this process that the record does not have yet."""

    OPEN = auto()
    CLOSE = auto()
    REOPEN = auto()
    RELEASE_PROBE = auto()


@dataclass(slots=True)
class SyncedBreaker:
    """A dependency's breaker in this process, and its stored record.

    Attributes:
        recorded: The record as this process last read or wrote it.
        recorded_generation: The generation of `state` that the record has.
        probe_token: Random token of the probe that this process requested.
        failure_code: The code of the last failure.
    """

    state: BreakerState
    recorded: BreakerSnapshot = field(default_factory=BreakerSnapshot)
    recorded_generation: int = 0
    probe_token: str = ""
    failure_code: str = ""

    @property
    def is_unrecorded(self) -> bool:
        """Whether the state has changed since the record was last read or written."""
        return self.state.generation != self.recorded_generation

    @property
    def pending_write(self) -> PendingWrite | None:
        """The write that the record needs; None: nothing, or the record decides."""
        is_open = self.state.phase is BreakerPhase.OPEN
        if is_open and self.recorded.phase is BreakerPhase.CLOSED:
            return PendingWrite.OPEN
        if not self.probe_token:
            return None
        if not is_open:
            return PendingWrite.CLOSE
        if self.is_unrecorded:
            return PendingWrite.REOPEN
        return None if self.state.probe_until else PendingWrite.RELEASE_PROBE

    async def write_change(self, name: str, record: BreakerRecord) -> None:
        """Write the pending change; adopt the record if the write came too late."""
        gen, token, state = self.recorded.gen, self.probe_token, self.state
        # The state may change while the write is under way.
        generation, until, failed = (
            state.generation,
            state.open_until,
            state.failed_probes,
        )
        match self.pending_write:
            case None:
                return
            case PendingWrite.OPEN:
                current = await record.open(name, gen, until, self.failure_code)
                written = BreakerSnapshot(gen + 1, BreakerPhase.OPEN, until)
            case PendingWrite.REOPEN:
                current = await record.reopen(name, gen, token, until, failed)
                written = BreakerSnapshot(gen + 1, BreakerPhase.OPEN, until, failed)
            case PendingWrite.CLOSE:
                current = await record.close(name, gen, token)
                written = BreakerSnapshot(gen + 1)
            case PendingWrite.RELEASE_PROBE:
                current = await record.release_probe(name, gen, token)
                written = BreakerSnapshot(gen, BreakerPhase.OPEN, until, failed)
        if current is None:
            self.recorded, self.recorded_generation = written, generation
            self.probe_token = "" if self.probe_token == token else self.probe_token
        else:
            self.adopt(current)

    def apply_read(self, snapshot: BreakerSnapshot | None) -> None:
        """Adopt a snapshot, unless it is outdated or a write is pending."""
        snapshot = snapshot or BreakerSnapshot()
        if self.pending_write is not None or snapshot.gen < self.recorded.gen:
            return
        if self.is_unrecorded or snapshot.gen > self.recorded.gen:
            self.adopt(snapshot)
        elif not self.probe_token:
            self.state.probe_until = snapshot.probe_until

    def adopt(self, snapshot: BreakerSnapshot) -> None:
        """Replace the state of this process by the record's."""
        state = self.state
        if snapshot.phase is BreakerPhase.OPEN:
            state.open(snapshot.open_until, snapshot.failed_probes)
            state.probe_until = snapshot.probe_until
        else:
            state.close()
        self.recorded, self.recorded_generation = snapshot, state.generation
        self.probe_token = ""
