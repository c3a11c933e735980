"""The promises, checked at every write that the tables take.

The numbers are those of `docs/holes.md`. The checker reads what was written and by
whom, and nothing of what the code believes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from piecework import keys
from piecework.model import ChunkStatus, JobStatus
from piecework.store.wire import from_item
from simulation.chunk_book import ChunkBook
from simulation.cloud.dynamodb import Change
from simulation.coverage import ENDED, chunk_ways, job_ways
from simulation.fleet_rules import broken_by
from simulation.letters import LetterBook

if TYPE_CHECKING:
    from simulation.outside import Outside
    from simulation.world import World

Item = dict[str, Any]


@dataclass(slots=True)
class Promises:
    """The checker of one world."""

    world: World
    outside: Outside | None = None
    broken: list[str] = field(default_factory=list)
    ways: Counter[str] = field(default_factory=Counter)
    jobs: dict[str, Item] = field(default_factory=dict)
    chunks: dict[str, dict[int, ChunkBook]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    letters: LetterBook = field(init=False)

    def __post_init__(self) -> None:
        """Open the book of dead letters."""
        self.letters = LetterBook(self.break_)

    def break_(self, said: str) -> None:
        """Note a broken promise."""
        self.broken.append(said)
        self.world.note(None, f"BROKEN {said}", None)

    def codes(self) -> Counter[str]:
        """Count the chunks that are dead, by what they died of."""
        items = (b.item for books in self.chunks.values() for b in books.values())
        return Counter(
            i.get("error_code", "none") for i in items if i["status"] == "DEAD"
        )

    def written(self, changes: Sequence[Change]) -> None:
        """Look at what one request has written."""
        metas = []
        for change in changes:
            if change.table != self.world.settings.checkpoints_table:
                self.letters.written(change)
                continue
            if change.sk.startswith(keys.CHUNK_PREFIX) or change.sk == "JOIN":
                self.chunk(change)
            elif change.sk == keys.META_SK:
                metas.append(change)
            elif "#EFFECT#" in change.sk:
                self.effect(change)
            elif change.pk == keys.BREAKERS_PK and change.new is not None:
                old = from_item(change.old) if change.old else None
                for said in broken_by(old, from_item(change.new)):
                    self.break_(f"the breaker of {change.sk} {said}")
        for change in metas:
            self.job(change)

    # ── chunks ──────────────────────────────────────────────────────────────

    def chunk(self, change: Change) -> None:
        """Hold a write to a chunk against the promises about chunks."""
        if change.new is None:
            self.break_(f"I1: {change.pk} {change.sk} was deleted")
            return
        new = from_item(change.new)
        job_pk = change.pk.partition("#G#")[0]
        book = self.book(job_pk, new)
        # Every write passes here: what stood there is what was read the last time.
        old = book.item if change.old else None
        if self.world.traced:
            was = old["status"] if old else "-"
            facts = f"{was} -> {new['status']} gen={new['gen']} fence={new['fence']}"
            self.world.note(self.world.sender, f"  {book.name} {facts}", None)
        ways = chunk_ways(old, new)
        self.ways.update(ways)
        if not ways:
            self.break_(f"I4: {book.name} went no known way: {old} -> {new}")
        if job_pk not in self.jobs:
            self.break_(f"I14: {book.name} has no job")
        book.written(old, new)

    def book(self, job_pk: str, new: Item) -> ChunkBook:
        """Return the book of a chunk."""
        books, chunk = self.chunks[job_pk], new["chunk"]
        if chunk not in books:
            name = f"{new['job']}/{chunk}"
            books[chunk] = ChunkBook(name, self.world, self.break_)
        return books[chunk]

    # ── jobs ────────────────────────────────────────────────────────────────

    def job(self, change: Change) -> None:
        """Hold a write to a job against the promises about jobs."""
        if change.new is None:
            self.break_(f"I1: job {change.pk} was deleted")
            return
        old = self.jobs.get(change.pk)
        new = from_item(change.new)
        self.jobs[change.pk] = new
        was = old["status"] if old else None
        if was == new["status"]:
            return
        if self.world.traced:
            facts = f"{was} -> {new['status']} gen={new['gen']}"
            self.world.note(self.world.sender, f"  job {new['job']} {facts}", None)
        ways = job_ways(old, new)
        self.ways.update(ways)
        if not ways:
            self.break_(f"I4: job {new['job']} went {was} -> {new['status']}")
        self.whole(new, self.chunks[change.pk])

    def whole(self, new: Item, books: Mapping[int, ChunkBook]) -> None:
        """Check that a job's new state goes with those of its chunks."""
        status = new["status"]
        states = {n: b.item["status"] for n, b in books.items() if n != keys.JOIN_CHUNK}
        open_ = [n for n, state in states.items() if state not in ENDED]
        if status in {JobStatus.FINALIZING, JobStatus.CANCELLED} and open_:
            self.break_(f"I12: job {new['job']} is {status}, and {open_} are at work")
        written = len(states)
        if status == JobStatus.RUNNING and written != new["chunks"]:
            self.break_(f"I1: job {new['job']} runs with {written} of its chunks")
        if status == JobStatus.SUCCEEDED and any(
            b.item["status"] != ChunkStatus.SUCCEEDED for b in books.values()
        ):
            self.break_(f"I12: job {new['job']} succeeded without some chunk")

    # ── effects and messages ────────────────────────────────────────────────

    def effect(self, change: Change) -> None:
        """Tell the outside's books what the ledger says."""
        if change.new is None or self.outside is None:
            return
        row = from_item(change.new)
        state = row.get("effect_state")
        key = row.get("effect_key", "")
        if state == "INTENT":
            meta = self.jobs.get(change.pk.partition("#G#")[0], {})
            if meta.get("status") == JobStatus.CANCELLED:
                self.break_(f"I11: {key[:12]} was begun after its job was cancelled")
            self.outside.intended.add(keys.provider_key(key, row["epoch"]))
        elif state == "UNDONE":
            self.outside.undone(key)
        elif state == "DONE":
            entry = self.outside.books.get(key)
            sent = keys.provider_key(key, row["epoch"])
            if entry is None or sent not in entry.answers:
                self.break_(f"I7: {key[:12]} is down as done and never was")

    def deleted(self, url: str, body: str, received_at: float) -> None:
        """Check that a message went only when nothing depended on it any more."""
        from piecework.queue import Message

        try:
            message = Message.model_validate_json(body)
        except ValueError:
            return
        if url != self.world.urls[self.world.settings.work_queue]:
            return  # what the dead-letter queue held is sent again first
        book = self.chunks[message.ref.of.pk].get(message.chunk)
        if book is None or book.item["gen"] > message.gen:
            return
        if not book.was_over(received_at, self.world.now()):
            self.break_(f"I9: a message of {book.name} went too early")
