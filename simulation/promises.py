"""The promises, checked at every write that the tables take.

The numbers are those of `docs/holes.md`. The checker reads what was written and by
whom, and nothing of what the code believes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from piecework import keys
from piecework.claim import MAX_RECOVERIES
from piecework.model import ChunkStatus, JobStatus, moment
from piecework.store.wire import from_item
from simulation.cloud.dynamodb import Change
from simulation.coverage import chunk_ways, handed_back, job_ways
from simulation.fleet_rules import broken_by
from simulation.letters import LetterBook

if TYPE_CHECKING:
    from simulation.outside import Outside
    from simulation.world import World

Item = dict[str, Any]

ENDED = {str(s) for s in ChunkStatus if s.terminal}
#: Seconds by which a reconciler's watch over a lease may seem shorter than the lease: a
#: request is on its way for as long.
CALM_S = 0.5


@dataclass(slots=True)
class ChunkBook:
    """What has been seen of one chunk.

    Attributes:
        tokens: Who held it, by generation and fence.
        ended: When it came to an end, and from when on it was open again.
        renewed_at: The true time of the last write of its lease.
    """

    tokens: dict[tuple[int, int], str] = field(default_factory=dict)
    ended: list[tuple[float, float]] = field(default_factory=list)
    renewed_at: float = 0.0
    item: Item = field(default_factory=dict)


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
    on_job: Callable[[str, Item], None] = lambda _, __: None
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
        books = self.chunks[job_pk]
        book = books.get(new["chunk"])
        if book is None:
            book = books[new["chunk"]] = ChunkBook()
        # Every write passes here: what stood there is what was read the last time.
        old = book.item if change.old else None
        name = f"{new['job']}/{new['chunk']}"
        if self.world.traced:
            was = old["status"] if old else "-"
            facts = f"{was} -> {new['status']} gen={new['gen']} fence={new['fence']}"
            self.world.note(self.world.sender, f"  {name} {facts}", None)
        ways = chunk_ways(old, new)
        self.ways.update(ways)
        if not ways:
            self.break_(f"I4: {name} went no known way: {old} -> {new}")
        if old is None or new["gen"] > old["gen"]:
            self.born(name, job_pk, old, new)
        else:
            self.moved(name, book, old, new)
        self.keep_times(book, old, new)
        book.item = new

    def born(self, name: str, job_pk: str, old: Item | None, new: Item) -> None:
        """Check the birth of a chunk, or of a new life of it."""
        meta = self.jobs.get(job_pk)
        if meta is None:
            self.break_(f"I14: {name} has no job")
        if new["status"] != ChunkStatus.PENDING or new["attempts"]:
            self.break_(f"I4: {name} was born {new['status']}")
        if old is not None and old["status"] not in ENDED:
            self.break_(f"I4: {name} began a new life before its end")

    def moved(self, name: str, book: ChunkBook, old: Item, new: Item) -> None:
        """Check a step within one life."""
        if new["gen"] < old["gen"] or new["fence"] < old["fence"]:
            self.break_(f"I2: {name} fell back")
        if old["status"] in ENDED and new["status"] != old["status"]:
            self.break_(f"I4: {name} left {old['status']} for {new['status']}")
        if new["fence"] > old["fence"]:
            self.claimed(name, book, old, new)
        elif old["status"] == ChunkStatus.RUNNING:
            self.fenced(name, book, old, new)
        most = self.world.settings.max_attempts
        if new["attempts"] > most:
            self.break_(f"I10: {name} began {new['attempts']} attempts of {most}")
        back = old["attempts"] - new["attempts"]
        if back > 0 and back > handed_back(old, new):
            self.break_(f"I10: {name} was given an attempt back for nothing")
        # Each release of a winding-up, and each death in one, is one more.
        recoveries = MAX_RECOVERIES + self.world.settings.max_releases + 2
        if new.get("recoveries", 0) > recoveries:
            self.break_(f"I10: {name} was wound up again and again")

    def claimed(self, name: str, book: ChunkBook, old: Item, new: Item) -> None:
        """Check a claim."""
        if new["fence"] != old["fence"] + 1 or new["status"] != ChunkStatus.RUNNING:
            self.break_(f"I2: {name} skipped a fence")
        mark = (new["gen"], new["fence"])
        if book.tokens.setdefault(mark, new["claim_token"]) != new["claim_token"]:
            self.break_(f"I2: {name} has two owners of fence {new['fence']}")
        if "cancel_requested" in old and "direction" not in old:
            self.break_(f"I11: {name} was claimed after it was cancelled")
        if old["status"] in ENDED:
            self.break_(f"I4: {name} was claimed after its end")
        if old["status"] == ChunkStatus.RUNNING:
            left = moment(old["claim_expires_at"]) - self.world.now()
            if left > 0:
                self.break_(f"L3: {name} was taken {left:.1f} s too early")

    def fenced(self, name: str, book: ChunkBook, old: Item, new: Item) -> None:
        """Check a write to a chunk that somebody holds: only its holder may."""
        sender = self.world.sender
        holder = old.get("claimed_by")
        asked = {"cancel_requested", "undo_requested"} >= {
            k for k in {*old, *new} if old.get(k) != new.get(k)
        }
        if sender is None or asked or sender.name == holder:
            return
        now, lease_s = self.world.now(), self.world.settings.lease_s
        over = now >= moment(old["claim_expires_at"]) or now >= (
            book.renewed_at + lease_s - CALM_S
        )
        if new["status"] == ChunkStatus.RUNNING or not over:
            self.break_(f"I3: {sender.name} wrote to {name}, which {holder} holds")

    def keep_times(self, book: ChunkBook, old: Item | None, new: Item) -> None:
        """Remember when a lease was written and when a life ended."""
        now = self.world.now()
        expires = new.get("claim_expires_at")
        if expires is not None and (old or {}).get("claim_expires_at") != expires:
            book.renewed_at = now
        was_ended = old is not None and old["status"] in ENDED
        if new["status"] in ENDED and not was_ended:
            book.ended.append((now, float("inf")))
        elif was_ended and new["status"] not in ENDED:
            since, _ = book.ended[-1]
            book.ended[-1] = (since, now)

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
            self.world.note(
                self.world.sender,
                f"  job {new['job']} {was} -> {new['status']} gen={new['gen']}",
                None,
            )
        ways = job_ways(old, new)
        self.ways.update(ways)
        if not ways:
            self.break_(f"I4: job {new['job']} went {was} -> {new['status']}")
        books = self.chunks[change.pk]
        open_ = [
            n
            for n, b in books.items()
            if n != keys.JOIN_CHUNK and b.item["status"] not in ENDED
        ]
        status = new["status"]
        if status in {JobStatus.FINALIZING, JobStatus.CANCELLED} and open_:
            self.break_(f"I12: job {new['job']} is {status}, and {open_} are at work")
        written = len([n for n in books if n != keys.JOIN_CHUNK])
        if status == JobStatus.RUNNING and written != new["chunks"]:
            self.break_(f"I1: job {new['job']} runs with {written} of its chunks")
        if status == JobStatus.SUCCEEDED and any(
            b.item["status"] != ChunkStatus.SUCCEEDED for b in books.values()
        ):
            self.break_(f"I12: job {new['job']} succeeded without some chunk")
        self.on_job(change.pk, new)

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
            if entry is None or not entry.landed:
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
        now = self.world.now()
        if any(since <= now and received_at <= until for since, until in book.ended):
            return
        self.break_(f"I9: a message of {message.job}/{message.chunk} went too early")
