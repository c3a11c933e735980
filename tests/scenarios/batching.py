"""A pipeline that asks a model in the batch lane, and a provider with its own book.

The provider answers batches and direct requests. It keeps its batches while workers
die, and bills each row that it answers.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from piecework import pipeline
from piecework.errors import StageError, TransientError
from piecework.llm import Lane, Model, ModelAnswer, ModelRequest, Price
from piecework.llm.batches.port import (
    BatchLimits,
    BatchRow,
    BatchState,
    BatchStatus,
    RowAnswered,
    RowExpired,
    RowFailed,
    RowOutcome,
)

#: Dollars for a million tokens.
PRICE = Price(input=0.25, output=2.0, tiers={"batch": 0.5})
#: Seconds that a batch takes.
TAKES_S = 1_000.0


@dataclass
class Batch:
    """A batch at the provider."""

    id: str
    digest: str
    rows: dict[str, Any]
    created_at: float
    state: BatchState = BatchState.IN_PROGRESS
    is_billed: bool = False


def whole(_: str) -> str:
    """Answer each row."""
    return "answer"


@dataclass
class FakeProvider:
    """A provider with batches.

    Attributes:
        ends: What becomes of a row, by its custom id: `answer`, `expire`, `absent`,
            `refuse` or `twice`.
        takes_s: Seconds that a batch takes.
        on_request: Called before each request, by its name.
        loses_create: Whether the answer of the n-th creation is lost.
        validates: Whether the n-th batch is accepted.
        book: The tier and the tokens of each billed answer.
    """

    clock: Callable[[], float] = lambda: 0.0
    ends: Callable[[str], str] = whole
    takes_s: float = TAKES_S
    on_request: Callable[[str], Any] = lambda _: None
    after_request: Callable[[str], Any] = lambda _: None
    loses_create: Callable[[int], bool] = lambda _: False
    validates: Callable[[int], bool] = lambda _: True
    limits: BatchLimits = field(
        default_factory=lambda: BatchLimits(50_000, 200_000_000, 1_000_000)
    )
    batches: dict[str, Batch] = field(default_factory=dict)
    book: list[tuple[str, int, int]] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)

    provider = "fake"
    endpoint = "/v1/chat/completions"

    @property
    def nano_usd(self) -> int:
        """What it bills, in billionths of a dollar."""
        return sum(self.price(*entry) for entry in self.book)

    @property
    def direct_nano_usd(self) -> int:
        """What it would bill for the same answers without batches."""
        return sum(self.price("default", *tokens) for _, *tokens in self.book)

    @staticmethod
    def price(tier: str, tokens_in: int, tokens_out: int) -> int:
        """Return the price of an answer by its own tariff, in billionths."""
        part = {"batch": 500, "default": 1_000}[tier]
        return part * (tokens_in * 250 + tokens_out * 2_000) // 1_000

    async def _request(self, name: str) -> None:
        self.on_request(name)
        await asyncio.sleep(0.05)
        self.asked[name] += 1

    async def _answered(self, name: str) -> None:
        self.after_request(name)
        await asyncio.sleep(0.05)

    # Direct requests.

    async def __call__(self, request: ModelRequest) -> ModelAnswer:
        """Answer a direct request."""
        await asyncio.sleep(1.0)
        self.asked["direct"] += 1
        tokens = tokens_of(request.text)
        self.book.append(("default", *tokens))
        return ModelAnswer("yes", "stop", *tokens, response_model="fake-1")

    # Batches.

    def row(self, custom_id: str, request: ModelRequest) -> BatchRow:
        """Return a row."""
        return BatchRow(custom_id, {"model": request.model, "text": request.text})

    def size_of(self, row: BatchRow) -> int:
        """Return the bytes of a row."""
        return len(json.dumps(row.body))

    async def create(self, rows: Iterable[BatchRow], digest: str) -> str:
        """Create a batch; its answer may be lost."""
        await self._request("create")
        number = len(self.batches)
        found = {row.custom_id: dict(row.body) for row in rows}
        name = f"batch_{number}"
        self.batches[name] = Batch(name, digest, found, self.clock())
        if not self.validates(number):
            self.batches[name].state = BatchState.FAILED
        await self._answered("create")
        if self.loses_create(number):
            message = "The answer is lost."
            raise TransientError(message, code="llm.connection.timeout")
        return name

    async def find(
        self, digest: str, planned_at: float, rows: int
    ) -> list[BatchStatus]:
        """Find batches."""
        await self._request("find")
        found = [
            each
            for each in self.batches.values()
            if each.created_at >= planned_at - 60
            and (
                each.digest == digest
                if self.limits.finds_exactly
                else len(each.rows) == rows
            )
        ]
        return [self._status(each) for each in reversed(found)]

    async def status(self, batch_id: str) -> BatchStatus:
        """Return the status of a batch."""
        await self._request("status")
        return self._status(self.batches[batch_id])

    def _status(self, batch: Batch) -> BatchStatus:
        is_over = self.clock() - batch.created_at >= self.takes_s
        if batch.state is BatchState.IN_PROGRESS and is_over:
            batch.state = BatchState.ENDED
        if batch.state is not BatchState.IN_PROGRESS and not batch.is_billed:
            batch.is_billed = True
            for name, body in batch.rows.items():
                if self._end(batch, name) in {"answer", "twice"}:
                    self.book.append(("batch", *tokens_of(body["text"])))
        over = batch.state is not BatchState.IN_PROGRESS
        rows, ended = len(batch.rows), self.clock() if over else None
        return BatchStatus(batch.id, batch.state, rows, 0, 0, batch.created_at, ended)

    def _end(self, batch: Batch, name: str) -> str:
        if batch.state is BatchState.FAILED:
            return "absent"
        return self.ends(name) if batch.state is BatchState.ENDED else "expire"

    async def outcomes(self, batch_id: str) -> AsyncIterator[RowOutcome]:
        """Yield the outcomes of a batch."""
        await self._request("outcomes")
        batch = self.batches[batch_id]
        for name, body in batch.rows.items():
            tokens = tokens_of(body["text"])
            answer = ModelAnswer("yes", "stop", *tokens, response_model="fake-1")
            match self._end(batch, name):
                case "answer":
                    yield RowAnswered(name, answer)
                case "twice":
                    yield RowAnswered(name, answer)
                    yield RowAnswered(name, answer)
                case "expire":
                    yield RowExpired(name)
                case "refuse":
                    yield RowFailed(name, refused())

    async def cancel(self, batch_id: str) -> None:
        """Cancel a batch."""
        await self._request("cancel")
        batch = self.batches[batch_id]
        if self._status(batch).state is BatchState.IN_PROGRESS:
            batch.state = BatchState.CANCELLED


def refused() -> StageError:
    """Return the error of a row that is overloaded."""
    return TransientError("Overloaded.", code="llm.http.529_overloaded")


def tokens_of(text: str) -> tuple[int, int]:
    """Return the tokens of a request and its answer."""
    return 100 + len(text), 10 + len(text) % 3


@dataclass
class Caller:
    """The caller of the model; the provider of the test that runs answers."""

    provider: str = "fake"
    lanes: frozenset[str] = frozenset()

    async def __call__(self, request: ModelRequest) -> ModelAnswer:
        """Send a direct request."""
        return await current(request)

    @property
    def batches(self) -> Any:
        """The provider behind a name that stays: a test replaces it."""
        return Current()


class Current:
    """Forwards to the provider of the test that runs."""

    def __getattr__(self, name: str) -> Any:
        """Return a method of it."""
        return getattr(current, name)


#: The provider of the test that runs; each test sets its own.
current = FakeProvider()
mini = Model(
    "mini",
    Caller(),
    model_id="fake-1",
    price=PRICE,
    lane=Lane.batch(within="2h", at_least=10, gather="2m"),
)


class Question(BaseModel):
    """A chunk."""

    n: int


@pipeline
async def batching(question: Question) -> str:
    """Ask two questions at once, then a third."""
    first, second = await asyncio.gather(
        mini.ask("Answer.", f"is {question.n} odd?"),
        mini.ask("Answer.", f"is {question.n} even?"),
    )
    return first + second + await mini.ask("Answer.", f"is {question.n} prime?")


@pipeline
async def asking(question: Question) -> str:
    """Ask one question."""
    return await mini.ask("Answer.", f"is {question.n} odd?")
