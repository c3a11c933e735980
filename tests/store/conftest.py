"""The stores on the model of DynamoDB: each test has its own tables and its own job."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

import pytest

from piecework.aws.objects import Objects
from piecework.cost.meter import CostMeter
from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.claim import Claim
from piecework.domain.moments import iso
from piecework.domain.refs import ChunkRef, JobRef
from piecework.domain.states import JobStatus
from piecework.settings import Settings
from piecework.store.checkpoints import ChunkCheckpoints
from piecework.store.claims import Claims
from piecework.store.completion import Tallies
from piecework.store.dead_letters import DeadLetters
from piecework.store.effects import EffectLedger
from piecework.store.job_transitions import JobTransitions
from piecework.store.jobs import Jobs
from piecework.store.serialization import from_item, to_item
from piecework.store.settlements import Settlements
from piecework.store.table import Table
from piecework.store.takeovers import Takeovers
from piecework_simulation.aws.dynamodb import Change
from piecework_simulation.in_process import InProcessAws
from tests.store.pipelines import PIPELINE

T = TypeVar("T")
APP, ENV = "piecework", "store"
WRITES = {
    "batch_execute_statement",
    "delete_item",
    "put_item",
    "transact_write_items",
    "update_item",
}
NOW = 1_700_000_000.0
SETTINGS = Settings(app=APP, env=ENV, lease_s=60, clock_skew_s=5, max_attempts=3)


@dataclass
class Store:
    """The stores of one test, and its own look behind them."""

    aws: InProcessAws
    client: Any
    ref: JobRef
    now: float = NOW
    rng: Random = field(default_factory=lambda: Random(1))
    changes: list[Change] = field(default_factory=list)

    @property
    def table(self) -> Table:
        return Table(self.client, SETTINGS.checkpoints_table, self.rng)

    @property
    def dead_letter_table(self) -> Table:
        return Table(self.client, SETTINGS.dead_letters_table, self.rng)

    @property
    def objects(self) -> Objects:
        return self.aws.runtime().objects

    def clock(self) -> float:
        return self.now

    @property
    def chunk(self) -> ChunkRef:
        return self.ref.chunk(3)

    @property
    def claims(self) -> Claims:
        return Claims(self.table, SETTINGS, "worker", self.clock, self.rng)

    @property
    def settlements(self) -> Settlements:
        return Settlements(self.table, self.dead_letter_table, SETTINGS, self.clock)

    @property
    def jobs(self) -> Jobs:
        return Jobs(self.table, self.clock)

    @property
    def transitions(self) -> JobTransitions:
        return JobTransitions(self.table, self.clock)

    @property
    def takeovers(self) -> Takeovers:
        return Takeovers(self.table, SETTINGS, self.clock)

    @property
    def tallies(self) -> Tallies:
        return Tallies(self.table)

    @property
    def dead_letters(self) -> DeadLetters:
        return DeadLetters(self.dead_letter_table, SETTINGS, self.clock)

    def ledger(self, claim: Claim) -> EffectLedger:
        return EffectLedger(self.table, self.objects, claim, self.clock)

    def checkpoints(self, claim: Claim) -> ChunkCheckpoints:
        ledger = self.ledger(claim)
        return ChunkCheckpoints(
            self.table, self.objects, claim, PIPELINE, ledger, self.clock
        )

    # ── items as they lie there ─────────────────────────────────────────────

    async def put(self, pk: str, sk: str, table: str = "", **item: Any) -> None:
        await self.client.put_item(
            TableName=table or SETTINGS.checkpoints_table,
            Item=to_item({"pk": pk, "sk": sk, **item}),
        )

    async def put_chunk(self, **facts: Any) -> Chunk:
        """Lay a chunk down: PENDING and untouched but for what is said."""
        item = {
            "v": 1,
            "status": "PENDING",
            "gen": 2,
            "fence": 0,
            "attempts": 0,
            "stage": "first",
            "chunk": 3,
        }
        facts = {name: v for name, v in (item | facts).items() if v is not None}
        await self.put(self.chunk.pk, self.chunk.sk, **facts)
        return Chunk.read(self.chunk, facts)

    async def put_job(self, status: JobStatus, gen: int = 2, **facts: Any) -> Any:
        item = {"status": status, "gen": gen, "chunks": 5, "pipeline": "p"}
        if status not in {JobStatus.SUBMITTING, JobStatus.REOPENING}:
            item["opened_at"] = iso(self.now - 9_000)
        if status is JobStatus.PAUSED:
            item |= {"pause_code": "operator", "pause_message": "why"}
            item |= {"paused_by": "me", "paused_at": iso(self.now - 9)}
        await self.put(self.ref.pk, keys.META_SK, **item | facts)
        return await self.jobs.read(self.ref)

    async def running(self, **facts: Any) -> Claim:
        """Lay a claimed chunk down and return its claim."""
        item = {
            "status": "RUNNING",
            "fence": 4,
            "attempts": 2,
            "claim_token": "ours",
            "claimed_by": "worker",
            "claim_expires_at": iso(self.now + 60),
            "started_at": iso(self.now - 1),
            "renewals": 7,
        }
        chunk = await self.put_chunk(**(item | facts))
        return Claim(self.chunk, chunk.gen, chunk.fence, "ours", "worker", chunk)

    async def change(self, pk: str = "", sk: str = "", **facts: Any) -> None:
        """Change attributes of an item behind everybody's back; None removes."""
        pk, sk = pk or self.chunk.pk, sk or self.chunk.sk
        item = await self.table.get(pk, sk) or {}
        facts = {n: v for n, v in (item | facts).items() if v is not None}
        del facts["pk"], facts["sk"]
        await self.put(pk, sk, **facts)

    async def drop(self, pk: str = "", sk: str = "") -> None:
        """Delete an item: the chunk, unless another one is said."""
        key = {"pk": {"S": pk or self.chunk.pk}, "sk": {"S": sk or self.chunk.sk}}
        await self.client.delete_item(TableName=SETTINGS.checkpoints_table, Key=key)

    async def item(self, pk: str = "", sk: str = "") -> dict[str, Any]:
        """Return an item as it lies there, of whatever version."""
        reply = await self.client.get_item(
            TableName=SETTINGS.checkpoints_table,
            Key={"pk": {"S": pk or self.chunk.pk}, "sk": {"S": sk or self.chunk.sk}},
            ConsistentRead=True,
        )
        return from_item(reply.get("Item", {}))

    # ── what an act changes ────────────────────────────────────────────────

    async def does(self, act: Awaitable[T]) -> tuple[T, dict[str, dict[str, Any]]]:
        """Return the answer to an act, and what it changed: see `changed`."""
        self.changes.clear()
        return await act, self.changed()

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Fail if the block changes a row, in whichever table."""
        self.changes.clear()
        yield
        assert {} == self.changed()

    def changed(self) -> dict[str, dict[str, Any]]:
        """Return by sort key what rows have now in place of before; None: no more."""
        rows: dict[tuple[str, str, str], tuple[Any, Any]] = {}
        for table, pk, sk, old, new, _ in self.changes:
            first, _ = rows.setdefault((table, pk, sk), (old, new))
            rows[table, pk, sk] = first, new
        found = {}
        for (_, _, sk), sides in rows.items():
            old, new = (from_item(side or {}) for side in sides)
            if old != new:
                names = {n for n in (*old, *new) if old.get(n) != new.get(n)}
                found[sk] = {name: new.get(name) for name in names}
        return found


class Between:
    """A client in the place of another, which it sends each write by."""

    client: Any

    def __getattr__(self, name: str) -> Any:
        send = getattr(self.client, name)
        return functools.partial(self.write, send) if name in WRITES else send

    async def write(self, send: Any, **request: Any) -> Any:
        raise NotImplementedError


class Stutter(Between):
    """A client whose first answer is lost: the SDK sends the same request again."""

    def __init__(
        self, client: Any, between: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self.client = client
        self.between = between
        self.sent = 0

    async def write(self, send: Any, **request: Any) -> Any:
        self.sent += 1
        await send(**request)
        if self.between is not None:
            await self.between()
        return await send(**request)


class Kept(Between):
    """A client that keeps its last write: a copy of it may arrive once more."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.last: Callable[[], Awaitable[Any]] | None = None
        self.writes = 0

    async def write(self, send: Any, **request: Any) -> Any:
        self.writes += 1
        answer = await send(**request)
        # DynamoDB knows the token of a transaction for ten minutes; the copy is later.
        request.pop("ClientRequestToken", None)
        self.last = functools.partial(send, **request)
        return answer

    async def once_more(self) -> None:
        """Let the copy arrive; no process waits for its answer."""
        assert self.last is not None
        await self.last()


class Before(Between):
    """A client before whose n-th write something happens."""

    def __init__(
        self, client: Any, n: int, happens: Callable[[], Awaitable[Any]]
    ) -> None:
        self.client, self.left, self.happens = client, n, happens

    async def write(self, send: Any, **request: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            await self.happens()
        return await send(**request)


class Deaf(Between):
    """A client whose first answer is lost for good, though its write was applied."""

    def __init__(self, client: Any, error: Exception) -> None:
        self.client = client
        self.error: Exception | None = error

    async def write(self, send: Any, **request: Any) -> Any:
        reply = await send(**request)
        error, self.error = self.error, None
        if error is not None:
            raise error
        return reply


@pytest.fixture
def store() -> Store:
    """Return the stores of a job in tables of its own, on the model of DynamoDB."""
    aws = InProcessAws(SETTINGS, rng=Random(1))
    client = aws.client(aws.dynamodb, CostMeter("worker"))
    store = Store(aws, client, JobRef("tenant", "job"))
    aws.dynamodb.on_write = store.changes.extend
    return store
