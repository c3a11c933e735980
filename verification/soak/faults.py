"""The faults that are planted in a clean history, by the rule that finds each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from piecework.domain import keys
from piecework.domain.moments import iso
from verification.soak.planting import History
from verification.soak.record import Ack, Change, Effect, LogEvent
from verification.soak.sample import JOB, PK


def delete_while_cancelling(history: History, **facts: str) -> None:
    """Delete the message of a waiting chunk after its job was cancelled."""
    history.fake("given back", **facts)
    history.again("opened", after="given back", status="CANCELLING")
    history.add("again", Ack(0, JOB, 0, 1))


def a_value(history: History, fence: int) -> Change:
    """Return the row of a value, whose item names claim 2; 0: one that is there."""
    change = history.change("value")
    new = {**(change.new or {}), "stage": "reserve"}
    if not fence:
        history.records["first"] = replace(
            change, sk=keys.stage_sk(1, "reserve", 2), seq=97, new=new
        )
        new = {**new, "value": "y"}
    sk = keys.stage_sk(1, "reserve", fence or 2)
    return replace(change, sk=sk, seq=98, new=new)


FAULTS: dict[str, dict[str, Callable[[History], None]]] = {
    "created-in-a-job": {
        "a chunk has no job": lambda h: h.move("submitted", after="chunk 0"),
        "a chunk is not in the manifest": lambda h: h.add(
            "chunk 1", replace(h.change("chunk 1"), sk=keys.chunk_sk(7), seq=98)
        ),
    },
    "claims-a-free-chunk": {
        "a valid lease is taken": lambda h: h.again(
            "first claim", "first claim", claim_token="thief", fence=2, attempts=2
        ),
        "a waiting chunk is claimed before its time": lambda h: h.fake(
            "given back", retry_at=iso(2000000.0)
        ),
    },
    "renewals-in-order": {
        "an old renewal arrives late": lambda h: h.fake(
            "renewed again", renewals=0, claim_expires_at=iso(2000000.0)
        ),
    },
    "settled-by-its-owner": {
        "a chunk is given back before its lease expires": lambda h: h.move(
            "given back", after="renewed"
        ),
        "a worker settles the claim of another one": lambda h: h.fake(
            "succeeded", claim_token="t1"
        ),
        "an ended chunk still has an owner": lambda h: h.fake(
            "succeeded", claimed_by="w-t2"
        ),
    },
    "succeeded-once": {
        "a chunk succeeds in two generations": lambda h: h.again(
            "redriven", "third claim", gen=1, fence=1, claim_token="t3"
        ),
        "a chunk succeeds without a result": lambda h: h.fake(
            "succeeded", remove="result_sha256"
        ),
    },
    "named-once-written": {
        "a value is named and was never written": lambda h: h.fake(
            "redriven", stages={"reserve": {"fence": 2}}
        ),
        "a value is named no more": lambda h: h.fake(
            "reopened chunk", stages={"reserve": {"fence": 1, "finished_at": "then"}}
        ),
    },
    "values-are-kept": {
        "a claim writes to the row of another claim": lambda h: h.add(
            "value", a_value(h, fence=1)
        ),
        "a value is replaced": lambda h: h.add("value", a_value(h, fence=0)),
    },
    "results-are-fenced": {
        "a worker without the claim writes a result": lambda h: h.fake(
            "value", fence=1
        ),
    },
    "intents-are-fenced": {
        "a worker without the claim begins an effect": lambda h: h.fake(
            "charged intent", fence=1
        ),
    },
    "effects-change-as-allowed": {
        "a compensated effect becomes REFUSED": lambda h: h.again(
            "reserved done", "hold row", state="REFUSED"
        ),
    },
    "intent-first": {
        "an effect has no intent": lambda h: h.lose("charged intent"),
        "an effect comes before its intent": lambda h: h.move(
            "charged effect", after="second claim"
        ),
    },
    "one-effect-a-key": {
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
    "compensated-in-reverse": {
        "a stage is compensated twice": lambda h: h.again("hold mark", "hold row"),
        "the first stage is compensated first": lambda h: h.move(
            "reserve mark", after="compensating"
        ),
        "a stage is compensated in a chunk that runs forward": lambda h: h.fake(
            "compensating", remove="direction"
        ),
    },
    "no-compensation-past-the-pivot": {
        "a stage is compensated past the pivot": lambda h: h.add(
            "redriven ack",
            replace(h.change("hold mark"), sk="WORK#00000001#COMPENSATED#0002#hold"),
        ),
    },
    "compensated-in-full": {
        "one stage is not compensated": lambda h: h.lose("reserve row"),
    },
    "generation-rises": {
        "a job is reopened in its old generation": lambda h: h.fake("reopened", gen=1),
    },
    "facts-do-not-change": {
        "a job gets another manifest": lambda h: h.fake(
            "opened", manifest_sha256="other"
        ),
    },
    "job-ends-after-its-chunks": {
        "a job ends while a chunk is running": lambda h: h.move(
            "dead-lettered", after="first end"
        ),
        "a job ends without one of its chunks": lambda h: h.fake(
            "first finalizing", chunks=3
        ),
    },
    "job-counts-its-chunks": {
        "a job has other counts than its chunks": lambda h: h.fake(
            "first end", outcomes={"SUCCEEDED": 2}
        ),
        "a job has SUCCEEDED with a dead chunk": lambda h: h.fake(
            "first end", status="SUCCEEDED"
        ),
    },
    "acknowledged-after-its-end": {
        "the message of a running chunk is deleted": lambda h: delete_while_cancelling(
            h, status="RUNNING"
        ),
        "the message of a waiting chunk is deleted": lambda h: h.add(
            "given back", Ack(0, JOB, 0, 1)
        ),
        "the message of a chunk that compensates is deleted": lambda h: (
            delete_while_cancelling(h, direction="compensating")
        ),
    },
    "logged-is-stored": {
        "a worker logs a settlement that another one wrote": lambda h: h.add(
            "succeeded ack",
            LogEvent(0, "w", "chunk.succeeded", {"job": JOB, "chunk": 0, "fence": 1}),
        ),
        "two workers log the success of a chunk": lambda h: h.add(
            "succeeded ack", h.records["succeeded log"]
        ),
    },
    "own-tenant-only": {
        "another tenant's job is written to": lambda h: h.add(
            "opened", Change(99, 0, keys.job_pk("other", JOB), "EVENT#1", {})
        ),
    },
    "left-open": {
        "the history ends with an open chunk": lambda h: h.lose(
            "redriven", "redriven log", "redriven ack"
        ),
    },
    "reopened-with-its-job": {
        "a chunk is reopened in a job that has ended": lambda h: h.lose("reopened"),
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
        "a succeeded chunk runs again": lambda h: h.again(
            "second claim", "succeeded ack", fence=3, attempts=3
        ),
        "the result of an ended chunk is replaced": lambda h: h.again(
            "succeeded", "succeeded ack", result_sha256="other"
        ),
        "two claims have the same fence": lambda h: h.fake("second claim", fence=1),
        "a token is used twice": lambda h: h.fake("second claim", claim_token="t1"),
        "a claim is not counted": lambda h: h.fake("second claim", attempts=1),
        "a release returns an attempt once too often": lambda h: h.fake(
            "given back", attempts=0, releases=3
        ),
        "a deferral returns the attempt of another claim": lambda h: h.fake(
            "given back", deferrals=2
        ),
        "a chunk has more attempts than it may": lambda h: h.fake(
            "second claim", attempts=4
        ),
        "a job opens before its last chunk is written": lambda h: h.move(
            "chunk 1", after="opened"
        ),
        "a job reverts its status": lambda h: h.again("submitted", "second end", gen=2),
        "a chunk is claimed after a cancel was asked for": lambda h: h.fake(
            "given back", cancel_requested_at=True
        ),
    },
}
