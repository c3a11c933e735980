"""The faults that are planted in a clean history, by the rule that finds each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from piecework.domain import keys
from piecework.domain.model import iso
from verification.soak.planting import History
from verification.soak.record import Ack, Change, Effect, Said
from verification.soak.sample import JOB, PK


def delete_while_cancelling(history: History, **facts: str) -> None:
    """Delete the message of a waiting chunk after its job was cancelled."""
    history.fake("given back", **facts)
    history.again("opened", after="given back", status="CANCELLING")
    history.add("again", Ack(0, JOB, 0, 1))


FAULTS: dict[str, dict[str, Callable[[History], None]]] = {
    "born-of-a-job": {
        "a chunk is born without a job": lambda h: h.move("submitted", after="chunk 0"),
        "a chunk is born that is not in the manifest": lambda h: h.add(
            "chunk 1", replace(h.change("chunk 1"), sk=keys.chunk_sk(7), seq=98)
        ),
    },
    "claims-what-is-free": {
        "a living lease is stolen": lambda h: h.again(
            "first claim", "first claim", claim_token="thief", fence=2, attempts=2
        ),
        "a waiting chunk is claimed before its time": lambda h: h.fake(
            "given back", retry_at=iso(2000000.0)
        ),
    },
    "beats-in-order": {
        "an old renewal comes late": lambda h: h.fake(
            "parked", renewals=0, claim_expires_at=iso(2000000.0)
        ),
    },
    "settled-by-its-holder": {
        "a living holder's chunk is given back": lambda h: h.move(
            "given back", after="beat"
        ),
        "a zombie settles another's claim": lambda h: h.fake(
            "completed", claim_token="t1"
        ),
        "an ended chunk still has an owner": lambda h: h.fake(
            "completed", claimed_by="w-t2"
        ),
    },
    "completed-once": {
        "a chunk is completed in two generations": lambda h: h.again(
            "redriven", "third claim", gen=1, fence=1, claim_token="t3"
        ),
        "a chunk is completed without a result": lambda h: h.fake(
            "completed", remove="result_sha256"
        ),
    },
    "values-are-fenced": {
        "a worker without the chunk writes a value": lambda h: h.fake("value", fence=1),
    },
    "intents-are-fenced": {
        "a worker without the chunk begins an effect": lambda h: h.fake(
            "charged intent", fence=1
        ),
    },
    "effects-move-as-drawn": {
        "an effect is done that was undone": lambda h: h.again(
            "reserved done", "hold undone", state="REFUSED"
        ),
    },
    "intended-first": {
        "an effect has no intent": lambda h: h.lose("charged intent"),
        "an effect comes before its intent": lambda h: h.move(
            "charged effect", after="second claim"
        ),
    },
    "effected-once": {
        "a keyed effect takes place twice": lambda h: h.add(
            "charged done", h.records["reserved effect"]
        ),
        "the money is taken twice, under two keys": lambda h: h.add(
            "charged done", Effect(0, "done", "charge", JOB, 0, "new")
        ),
    },
    "refused-but-done": {
        "a refused effect took place": lambda h: h.fake(
            "charged done", state="REFUSED"
        ),
    },
    "undone-once-in-reverse": {
        "a stage is undone twice": lambda h: h.again("undid hold", "hold undone"),
        "the first stage is undone first": lambda h: h.move(
            "undid reserve", after="turned back"
        ),
        "a stage is undone in a chunk that goes on": lambda h: h.fake(
            "turned back", remove="direction"
        ),
    },
    "nothing-undone-past-the-pivot": {
        "a stage is undone past the pivot": lambda h: h.add(
            "redriven ack",
            replace(h.change("undid hold"), sk="WORK#00000001#COMPENSATED#0002#hold"),
        ),
    },
    "compensated-whole": {
        "a chunk is compensated but for one stage": lambda h: h.lose("reserve undone"),
    },
    "job-gen-rises": {
        "a job is resumed in its old generation": lambda h: h.fake("reopened", gen=1),
    },
    "facts-stay": {
        "a job gets another manifest": lambda h: h.fake(
            "opened", manifest_sha256="other"
        ),
    },
    "ends-whole": {
        "a job ends while a chunk is at work": lambda h: h.move(
            "buried", after="first end"
        ),
        "a job ends without one of its chunks": lambda h: h.fake(
            "first finalizing", chunks=3
        ),
    },
    "ends-truthfully": {
        "a job tells of other counts than it has": lambda h: h.fake(
            "first end", outcomes={"SUCCEEDED": 2}
        ),
        "a job has SUCCEEDED with a dead chunk": lambda h: h.fake(
            "first end", status="SUCCEEDED"
        ),
    },
    "only-ended-are-deleted": {
        "the message of a running chunk is deleted": lambda h: delete_while_cancelling(
            h, status="RUNNING"
        ),
        "the message of a waiting chunk is deleted": lambda h: h.add(
            "given back", Ack(0, JOB, 0, 1)
        ),
        "the message of a chunk that turns back is deleted": lambda h: (
            delete_while_cancelling(h, direction="compensating")
        ),
    },
    "said-is-written": {
        "a worker says that it settled what another did": lambda h: h.add(
            "completed ack",
            Said(0, "w", "chunk.succeeded", {"job": JOB, "chunk": 0, "fence": 1}),
        ),
        "two workers say that they completed a chunk": lambda h: h.add(
            "completed ack", h.records["completed said"]
        ),
    },
    "own-tenant-only": {
        "another tenant's job is written to": lambda h: h.add(
            "opened", Change(99, 0, keys.job_pk("other", JOB), "EVENT#1", {})
        ),
    },
    "left-open": {
        "the history ends with a chunk at work": lambda h: h.lose(
            "redriven", "redriven said", "redriven ack"
        ),
    },
    "reopened-by-a-resume": {
        "a chunk is taken up again while its job is at its end": lambda h: h.lose(
            "reopened"
        ),
    },
    "no-claim-in-an-ended-job": {
        "a chunk is claimed in a cancelled job": lambda h: h.again(
            "opened", "given back", status="CANCELLED"
        ),
    },
    "invariants": {
        "a chunk is deleted": lambda h: h.add(
            "opened", Change(99, 0, PK, keys.chunk_sk(1), None)
        ),
        "a completed chunk runs again": lambda h: h.again(
            "second claim", "completed ack", fence=3, attempts=3
        ),
        "the result of an ended chunk is replaced": lambda h: h.again(
            "completed", "completed ack", result_sha256="other"
        ),
        "two claims have the same fence": lambda h: h.fake("second claim", fence=1),
        "a token is used twice": lambda h: h.fake("second claim", claim_token="t1"),
        "a claim is not counted": lambda h: h.fake("second claim", attempts=1),
        "a stop hands an attempt back once too often": lambda h: h.fake(
            "given back", attempts=0, releases=3
        ),
        "a park hands back what another one took": lambda h: h.fake(
            "given back", deferrals=2
        ),
        "a chunk has more attempts than it may": lambda h: h.fake(
            "second claim", attempts=4
        ),
        "a job opens before its last chunk is written": lambda h: h.move(
            "chunk 1", after="opened"
        ),
        "a job goes back": lambda h: h.again("submitted", "second end", gen=2),
        "a chunk is claimed after a cancel was asked for": lambda h: h.fake(
            "given back", cancel_requested_at=True
        ),
    },
}
