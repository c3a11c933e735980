"""A provider that serves batches, with a book of its own of what it made and billed.

It knows no wire: `openai_stub` and `anthropic_stub` speak theirs, and `serving` carries
them over loopback or without a socket. All times come from `clock`. Each fault is a
field.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal
from zlib import crc32

Fate = Literal["answered", "failed", "expired", "absent"]


@dataclass(frozen=True, slots=True)
class Billed:
    """An answer in the book of the provider."""

    tier: str
    tokens_in: int
    tokens_out: int
    batch_id: str = ""
    custom_id: str = ""

    @property
    def nano_usd(self) -> int:
        """Its price in billionths of a dollar: half in a batch."""
        part = 500 if self.tier == "batch" else 1_000
        return part * (self.tokens_in * 250 + self.tokens_out * 2_000) // 1_000


@dataclass(slots=True)
class Made:
    """A batch that was created."""

    id: str
    rows: list[tuple[str, dict[str, Any]]]
    created_at: float
    digest: str = ""
    input_id: str = ""
    lines: bytes = b""
    cancelled_at: float | None = None
    fates: dict[str, Fate] | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, as it came in."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def parts(self) -> list[str]:
        """The parts of its path, without the version."""
        return [
            each for each in self.path.split("/") if each not in {"", "v1", "v1beta"}
        ]


class LostAnswerError(Exception):
    """The connection breaks after the request was served."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: JSON, or lines in parts."""

    status: int = 200
    value: Any = None
    lines: Iterator[bytes] | None = None
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def parts(self) -> Iterator[bytes]:
        """Its body."""
        if self.lines is not None:
            return self.lines
        return iter([json.dumps(self.value).encode()])


def answered(_: str) -> Fate:
    """Let each row be answered."""
    return "answered"


def never(_: str) -> bool:
    """Let no row have the fault."""
    return False


@dataclass
class Stub:
    """What each provider has.

    Attributes:
        takes_s: Seconds until a batch ends; a day later than `expires_s` it expires.
        lost_creations: Answers of the next creations that are lost.
        fate: How a row ends.
        twice: Whether the outcome of a row is written twice.
        refuses: Whether a validation refuses a row, and with it the batch.
        queue_full: Whether each batch is refused because too much is queued.
        more_lines: Lines of the output that are of no row.
        gone: Whether the outputs are deleted.
        denied: The status of each request; 0: it is served.
        book: What it bills. asked: method and path of each request.
    """

    clock: Callable[[], float] = time.time
    takes_s: float = 0.0
    expires_s: float = 86_400.0
    lost_creations: int = 0
    fate: Callable[[str], Fate] = answered
    twice: Callable[[str], bool] = never
    refuses: Callable[[str], bool] = never
    queue_full: bool = False
    more_lines: tuple[bytes, ...] = ()
    gone: bool = False
    denied: int = 0
    say: Callable[[dict[str, Any]], str] = lambda _: "yes"
    batches: dict[str, Made] = field(default_factory=dict)
    book: list[Billed] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def handle(self, asked: Asked) -> Reply:
        """Serve a request.

        Raises:
            LostAnswerError: It is served, and its answer is lost.
        """
        self.asked.append((asked.method, asked.path))
        if self.denied:
            return self.refusal(self.denied)
        return self.serve(asked)

    def serve(self, asked: Asked) -> Reply:
        """Serve a request that is allowed."""
        raise NotImplementedError

    def refusal(self, status: int) -> Reply:
        """Return the answer of a request that is refused."""
        raise NotImplementedError

    # ── what each wire does with the batches ──────────────────────────────────

    def made(self, rows: list[tuple[str, dict[str, Any]]], **more: Any) -> Made:
        """Create a batch, whose answer may be lost."""
        made = Made(f"batch_{len(self.batches)}", rows, self.clock(), **more)
        self.batches[made.id] = made
        if self.lost_creations:
            self.lost_creations -= 1
            raise LostAnswerError
        return made

    def is_refused(self, made: Made) -> bool:
        """Return whether the validation refuses a whole batch."""
        return self.queue_full or any(self.refuses(name) for name, _ in made.rows)

    def ended_at(self, made: Made) -> float | None:
        """Return when a batch ended; None: it has not."""
        ends = made.created_at + min(self.takes_s, self.expires_s)
        if self.is_refused(made):
            ends = made.created_at
        if made.cancelled_at is not None:
            ends = min(ends, made.cancelled_at)
        return ends if ends <= self.clock() else None

    def fates(self, made: Made) -> dict[str, Fate]:
        """Return the end of each row; the answered ones are billed once."""
        if made.fates is None:
            made.fates = {}
            for name, body in made.rows:
                is_late = self.takes_s > self.expires_s or made.cancelled_at is not None
                fate = self.fate(name)
                if is_late and crc32(name.encode()) % 3:
                    fate = "expired"  # a third of the rows was asked before that
                made.fates[name] = fate
                if fate == "answered":
                    self.bill(body, "batch", made.id, name)
        return made.fates

    def outcomes(self, made: Made) -> Iterator[tuple[str, dict[str, Any], Fate]]:
        """Yield each row that has an outcome, some of them twice."""
        for name, body in made.rows:
            fate = self.fates(made)[name]
            for _ in range(0 if fate == "absent" else 1 + self.twice(name)):
                yield name, body, fate

    def bill(
        self, body: dict[str, Any], tier: str, batch: str = "", row: str = ""
    ) -> None:
        """Write an answer into the book."""
        self.book.append(Billed(tier, *tokens_of(body), batch, row))

    @property
    def nano_usd(self) -> int:
        """What it bills, in billionths of a dollar."""
        return sum(each.nano_usd for each in self.book)


def tokens_of(body: dict[str, Any]) -> tuple[int, int]:
    """Return the tokens, in and out, of the answer to a request."""
    turns = body["messages"] if "messages" in body else body["contents"]
    drawn = crc32(json.dumps(turns[-1], sort_keys=True).encode())
    return 100 + drawn % 7, 10 + drawn % 3


def in_lines(rows: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    """Yield each row as a line of JSON."""
    for each in rows:
        yield json.dumps(each).encode() + b"\n"
