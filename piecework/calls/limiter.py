"""The limits of one dependency in one process, shared with the fleet by its record.

    start         a call waits for its start
    note_refusal  the dependency answered a call with 429
    turn          what a call holds from its start until a second after its request
    release       a call has ended: another one may be in flight
    correct       the tokens that the call used, once it was answered
    adopt         a record that the process has read

While calls wait, one task reserves starts, about once a second in one write for all
of them. It hands them out when their time has come. While the record is unreachable,
calls wait: without it no worker knows what the others use.

All parts are in one file, because they share the waiting calls and the record.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import inf
from random import Random
from typing import Any, Final, Protocol

from piecework import telemetry
from piecework.calls.portion import LEFT, TURN_S, Portion, Turn
from piecework.calls.serving_task import (
    RECORD_TIMEOUT_S,
    WRITE_S,
    ServingTask,
    retry_lost_races,
)
from piecework.domain.moments import MICROS
from piecework.errors import StoreError
from piecework.resilience.limits import (
    AHEAD,
    NO_LIMITS,
    Limits,
    Quota,
    Reply,
    Start,
    micros,
    plan_starts,
    quota_exhausted_error,
    require_possible,
)
from piecework.resilience.pace import after_refusal
from piecework.resilience.shares import NO_SHARE

#: Writes of the whole fleet in a second. In a larger fleet each worker writes less
#: often, so that few of its writes lose a race.
FLEET_WRITES: Final = 20.0
#: The shortest time over which the writes of other workers are counted, in seconds.
MIN_SECONDS: Final = 0.5
#: The longest write for which the next one leaves time, in microseconds.
MOST_DELAY: Final = round(0.2 * MICROS)
#: Seconds after which a worker without room writes only to see what has changed.
REREAD_S: Final = 3.0
#: The microseconds over which a process counts answered calls.
RECENT: Final = 5 * MICROS
#: The most seconds for which a call that had no quota is deferred.
MOST_BACKLOG_S: Final = 120.0
#: Starts are reserved before their calls come only if the fleet leaves that much of the
#: schedule unused. Otherwise another worker has a call that waits.
SLACK: Final = round(0.3 * MICROS)


class QuotaRecord(Protocol):
    """The fleet's record of the quota of each dependency."""

    async def read(self, name: str) -> Quota:
        """Read the quota of a dependency; a new one if it has no record."""

    async def write(self, name: str, seen: int, quota: Quota) -> Reply:
        """Write a quota unless its `seq` is not the one that was seen."""


@dataclass(slots=True)
class Waiting:
    """A call that waits for its start."""

    tokens: int
    granted: asyncio.Future[Start]


@dataclass(slots=True)
class Limiter:
    """The limits of one dependency in one process.

    Attributes:
        quota: The record as this process last read or wrote it.
        waiting: The calls that wait, in order of arrival.
        held: The reserved starts that no call has used yet, in order of time.
        correction: The tokens that calls used above those of their starts, until the
            next write.
        flight: The calls in flight.
        turns: The requests of the last second.
        refusals: The refused calls that the record does not have yet, by their start,
            each with the seconds of its Retry-After.
        answers: The times of the last answers.
        arrived, arrived_tokens: The calls that came since the last reservation.
        reserved_at, read_at: Loop times of the last reservation, and of the last reply.
        write_every_s: Seconds between two writes.
        delay: Microseconds that the last write took.
        contended: Whether other workers wrote since the last reservation. Then a read
            comes first, because it costs less than a write that is refused.
    """

    name: str
    clock: Callable[[], float]
    rng: Random
    log: telemetry.Log
    record: QuotaRecord | None
    answers: deque[int]
    worker: str
    declared: Limits = NO_LIMITS
    quota: Quota = field(default_factory=Quota)
    waiting: deque[Waiting] = field(default_factory=deque)
    held: deque[Start] = field(default_factory=deque)
    correction: int = 0
    flight: Portion = field(default_factory=Portion)
    turns: Portion = field(default_factory=lambda: Portion(TURN_S))
    refusals: list[tuple[int, float]] = field(default_factory=list)
    arrived: int = 0
    arrived_tokens: int = 0
    reserved_at: float = -inf
    read_at: float = -inf
    write_every_s: float = WRITE_S
    delay: int = 0
    contended: bool = False
    _write_at: float = 0.0
    _task: ServingTask = field(init=False)

    def __post_init__(self) -> None:
        self._task = ServingTask(self.waiting, self._serve)

    @property
    def limits(self) -> Limits:
        """The limits in force, as far as this process knows."""
        operator = self.quota.operator
        return self.declared.changed_by(operator) if operator else self.declared

    def is_limited(self) -> bool:
        """Return whether calls need a start now."""
        return bool(self.limits) or self.quota.pace.is_active(self._now())

    def adopt(self, quota: Quota) -> None:
        """Take a record that was read, unless this process knows a later one."""
        if quota.seq >= self.quota.seq:
            self._take(quota)
            self._task.wake()

    async def start(self, tokens: int, until: float) -> Start:
        """Wait for a start, until a time of the event loop.

        Raises:
            PermanentError: `runtime.quota.call_too_large`.
            TransientError: `runtime.quota.exhausted`: there was no start in time.
        """
        require_possible(self.name, tokens, self.limits)
        self.arrived += 1
        self.arrived_tokens += tokens
        future: asyncio.Future[Start] = asyncio.get_running_loop().create_future()
        self.waiting.append(Waiting(tokens, future))
        for _, part, _ in self._divided_limits():
            part.peak = max(part.peak, part.in_use() + len(self.waiting))
        self._hand_out(self._now())
        self._task.ensure_running()
        try:
            async with asyncio.timeout_at(until):
                return await future
        except TimeoutError:
            if not future.cancelled():  # given in the loop round in which the wait ends
                return future.result()
            raise quota_exhausted_error(self.name, self._backlog_s()) from None
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.held.appendleft(future.result())
                self.turn().give_back()
                self.release()
            raise

    def turn(self) -> Turn:
        """Return what a call with a start holds until its request was sent."""
        return Turn(self.turns, self._task.wake)

    def release(self) -> None:
        """Note that a call has ended that had received a start."""
        self.flight.release()
        if self.limits.are_divided:
            self._task.ensure_running()

    def note_refusal(self, started: int, retry_after: float | None) -> None:
        """Slow the fleet down: the dependency answered a call with 429."""
        self.refusals.append((started, retry_after or 0.0))
        self._task.ensure_running()

    def correct(self, estimated: int, used: int) -> None:
        """Correct the tokens of an answered call."""
        if self.limits.tokens_per_minute is not None and used != estimated:
            self.correction += used - estimated
            self._task.ensure_running()

    async def _serve(self) -> None:
        """Reserve starts and hand them out until no call waits.

        A write is a task of its own: starts are handed out while it is under way.
        """
        writing: asyncio.Task[None] | None = None
        while True:
            self._task.note_look()
            self._hand_out(self._now())
            if writing is not None and writing.done():
                writing = writing.result()
            wants = self._wants_write()
            divided = [part for _, part, _ in self._divided_limits()]
            shares = [part.share for part in divided if part.share.calls]
            if not (self.waiting or wants or writing or shares):
                return
            if wants and writing is None and self._until_write_s() <= 0:
                writing = asyncio.create_task(self._write())
                writing.add_done_callback(lambda _: self._task.wake())
            waits = []
            if wants and writing is None:
                waits.append(self._until_write_s())
            elif writing is None:
                now = self._now()
                waits += [(share.until - LEFT - now) / MICROS for share in shares]
            waits += [part.next_change_s() for part in divided]
            if self.waiting and self._may_start():
                now = self._now()
                waits += [
                    (each.at - now) / MICROS for each in self.held if each.at > now
                ][:1]
            soonest = min(waits, default=inf)
            await self._task.wait(None if soonest == inf else max(0.0, soonest))

    def _wants_write(self) -> bool:
        """Return whether there is something to reserve, to renew or to report."""
        waiting, now = len(self.waiting), self._now()
        if any(part.wants_write(waiting, now) for _, part, _ in self._divided_limits()):
            return True
        missing = any(True for _ in self._without_start())
        missing = missing and self._is_paced()
        return missing or self._ahead() > 0 or bool(self.correction or self.refusals)

    def _divided_limits(self) -> list[tuple[str, Portion, int]]:
        """Return the limits that are divided, with the parts of this process.

        Each has the name of its shares in the record.
        """
        limits = self.limits
        both = (
            ("shares", self.flight, limits.concurrent),
            ("turns", self.turns, limits.requests_per_second),
        )
        return [(name, part, most) for name, part, most in both if most is not None]

    def free_slots(self) -> int:
        """Return how many calls may start at once, beside those that wait."""
        free = self.flight.free(self.limits.concurrent or 0, self._now())
        return max(0, int(free) - len(self.waiting))

    def _may_start(self) -> bool:
        """Return whether one more call may start, if its time has come."""
        now = self._now()
        return all(
            part.may_take(limit, now) for _, part, limit in self._divided_limits()
        )

    def _room(self) -> int:
        """Return how many more calls can start before the next reservation."""
        room, now = len(self.waiting), self._now()
        if self.limits.concurrent is not None:
            ended = sum(now - at < AHEAD for at in self.answers)
            room = min(room, max(0, self.flight.most - self.flight.in_use()) + ended)
        if self.limits.requests_per_second is not None:
            room = min(room, self.turns.most * 2)  # within `AHEAD` seconds
        return room

    def _is_paced(self) -> bool:
        """Return whether a call needs a start at a time."""
        return self.limits.have_rate or self.quota.pace.is_active(self._now())

    def _until_write_s(self) -> float:
        """Return the seconds until the next reservation."""
        return self._write_at - asyncio.get_running_loop().time()

    def _hand_out(self, now: int) -> None:
        """Give the starts whose time has come to the calls that wait."""
        while self.held and self.held[0].is_late(now):
            self.held.popleft()  # its part of the schedule has passed
        while self.waiting:
            if self.waiting[0].granted.done():  # the call has given up
                self.waiting.popleft()
            elif not self._may_start():
                return
            elif not self._is_paced():
                self._let_start(Start(now, self.waiting[0].tokens), self.waiting[0])
            elif fitting := self._due_and_fitting(now):
                start, call = fitting
                self.held.remove(start)
                self._let_start(start, call)
            else:
                return

    def _due_and_fitting(self, now: int) -> tuple[Start, Waiting] | None:
        """Return the earliest due start that a call fits, and the first such call.

        A start that was reserved before its call came may have too few tokens for the
        call that waits longest. That call then waits for a start of its own.
        """
        for start in itertools.takewhile(lambda each: each.at <= now, self.held):
            for call in self.waiting:
                if self._fits(call, start) and not call.granted.done():
                    return start, call
        return None

    def _fits(self, call: Waiting, start: Start) -> bool:
        """Return whether a start has enough tokens for a call."""
        return self.limits.tokens_per_minute is None or call.tokens <= start.tokens

    def _without_start(self) -> Iterator[Waiting]:
        """Yield the calls with room in this worker that no held start fits."""
        held = list(self.held)
        for call in itertools.islice(
            self.waiting, min(len(self.waiting), self._room())
        ):
            if call.granted.done():
                continue
            start = next((each for each in held if self._fits(call, each)), None)
            if start is None:
                yield call
            else:
                held.remove(start)

    def _let_start(self, start: Start, call: Waiting) -> None:
        """Let a call go at its start."""
        self.waiting.remove(call)
        self.flight.take()
        self.turns.take()
        call.granted.set_result(start)

    def _wanted(self) -> Iterator[int]:
        """Yield the tokens of the calls that have no start yet, then of expected ones.

        No start is reserved ahead of its call if the fleet uses its whole quota.
        """
        yield from (call.tokens for call in self._without_start())
        average = self.arrived_tokens // max(1, self.arrived)
        yield from itertools.repeat(average, self._ahead())

    def _ahead(self) -> int:
        """Return how many starts to reserve for calls that have not come yet.

        They are as many as came in the last second. It returns 0 while the fleet uses
        its whole quota, because another worker has calls that wait.
        """
        now = self._now()
        if not self._is_paced() or self.quota.next_start(now) > now + SLACK:
            return 0
        seconds = asyncio.get_running_loop().time() - self.reserved_at
        expected = int(self.arrived * WRITE_S / max(WRITE_S, seconds))
        return max(0, expected - max(0, len(self.held) - len(self.waiting)))

    async def _write(self) -> None:
        """Reserve starts for the calls that wait, in one write unless others write."""
        loop_time = asyncio.get_running_loop().time
        try:
            async with asyncio.timeout(RECORD_TIMEOUT_S):
                if self.contended and self.record is not None:
                    self._note_read(await self.record.read(self.name))
                await retry_lost_races(self.rng, self._write_once)
        except (StoreError, TimeoutError) as error:
            telemetry.emit(
                self.log,
                "limits.record_unreachable",
                dependency=self.name,
                error=type(error).__name__,
            )
        self.arrived = self.arrived_tokens = 0
        for part in (self.flight, self.turns):
            part.peak = part.in_use() + len(self.waiting)
        self.reserved_at = loop_time()
        self._write_at = self.reserved_at + self.write_every_s * self.rng.uniform(
            0.9, 1.1
        )

    async def _write_once(self) -> bool:
        """Write one reservation; False: another worker was faster."""
        now, loop_time = self._now(), asyncio.get_running_loop().time()
        seen, correction = self.quota.seq, self.correction
        refusals, waiting = len(self.refusals), len(self.waiting)
        stored = self._slowed(replace(self.quota, declared=self.declared))
        quota, starts = plan_starts(
            stored, self._wanted(), now, correction=correction, delay=self.delay
        )
        if not self._is_paced():
            quota, starts = replace(stored, seq=stored.seq + 1), ()
        most, divided = dict[str, int](), dict[str, Any]()
        for name, part, limit in self._divided_limits():
            divided[name], most[name] = part.divided(
                getattr(quota, name), self.worker, waiting=waiting, limit=limit, now=now
            )
        quota = replace(quota, **divided)
        is_new = starts or correction or stored.pace != self.quota.pace
        is_new = is_new or quota.are_divided_otherwise(stored)
        if not is_new and loop_time - self.read_at < REREAD_S:
            return True
        if self.record is None:
            reply = Reply(quota, ours=True)
        else:
            reply = await self.record.write(self.name, seen, quota)
        self.delay = min(self._now() - now, MOST_DELAY)
        self._note_read(reply.quota, ours=reply.ours)
        if reply.ours:
            self.held.extend(starts)
            for name, part, _ in self._divided_limits():
                part.most = most.get(name, 0)
            self.correction -= correction
            del self.refusals[:refusals]
        return reply.ours

    def _slowed(self, quota: Quota) -> Quota:
        """Return the quota after the refusals that the record does not have yet."""
        pace, now = quota.pace, self._now()
        answered = sum(now - at < RECENT for at in self.answers)
        accepted = answered / max(1, answered + len(self.refusals))
        for started, retry_after in self.refusals:
            pace = after_refusal(
                pace,
                started=started,
                now=now,
                retry_after_s=retry_after,
                accepted=accepted,
                limit=quota.limits.requests_a_minute,
                delay=AHEAD,
            )
        return replace(quota, pace=pace)

    def _note_read(self, quota: Quota, *, ours: bool = False) -> None:
        """Take the record, and how often this worker writes beside the others."""
        now = asyncio.get_running_loop().time()
        others = quota.seq - self.quota.seq - ours
        seconds = max(now - self.read_at, MIN_SECONDS)
        if others > 0 or seconds > WRITE_S / 2:
            self.contended = others > 0
            self.write_every_s = max(
                WRITE_S, self.write_every_s * others / seconds / FLEET_WRITES
            )
        self._take(quota)
        self.read_at = now

    def _take(self, quota: Quota) -> None:
        """Take a record, and the shares of this process in it."""
        self.quota = quota
        self.flight.share = quota.shares.get(self.worker, NO_SHARE)
        self.turns.share = quota.turns.get(self.worker, NO_SHARE)
        now = self._now()
        self.turns.others_want = any(
            share.wants and share.until > now
            for name, share in quota.turns.items()
            if name != self.worker
        )

    def _backlog_s(self) -> float:
        """Return after how many seconds the calls that wait now have started.

        At most `MOST_BACKLOG_S`: an operator may raise the limit before.
        """
        now = self._now()
        quota = replace(self.quota, declared=self.declared)
        tokens = sum(call.tokens for call in self.waiting)
        waiting, a_second = len(self.waiting), quota.limits.requests_per_second
        turns = 0 if a_second is None else -(-waiting * micros(TURN_S) // a_second)
        spans = quota.request_span(now) * waiting, quota.token_span(tokens), turns
        return min(MOST_BACKLOG_S, (AHEAD + max(spans)) / MICROS)

    def _now(self) -> int:
        return micros(self.clock())
