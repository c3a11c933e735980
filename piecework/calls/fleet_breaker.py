"""The breakers of one process, kept in sync with the fleet's record.

    permit   closed: call; open: reject; half-open: call if this process has the probe
    end      count the call; open or close the breaker
    sync     write what changed in this process, then read the fleet's breakers

While calls are made, the record is read twice a second, all breakers in one request. It
is written once for each probe. A call costs no request. If the record is unreachable,
each process decides by its own calls. So a call never fails because a breaker's row
could not be read.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from random import Random
from typing import TYPE_CHECKING, Final, Protocol

from piecework import telemetry
from piecework.dependency import Dependency
from piecework.errors import StoreError
from piecework.resilience.breaker import (
    PROBE_RETRY_S,
    BreakerPhase,
    BreakerState,
    CircuitBreaker,
    Health,
    Heard,
    Permit,
    Rejected,
)

if TYPE_CHECKING:
    from piecework.errors import ErrorEnvelope

# ── breaker that a fleet shares ───────────────────────────────────────────────
#
# The record's generation rises with each change, and each write names the generation
# that it is based on. So if two processes see the same outage, one of them writes. A
# late write that is based on an earlier generation changes nothing.


@dataclass(frozen=True, slots=True)
class BreakerSnapshot:
    """A breaker as it is stored; without a row it is closed, in generation 0."""

    gen: int = 0
    phase: BreakerPhase = BreakerPhase.CLOSED
    open_until: float = 0.0
    failed_probes: int = 0
    probe_until: float = 0.0
    failure_code: str = ""
    heard: Heard = field(default_factory=Heard)
    heard_seq: int = 0


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

    async def set_heard(
        self, name: str, gen: int, seq: int, heard: Heard
    ) -> BreakerSnapshot | None:
        """Replace the failing and the answered chunks of `seq`."""


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

    @property
    def has_change(self) -> bool:
        """Whether there is something to write to the record."""
        return self.pending_write is not None or self._news != Heard()

    @property
    def _news(self) -> Heard:
        return self.state.heard.news(self.recorded.heard)

    async def write_heard(self, name: str, record: BreakerRecord) -> None:
        """Write which chunks fail, and which were answered since."""
        recorded, news = self.recorded, self._news
        if news == Heard():
            return
        heard = recorded.heard | news
        gen, seq = recorded.gen, recorded.heard_seq
        current = await record.set_heard(name, gen, seq, heard)
        if current is None:
            self.recorded = replace(self.recorded, heard=heard, heard_seq=seq + 1)
        elif current.gen != gen:
            self.adopt(current)
        else:
            self._merge(current)

    def _merge(self, read: BreakerSnapshot) -> None:
        """Add what other processes have heard."""
        self.state.heard |= read.heard
        self.recorded = replace(
            self.recorded, heard=read.heard, heard_seq=read.heard_seq
        )

    async def write_change(self, name: str, record: BreakerRecord) -> None:
        """Write the pending change; adopt the record if the write came too late."""
        if self.pending_write is None:
            await self.write_heard(name, record)
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
            heard, seq = self.recorded.heard, self.recorded.heard_seq
            self.recorded = replace(written, heard=heard, heard_seq=seq)
            self.recorded_generation = generation
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
            return
        self._merge(snapshot)
        if not self.probe_token:
            self.state.probe_until = snapshot.probe_until

    def adopt(self, snapshot: BreakerSnapshot) -> None:
        """Replace the state of this process by the record's."""
        state = self.state
        state.heard |= snapshot.heard
        if snapshot.phase is BreakerPhase.OPEN:
            # Other chunks may fail here than where it was opened.
            failing, until = state.window.failing, snapshot.open_until
            state.heard = state.heard.with_failing(failing, until)
            state.open(snapshot.open_until, snapshot.failed_probes)
            state.probe_until = snapshot.probe_until
            self.failure_code = snapshot.failure_code or self.failure_code
        else:
            state.close()
        self.recorded, self.recorded_generation = snapshot, state.generation
        self.probe_token = ""


#: Seconds after which a read of the fleet's breakers is stale.
SNAPSHOT_TTL_S: Final = 2.0
#: Seconds between two reads of a process that makes no calls.
WITHOUT_CALLS_S: Final = 60.0
#: Seconds that a call waits for the record before it continues without it.
RECORD_TIMEOUT_S: Final = 2.0
#: Seconds beyond a call's own timeout after which its probe counts as lost.
PROBE_GRACE_S: Final = 5.0


@dataclass(slots=True)
class BreakerRegistry:
    """The breakers of one process, by the name of the dependency.

    Attributes:
        record: The fleet's record; None: there is only this process.
        called: The dependencies that it has called, also those without a breaker: the
            pauses of all are in the record.
        changed: Set when there is a change to write to the record.
    """

    clock: Callable[[], float]
    rng: Random
    log: telemetry.Log
    record: BreakerRecord | None = None
    called: set[str] = field(default_factory=set)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    by_name: dict[str, SyncedBreaker] = field(default_factory=dict)
    _snapshots: Mapping[str, BreakerSnapshot] = field(default_factory=dict)
    _read_at: float | None = None
    _sync_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _synced: asyncio.Event = field(default_factory=asyncio.Event)
    _prefetching: asyncio.Task[None] | None = None

    async def request_permit(
        self, dependency: Dependency, chunk: str = ""
    ) -> Permit | Rejected | None:
        """Return a permit for a call, or its rejection; None: it has no breaker.

        `chunk`: identifies the chunk that makes the call; empty: it has none.
        """
        self.called.add(dependency.name)
        if dependency.breaker is None:
            return None
        breaker = self.get(dependency.name, dependency.breaker)
        await self.refresh()
        state, probe_s = breaker.state, dependency.timeout_s + PROBE_GRACE_S
        permit = state.request_permit(self.clock(), probe_s, chunk)
        if isinstance(permit, Permit) and permit.probe_until:
            try:
                await self._take_probe(dependency.name, breaker)
            except BaseException:  # cut off: let another call or process probe
                self.record_end(dependency, permit, Health.UNKNOWN)
                raise
            if permit.generation != state.generation:
                permit = state.request_permit(self.clock(), probe_s, chunk)
        return permit

    def get(self, name: str, rules: CircuitBreaker) -> SyncedBreaker:
        """Return a dependency's breaker, created if it is new."""
        if name not in self.by_name:
            self.by_name[name] = SyncedBreaker(BreakerState(rules, self.rng))
            self.by_name[name].apply_read(self._snapshots.get(name))
        breaker = self.by_name[name]
        breaker.state.rules = rules
        return breaker

    async def _take_probe(self, name: str, breaker: SyncedBreaker) -> None:
        """Request the fleet's one probe; adopt the record if another process has it."""
        if self.record is None or breaker.recorded.phase is BreakerPhase.CLOSED:
            return
        breaker.probe_token = uuid.UUID(int=self.rng.getrandbits(128)).hex
        try:
            async with asyncio.timeout(RECORD_TIMEOUT_S):
                current = await self.record.take_probe(
                    name,
                    breaker.recorded.gen,
                    breaker.probe_token,
                    breaker.state.probe_until,
                )
        except (StoreError, TimeoutError) as error:
            self._log_unreachable(error)
            return
        if current is not None:
            breaker.adopt(current)
            breaker.state.note_other_probe(self.clock() + PROBE_RETRY_S)

    def record_end(
        self,
        dependency: Dependency,
        permit: Permit,
        health: Health,
        failure: ErrorEnvelope | None = None,
        *,
        chunk: str = "",
        failed_at: float = 0.0,
    ) -> None:
        """Record how a call ended; emit an event if the breaker opens or closes.

        `chunk`, `failed_at`: as for `BreakerState.record_end`.
        """
        name, breaker = dependency.name, self.by_name[dependency.name]
        if failure is not None and health is Health.FAILURE:
            breaker.failure_code = failure.code
        state = breaker.state
        before = state.generation
        state.record_end(permit, health, self.clock(), chunk, failed_at)
        released = breaker.pending_write is PendingWrite.RELEASE_PROBE
        if released or state.generation != before:
            self.changed.set()
        if state.generation == before:
            return
        if state.phase is BreakerPhase.CLOSED:
            telemetry.emit(self.log, "breaker.closed", dependency=name)
            return
        telemetry.emit(
            self.log,
            "breaker.opened",
            dependency=name,
            error_code=breaker.failure_code,
            delay_s=round(state.open_until - self.clock(), 3),
            failed_probes=state.failed_probes,
        )

    @property
    def has_pending_writes(self) -> bool:
        """Whether there is a change to write to the record."""
        breakers = self.by_name.values()
        return self.record is not None and any(each.has_change for each in breakers)

    def rejected_for_s(self, dependency: str, chunk: str = "") -> float | None:
        """Return the seconds until another call is worth a try; None: now."""
        breaker = self.by_name.get(dependency)
        if breaker is None or breaker.state.phase is BreakerPhase.CLOSED:
            return None
        if breaker.state.heard.is_outlier(chunk):
            return None
        return max(PROBE_RETRY_S, breaker.state.open_until - self.clock())

    def failure_code(self, dependency: str) -> str:
        """Return the code of the last failure of a dependency; empty: unknown."""
        breaker = self.by_name.get(dependency)
        return "" if breaker is None else breaker.failure_code

    def prefetch(self) -> None:
        """Start to read the record before the calls come, so that they wait less.

        A process that has made no call yet reads the record, too, but rarely. The
        record also has the caps of tenants.
        """
        if self.record is None or self._sync_lock.locked() or not self._is_stale():
            return
        read_at = self._read_at
        is_due = read_at is None or self.clock() - read_at > WITHOUT_CALLS_S
        if self.called or is_due:
            self._prefetching = asyncio.create_task(self.refresh())
            self._prefetching.add_done_callback(_retrieve_exception)

    async def refresh(self) -> None:
        """Read the record if the last read is stale; concurrent calls share a read."""
        while self.record is not None and self._is_stale():
            if self._sync_lock.locked():
                # An event wakes all waiting calls at once; a lock, one after another.
                await self._synced.wait()
                continue
            async with self._sync_lock:
                await self._sync(self.record)

    def _is_stale(self) -> bool:
        return self._read_at is None or self.clock() - self._read_at > SNAPSHOT_TTL_S

    async def sync(self) -> None:
        """Write the changes of this process, and adopt the fleet's record."""
        if self.record is not None and self.called:
            async with self._sync_lock:
                await self._sync(self.record)

    async def _sync(self, record: BreakerRecord) -> None:
        self.changed.clear()
        self._synced.clear()
        try:
            async with asyncio.timeout(RECORD_TIMEOUT_S):
                for name, breaker in list(self.by_name.items()):
                    await breaker.write_change(name, record)
                self._snapshots = await record.read_all()
        except (StoreError, TimeoutError) as error:
            self._log_unreachable(error)
        else:
            for name, breaker in self.by_name.items():
                breaker.apply_read(self._snapshots.get(name))
        finally:
            self._synced.set()
        self._read_at = self.clock()

    def _log_unreachable(self, error: Exception) -> None:
        telemetry.emit(
            self.log, "breaker.record_unreachable", error=type(error).__name__
        )


def _retrieve_exception(prefetch: asyncio.Task[None]) -> None:
    """Mark a failure as seen: the next call that reads the record raises it again."""
    if not prefetch.cancelled():
        prefetch.exception()
