"""The faults that are planted in a clean history, each with the rule that finds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from piecework.domain import keys
from piecework.domain.model import iso
from verification.soak.planting import History
from verification.soak.record import Ack, Change, Effect, Said
from verification.soak.sample import JOB, PK

FAULTS: dict[str, tuple[str, Callable[[History], None]]] = {
    "a chunk is deleted": (
        "never-lost",
        lambda h: h.add("opened", Change(99, 0, PK, keys.chunk_sk(1), None)),
    ),
    "a chunk is born without a job": (
        "born-of-a-job",
        lambda h: h.move("submitted", after="chunk 0"),
    ),
    "a chunk is born that is not in the manifest": (
        "born-of-a-job",
        lambda h: h.add(
            "chunk 1", replace(h.change("chunk 1"), sk=keys.chunk_sk(7), seq=98)
        ),
    ),
    "a job opens before its last chunk is written": (
        "opens-whole",
        lambda h: h.move("chunk 1", after="opened"),
    ),
    "two claims have the same fence": (
        "fence-rises",
        lambda h: h.fake("second claim", fence=1),
    ),
    "two owners have one fence": (
        "one-token",
        lambda h: h.again("first claim", "first claim", claim_token="other"),
    ),
    "a token is used twice": (
        "one-token",
        lambda h: h.fake("second claim", claim_token="t1"),
    ),
    "a living lease is stolen": (
        "claims-what-is-free",
        lambda h: h.again(
            "first claim",
            "first claim",
            claim_token="thief",
            fence=2,
            attempts=2,
        ),
    ),
    "a waiting chunk is claimed before its time": (
        "claims-what-is-free",
        lambda h: h.fake("given back", retry_at=iso(2_000_000.0)),
    ),
    "an old renewal comes late": (
        "beats-in-order",
        lambda h: h.fake("parked", renewals=0, claim_expires_at=iso(2_000_000.0)),
    ),
    "a living holder's chunk is given back": (
        "settled-by-its-holder",
        lambda h: h.move("given back", after="beat"),
    ),
    "a zombie settles another's claim": (
        "settled-by-its-holder",
        lambda h: h.fake("completed", claim_token="t1"),
    ),
    "an ended chunk still has an owner": (
        "settled-by-its-holder",
        lambda h: h.fake("completed", claimed_by="w-t2"),
    ),
    "a completed chunk runs again": (
        "moves-as-drawn",
        lambda h: h.again("second claim", "completed ack", fence=3, attempts=3),
    ),
    "the result of an ended chunk is replaced": (
        "moves-as-drawn",
        lambda h: h.again("completed", "completed ack", result_sha256="other"),
    ),
    "a chunk is taken up again in its old generation": (
        "gen-follows-job",
        lambda h: h.fake("reborn", gen=1),
    ),
    "a chunk is taken up again while its job is at its end": (
        "gen-follows-job",
        lambda h: h.lose("reopened"),
    ),
    "a chunk is completed in two generations": (
        "completed-once",
        lambda h: h.again("redriven", "third claim", gen=1, fence=1, claim_token="t3"),
    ),
    "a chunk is completed without a result": (
        "completed-once",
        lambda h: h.fake("completed", remove="result_sha256"),
    ),
    "a claim is not counted": (
        "attempts-counted",
        lambda h: h.fake("second claim", attempts=1),
    ),
    "a chunk has more attempts than it may": (
        "attempts-counted",
        lambda h: h.fake("second claim", attempts=4),
    ),
    "a stop hands an attempt back once too often": (
        "attempts-counted",
        lambda h: h.fake("given back", attempts=0, releases=3),
    ),
    "a park hands back what another one took": (
        "attempts-counted",
        lambda h: h.fake("given back", deferrals=2),
    ),
    "a chunk is claimed after a cancel was asked for": (
        "cancel-is-a-barrier",
        lambda h: h.fake("given back", cancel_requested_at=True),
    ),
    "a chunk is claimed in a cancelled job": (
        "cancel-is-a-barrier",
        lambda h: h.again("opened", "given back", status="CANCELLED"),
    ),
    "a worker without the chunk writes a value": (
        "values-are-fenced",
        lambda h: h.fake("value", fence=1),
    ),
    "a worker without the chunk begins an effect": (
        "intents-are-fenced",
        lambda h: h.fake("charged intent", fence=1),
    ),
    "an effect is done that was undone": (
        "effects-move-as-drawn",
        lambda h: h.again("reserved done", "hold undone", state="REFUSED"),
    ),
    "an effect has no intent": (
        "intended-first",
        lambda h: h.lose("charged intent"),
    ),
    "an effect comes before its intent": (
        "intended-first",
        lambda h: h.move("charged effect", after="second claim"),
    ),
    "a keyed effect takes place twice": (
        "effected-once",
        lambda h: h.add("charged done", h.records["reserved effect"]),
    ),
    "the money is taken twice, under two keys": (
        "effected-once",
        lambda h: h.add("charged done", Effect(0, "done", "charge", JOB, 0, "new")),
    ),
    "a refused effect took place": (
        "refused-but-done",
        lambda h: h.fake("charged done", state="REFUSED"),
    ),
    "a stage is undone twice": (
        "undone-once-in-reverse",
        lambda h: h.again("undid hold", "hold undone"),
    ),
    "the first stage is undone first": (
        "undone-once-in-reverse",
        lambda h: h.move("undid reserve", after="turned back"),
    ),
    "a stage is undone in a chunk that goes on": (
        "undone-once-in-reverse",
        lambda h: h.fake("turned back", remove="direction"),
    ),
    "a stage is undone past the pivot": (
        "nothing-undone-past-the-pivot",
        lambda h: h.add(
            "redriven ack",
            replace(h.change("undid hold"), sk="WORK#00000001#COMPENSATED#0002#hold"),
        ),
    ),
    "a chunk is compensated but for one stage": (
        "compensated-whole",
        lambda h: h.lose("reserve undone"),
    ),
    "a job goes back": (
        "job-moves-as-drawn",
        lambda h: h.again("submitted", "second end", gen=2),
    ),
    "a job is resumed in its old generation": (
        "job-gen-rises",
        lambda h: h.fake("reopened", gen=1),
    ),
    "a job gets another manifest": (
        "facts-stay",
        lambda h: h.fake("opened", manifest_sha256="other"),
    ),
    "a job ends while a chunk is at work": (
        "ends-whole",
        lambda h: h.move("buried", after="first end"),
    ),
    "a job ends without one of its chunks": (
        "ends-whole",
        lambda h: h.fake("first finalizing", chunks=3),
    ),
    "a job tells of other counts than it has": (
        "ends-truthfully",
        lambda h: h.fake("first end", outcomes={"SUCCEEDED": 2}),
    ),
    "a job has SUCCEEDED with a dead chunk": (
        "ends-truthfully",
        lambda h: h.fake("first end", status="SUCCEEDED"),
    ),
    "the message of a running chunk is deleted": (
        "only-ended-are-deleted",
        lambda h: h.add("second claim", Ack(0, JOB, 0, 1)),
    ),
    "the message of a waiting chunk is deleted": (
        "only-ended-are-deleted",
        lambda h: h.add("given back", Ack(0, JOB, 0, 1)),
    ),
    "a worker says that it settled what another did": (
        "said-is-written",
        lambda h: h.add(
            "completed ack",
            Said(
                0,
                "w",
                "chunk.succeeded",
                {"job": JOB, "chunk": 0, "fence": 1},
            ),
        ),
    ),
    "two workers say that they completed a chunk": (
        "said-is-written",
        lambda h: h.add("completed ack", h.records["completed said"]),
    ),
    "another tenant's job is written to": (
        "own-tenant-only",
        lambda h: h.add(
            "opened", Change(99, 0, keys.job_pk("other", JOB), "EVENT#1", {})
        ),
    ),
    "the history ends with a chunk at work": (
        "left-open",
        lambda h: h.lose("redriven", "redriven said", "redriven ack"),
    ),
}
