"""A history as it should be, small and whole, for the checker's own tests.

Two chunks of a saga: the first is taken over when its worker dies, and succeeds. The
second fails for good, is compensated, dead-lettered, redriven once the cause is fixed,
and then succeeds, too. Every record has a label, by which a fault is planted.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from piecework.domain import keys
from piecework.domain.moments import iso
from verification.soak.record import Ack, Change, Effect, Item, Limits, LogEvent, Record

JOB, PK = "trip", keys.job_pk("default", "trip")
LEASE_S, SKEW_S = 3.0, 0.5
#: The event of a claim's end, by the status that the chunk then has.
EVENTS = {"SUCCEEDED": "chunk.succeeded", "DEAD": "chunk.dead_lettered"}
LIMITS = Limits(
    LEASE_S,
    SKEW_S,
    max_attempts=3,
    max_releases=2,
    max_takeovers=2,
    stages={"saga": (("reserve", "hold", "charge"), 2)},
    naive=frozenset({"charge"}),
)


@dataclass(slots=True)
class Story:
    """A history that is written step by step."""

    at: float = 1_000_000.0
    records: dict[str, Record] = field(default_factory=dict)
    items: dict[str, Item] = field(default_factory=dict)

    def write(self, label: str, sk: str, *remove: str, **facts: Any) -> None:
        """Change an item, a moment later."""
        self.at = round(self.at + 0.01, 3)
        kept = {k: v for k, v in self.items.get(sk, {}).items() if k not in remove}
        self.items[sk] = {**kept, **facts}
        change = Change(len(self.records), self.at, PK, sk, self.items[sk])
        self.records[label] = change

    def put(self, label: str, sk: str, **facts: Any) -> None:
        """Put an item anew."""
        self.items.pop(sk, None)
        self.write(label, sk, **facts)

    def note(self, label: str, record: Record) -> None:
        """Note a record outside of the table, a moment later."""
        self.at = round(self.at + 0.01, 3)
        self.records[label] = replace(record, at=self.at)

    def claim(self, label: str, chunk: int, token: str, **facts: Any) -> None:
        """Claim a chunk."""
        sk, now = keys.chunk_sk(chunk), round(self.at + 0.01, 3)
        old = self.items[sk]
        counted = {"attempts": old["attempts"] + 1, "fence": old["fence"] + 1}
        lease = {"claimed_at": iso(now), "claim_expires_at": iso(now + LEASE_S)}
        held = {"status": "RUNNING", "claimed_by": f"w-{token}", "renewals": 0}
        facts = {**counted, **lease, **held, "claim_token": token, **facts}
        self.write(label, sk, "retry_at", **facts)

    def settle(self, label: str, chunk: int, status: str, **facts: Any) -> None:
        """End a claim, say so, and delete the message."""
        sk = keys.chunk_sk(chunk)
        facts = {"status": status, "ended_at": iso(self.at), **facts}
        self.write(label, sk, "claimed_by", "claim_expires_at", **facts)
        item = self.items[sk]
        place = {"job": JOB, "chunk": chunk, "fence": item["fence"]}
        self.note(f"{label} log", LogEvent(0, "w", EVENTS[status], place))
        self.note(f"{label} ack", Ack(0, JOB, chunk, item["gen"]))

    def effect(self, label: str, chunk: int, op: str, *, undo: str = "") -> None:
        """Let something take effect: intent, effect, record."""
        chunk_item = self.items[keys.chunk_sk(chunk)]
        stage = f"compensate:{undo}:{chunk_item['gen']}" if undo else op
        key = f"key-{chunk}-{stage}"
        sk = keys.effect_sk(chunk, key)
        row = {
            "effect_key": key,
            "stage": stage,
            "gen": chunk_item["gen"],
            "fence": chunk_item["fence"],
            "started_at": iso(self.at),
        }
        self.put(f"{label} intent", sk, **row, state="INTENT")
        sent = keys.provider_key(key, row["gen"])
        what = "undone" if undo else "done"
        self.note(f"{label} effect", Effect(0, what, op, JOB, chunk, sent))
        self.write(f"{label} done", sk, state="DONE")


def clean() -> dict[str, Record]:
    """Return the history, by label."""
    story = Story()
    facts = {
        "job": JOB,
        "pipeline": "saga",
        "chunks": 2,
        "manifest": "m",
        "manifest_sha256": "s",
    }
    story.write("submitted", "META", status="SUBMITTING", gen=1, **facts)
    for chunk in (0, 1):
        fresh = {"status": "PENDING", "gen": 1, "fence": 0, "attempts": 0}
        whose = {"job": JOB, "chunk": chunk, "stage": "reserve"}
        story.write(f"chunk {chunk}", keys.chunk_sk(chunk), **whose, **fresh)
    story.write("opened", "META", status="RUNNING")
    succeed_after_a_death(story)
    fail_and_compensate(story)
    finish(story, "first", "PARTIAL", {"SUCCEEDED": 1, "DEAD": 1})
    story.write("reopened", "META", status="REOPENING", gen=2)
    again = {"status": "PENDING", "gen": 2, "attempts": 0}
    gone = ["ended_at", "direction", "compensation", "error_code"]
    story.write("reopened chunk", keys.chunk_sk(1), *gone, **again)
    story.write("resumed", "META", status="RUNNING")
    story.claim("fourth claim", 1, "t4")
    story.effect("reserved anew", 1, "reserve")
    story.effect("charged anew", 1, "charge")
    story.write("value", "RESULT#00000001", gen=2, fence=2, value="x")
    story.settle("redriven", 1, "SUCCEEDED", result_sha256="y")
    finish(story, "second", "SUCCEEDED", {"SUCCEEDED": 2})
    return story.records


def succeed_after_a_death(story: Story) -> None:
    """Write the history of the first chunk."""
    story.claim("first claim", 0, "t1")
    story.effect("reserved", 0, "reserve")
    story.write("renewed", keys.chunk_sk(0), renewals=1)
    story.at += LEASE_S + SKEW_S
    letting_go = ["claimed_by", "claim_expires_at", "claim_token"]
    story.write("given back", keys.chunk_sk(0), *letting_go, status="WAITING")
    story.claim("second claim", 0, "t2")
    story.effect("charged", 0, "charge")
    story.write("renewed again", keys.chunk_sk(0), renewals=1)
    story.settle("succeeded", 0, "SUCCEEDED", result_sha256="x")


def fail_and_compensate(story: Story) -> None:
    """Write the history of the second chunk."""
    story.claim("third claim", 1, "t3")
    story.effect("taken", 1, "reserve")
    story.effect("held", 1, "hold")
    story.write("compensating", keys.chunk_sk(1), direction="compensating")
    for op, stage in (("drop", "hold"), ("release", "reserve")):
        story.effect(f"{op}ped", 1, op, undo=stage)
        sk = f"{keys.work_prefix(1)}COMPENSATED#0001#{stage}"
        story.write(f"{stage} mark", sk, stage=stage)
        row = keys.effect_sk(1, f"key-1-{stage}")
        story.write(f"{stage} row", row, state="COMPENSATED")
    story.settle("dead-lettered", 1, "DEAD", error_code="e", compensation="COMPENSATED")


def finish(story: Story, which: str, status: str, outcomes: dict[str, int]) -> None:
    """Write the join and the job's end."""
    gen = story.items["META"]["gen"]
    story.write(f"{which} finalizing", "META", status="FINALIZING")
    fresh = {"status": "PENDING", "gen": gen, "fence": 0, "attempts": 0}
    whose = {"job": JOB, "chunk": keys.JOIN_CHUNK, "stage": "join"}
    story.put(f"{which} join", "JOIN", **whose, **fresh)
    story.claim(f"{which} joining", keys.JOIN_CHUNK, f"j{gen}")
    story.settle(f"{which} joined", keys.JOIN_CHUNK, "SUCCEEDED", result_sha256="z")
    story.write(f"{which} end", "META", status=status, outcomes=outcomes)
