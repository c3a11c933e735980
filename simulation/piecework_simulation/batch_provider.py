"""Simulate the batches of a provider, with a book of what each answered row cost.

A provider goes on with a batch though a worker has died. A row is executed as a direct
call is, and billed once its batch is over. All draws are from a generator of its own,
so that the other draws of a seed stay what they were.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from piecework.dependency import bare, key_argument
from piecework.domain.batch import custom_id
from piecework.errors import TransientError
from piecework.llm.batches.port import (
    BatchLimits,
    BatchRow,
    BatchState,
    BatchStatus,
    RowAnswered,
    RowExpired,
    RowFailed,
    RowOutcome,
    RowUnreadable,
)
from piecework.llm.batches.row_errors import results_gone
from piecework.llm.request import ModelAnswer, ModelRequest
from piecework.resilience.batching import Batching
from piecework.resilience.lanes import BATCH
from piecework_simulation.provider import (
    DELIVERY_S,
    PROVIDER,
    TIER_NANO_USD,
    ChunkKey,
    OutgoingCall,
    Provider,
    ProviderError,
)

#: Seconds that a batch takes, and one that is late, at most.
TAKES_S: Final = (5.0, 600.0)
LATE_S: Final = 3_600.0
#: The most rows of a batch, by the provider of a schedule: few make several batches.
MOST_ROWS: Final = (2, 3, 50_000, 50_000)
#: Seconds of clocks that a search for a batch allows for.
CLOCKS_S: Final = 60.0
EVEN: Final = 0.5


@dataclass(slots=True, eq=False)
class Batch:
    """A batch at the provider.

    Attributes:
        ends_at: When it ends by itself, on the loop's clock.
        state: Its end by itself; it is in progress until then.
        answered_at: When each row that it answers is answered.
        outcomes: By its rows, what its output says at its end by itself.
        again: Rows that its output has twice.
        more: Further lines of its output.
        is_gone: Whether its output is deleted before it is read.
    """

    id: str
    digest: str
    rows: tuple[str, ...]
    created_at: float
    ends_at: float
    state: BatchState = BatchState.ENDED
    answered_at: dict[str, float] = field(default_factory=dict)
    outcomes: dict[str, RowOutcome] = field(default_factory=dict)
    refused: dict[str, TransientError] = field(default_factory=dict)
    again: list[tuple[str, RowOutcome]] = field(default_factory=list)
    more: list[RowOutcome] = field(default_factory=list)
    is_gone: bool = False

    def cancel(self, now: float) -> None:
        """End it now, unless it has ended."""
        if now < self.ends_at:
            self.ends_at, self.state = now, BatchState.CANCELLED

    def output(self) -> list[RowOutcome]:
        """Return what its output says: rows that came too late are expired."""
        if self.state is BatchState.FAILED:
            return []
        found = [*self.outcomes.items(), *self.again]
        return [
            each
            if self.answered_at.get(name, 0.0) <= self.ends_at
            else RowExpired(name)
            for name, each in found
        ] + self.more

    @property
    def billed(self) -> list[str]:
        """The rows that it bills, each once."""
        found = {o.custom_id for o in self.output() if isinstance(o, RowAnswered)}
        return sorted(found & {*self.rows})


@dataclass(slots=True)
class BatchService:
    """The batches of all providers of a world, and what was asked of them.

    Attributes:
        limits: How large a batch may be, and whether a digest finds it.
        calls: The calls that stages have made, by the names of their rows.
        batches: All batches, by their ids.
    """

    provider: Provider
    rng: Random
    limits: BatchLimits = field(init=False)
    calls: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = (
        field(default_factory=dict)
    )
    outgoing: dict[str, OutgoingCall] = field(default_factory=dict)
    batches: dict[str, Batch] = field(default_factory=dict)
    _billed: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Draw the kind of the provider."""
        rng = self.rng
        exact, most = rng.random() < EVEN, rng.choice(MOST_ROWS)
        self.limits = BatchLimits(most, 1_000_000, 100_000, finds_exactly=exact)

    @property
    def now(self) -> float:
        """The time on the loop's clock."""
        return self.provider.world.loop.moment

    def fires(self, kind: str) -> bool:
        """Return whether a fault happens, by the generator of batches."""
        return self.provider.world.faults.fires(kind, self.rng)

    def note_call(
        self,
        outgoing: OutgoingCall,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        """Note a call of a stage that a batch may answer."""
        if outgoing.dependency.lane.tier == BATCH:
            name = custom_id(outgoing.identity)
            self.calls[name] = function, args, kwargs
            self.outgoing[name] = outgoing

    async def request(self, name: str) -> None:
        """Carry a request to the provider.

        Raises:
            ProviderError: It is refused, or the provider is not there.
        """
        await asyncio.sleep(self.rng.random() * DELIVERY_S / 4)
        if self.fires("batch.denied"):
            raise ProviderError(401)
        if self.fires("batch.unreachable"):
            raise ProviderError(503)
        self.provider.world.note(None, f"batches: {name}", None)

    # ── requests ────────────────────────────────────────────────────────────

    async def create(self, rows: Iterable[BatchRow], digest: str) -> str:
        """Create a batch, though its worker may die; the reply may be lost."""
        names = tuple(row.custom_id for row in rows)
        world = self.provider.world
        reply: asyncio.Future[Batch] = world.loop.create_future()

        async def land() -> None:
            await asyncio.sleep(self.rng.random() * DELIVERY_S)
            batch = await self.accept(names, digest)
            if not reply.done():
                reply.set_result(batch)

        if self.fires("batch.denied"):
            raise ProviderError(403)
        if self.fires("batch.unreachable"):
            raise ProviderError(429)
        world.loop.create_task(land(), context=world.provider_context())
        batch = await reply
        if self.fires("batch.create_lost"):
            message = "The connection was closed."
            raise ConnectionResetError(message)
        return batch.id

    async def accept(self, names: tuple[str, ...], digest: str) -> Batch:
        """Accept a batch, and decide what becomes of it."""
        rng, now = self.rng, self.now
        late = self.fires("batch.late")
        took = rng.uniform(LATE_S / 4, LATE_S) if late else rng.uniform(*TAKES_S)
        name = f"batch_{len(self.batches)}"
        batch = Batch(name, digest, names, now, now + took)
        self.batches[name] = batch
        self.provider.world.note(None, f"batches: {name} of {len(names)} rows", None)
        for row in names:
            batch.answered_at[row] = now + rng.random() * took
            batch.outcomes[row] = await self.outcome(row)
        self.strike(batch)
        waits, service = batch.ends_at, self.provider
        service.waits_end_at = max(service.waits_end_at, waits)
        return batch

    def strike(self, batch: Batch) -> None:
        """Let the faults of a batch happen to it."""
        rng = self.rng
        if self.fires("batch.refused"):
            batch.state = BatchState.FAILED
            batch.ends_at = min(batch.ends_at, batch.created_at + 60.0)
            if rng.random() < EVEN:
                batch.refused[batch.rows[0]] = overloaded()
        if self.fires("batch.partial"):
            kept = [name for name in batch.rows if rng.random() < EVEN]
            batch.outcomes = {name: batch.outcomes[name] for name in kept}
        if self.fires("batch.expired"):
            self.expire(batch)
        if self.fires("batch.row_twice") and batch.outcomes:
            batch.again.append(rng.choice([*batch.outcomes.items()]))
        if self.fires("batch.row_unknown"):
            batch.more.append(RowAnswered("f" * 63, ModelAnswer("x", "stop", 1, 1)))
            batch.more.append(RowUnreadable(b"\xff", "it is not JSON"))
        batch.is_gone = self.fires("batch.gone")

    def expire(self, batch: Batch) -> None:
        """Let the rows of a batch expire that are not answered by some time."""
        batch.state = BatchState.EXPIRED
        cut = self.rng.uniform(batch.created_at, batch.ends_at)
        for name in [*batch.outcomes]:
            if batch.answered_at[name] > cut:
                batch.outcomes[name] = RowExpired(name)

    async def outcome(self, name: str) -> RowOutcome:
        """Execute a row, as a direct call would be."""
        if self.fires("batch.row_failed") or name not in self.calls:
            return RowFailed(name, overloaded())
        function, args, kwargs = self.calls[name]
        carry_out = bare(function)
        stubs = self.provider.stubs
        if carry_out in stubs:
            self.provider.stubbed.add(carry_out)
            carry_out = bare(stubs[carry_out])
        else:
            carry_out = function
        try:
            value = carry_out(*args, **kwargs, **key_argument(carry_out, ""))
            value = await value if inspect.isawaitable(value) else value
        except Exception:  # noqa: BLE001 -- it is the pipeline's own
            return RowFailed(name, overloaded())
        answer = value if isinstance(value, ModelAnswer) else ModelAnswer(str(value))
        return RowAnswered(name, replace(answer, service_tier=BATCH))

    def status(self, batch: Batch) -> BatchStatus:
        """Return where a batch is; once it is over, it is billed."""
        world, over = self.provider.world, self.now >= batch.ends_at
        if over:
            self.bill(batch)
        at = world.now() - self.now
        return BatchStatus(
            batch.id,
            batch.state if over else BatchState.IN_PROGRESS,
            len(batch.rows),
            len(batch.billed) if over else 0,
            0,
            batch.created_at + at,
            batch.ends_at + at if over else None,
            refused=batch.refused if over else {},
        )

    # ── the book ────────────────────────────────────────────────────────────

    def bill(self, batch: Batch) -> None:
        """Count what a batch has answered as paid, once."""
        if batch.id in self._billed:
            return
        self._billed.add(batch.id)
        for name in batch.billed:
            self.provider.note_batched(self.outgoing[name], TIER_NANO_USD[BATCH])

    def close(self) -> None:
        """Bill what no collector has asked about."""
        for batch in self.batches.values():
            batch.cancel(self.now)
            self.bill(batch)

    def book(self, known: set[str]) -> Mapping[ChunkKey, tuple[int, int]]:
        """Return the billed rows of each chunk: those told to Piecework, and others.

        `known`: the batches whose ids Piecework has noted. It cannot know the rows of
        the others, nor those of an output that was deleted.
        """
        told, untold = Counter[ChunkKey](), Counter[ChunkKey]()
        for batch in self.batches.values():
            is_told = batch.id in known and not batch.is_gone
            for name in batch.billed:
                scope = self.outgoing[name].scope
                into = told if is_told else untold
                into[scope.tenant, scope.job, scope.chunk] += 1
        found = defaultdict[ChunkKey, tuple[int, int]](lambda: (0, 0))
        found |= {each: (told[each], untold[each]) for each in {*told, *untold}}
        return found


def overloaded() -> TransientError:
    """Return the error of a row that was not answered."""
    return TransientError("Overloaded.", code="llm.http.529_overloaded")


@dataclass(frozen=True, slots=True)
class SimulatedBatches:
    """The batches of a simulated provider, as a collector asks for them."""

    provider: str = "simulated"
    endpoint: str = "/simulated"

    @property
    def service(self) -> BatchService:
        """The service of the world that runs."""
        found: BatchService = PROVIDER.get().batches
        return found

    @property
    def limits(self) -> BatchLimits:
        """How large a batch may be."""
        return self.service.limits

    def row(self, custom_id: str, request: ModelRequest) -> BatchRow:
        """Return the row of a request."""
        return BatchRow(custom_id, {"text": request.text})

    def size_of(self, row: BatchRow) -> int:
        """Return how many bytes a row adds to its batch."""
        return len(str(row.body))

    async def create(self, rows: Iterable[BatchRow], digest: str) -> str:
        """Create a batch."""
        return await self.service.create(rows, digest)

    async def find(
        self, digest: str, planned_at: float, rows: int
    ) -> list[BatchStatus]:
        """Return the batches that a creation may have made."""
        await self.service.request("find")
        exact, world = self.limits.finds_exactly, self.service.provider.world
        since = world.at(planned_at) - CLOCKS_S
        found = [
            each
            for each in self.service.batches.values()
            if (each.digest == digest if exact else len(each.rows) == rows)
            and world.at(world.now()) - (self.service.now - each.created_at) >= since
        ]
        return [self.service.status(each) for each in reversed(found)]

    async def status(self, batch_id: str) -> BatchStatus:
        """Return where a batch is."""
        await self.service.request(f"status of {batch_id}")
        return self.service.status(self.service.batches[batch_id])

    async def outcomes(self, batch_id: str) -> AsyncIterator[RowOutcome]:
        """Yield the output of a batch; the connection may end within it."""
        await self.service.request(f"output of {batch_id}")
        batch = self.service.batches[batch_id]
        if batch.is_gone:
            raise results_gone()
        for each in batch.output():
            if self.service.fires("batch.unreachable"):
                message = "The connection was closed."
                raise ConnectionResetError(message)
            yield each

    async def cancel(self, batch_id: str) -> None:
        """Cancel a batch."""
        await self.service.request(f"cancel of {batch_id}")
        self.service.batches[batch_id].cancel(self.service.now)


@dataclass(frozen=True, slots=True)
class SimulatedBatching:
    """How a model is asked in batches, with the simulated provider behind it."""

    true: Batching
    provider: SimulatedBatches = SimulatedBatches()

    @property
    def key(self) -> str:
        """The key of the model."""
        return self.true.key

    @property
    def most_row_bytes(self) -> int:
        """The most bytes of a row; a larger one goes direct."""
        return self.provider.limits.most_row_bytes

    def row_of(self, *args: Any, **kwargs: Any) -> tuple[str, int]:
        """Return the row of a request, as the model makes it."""
        return self.true.row_of(*args, **kwargs)
