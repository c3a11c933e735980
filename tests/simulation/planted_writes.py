"""Plant invalid writes in the history of a small job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from piecework.aws.objects import INLINE_LIMIT
from piecework.aws.queue import Message
from piecework.calls.call import CallScope
from piecework.dependency import Dependency, Usage, taking
from piecework.domain import keys
from piecework.domain.effect import Effect
from piecework.domain.moments import iso
from piecework.domain.outcome import STOPPED_CODE
from piecework.idempotency.record import OperationRef
from piecework.resilience.lanes import Lane
from piecework.resilience.limits import Limits
from piecework_simulation.engine.process import Process
from piecework_simulation.provider import CALL_TOKENS, CallRecord, OutgoingCall
from tests.simulation.story import CHUNK, REF, Story

Step: TypeAlias = Callable[[Story], object]


def write(sk: str = CHUNK, **facts: Any) -> Step:
    return lambda story: story.write(sk, **facts)


def create(**facts: Any) -> Step:
    return lambda story: story.create(CHUNK, **facts)


def claim(mark: str = "t1", **facts: Any) -> Step:
    return lambda story: story.claim(CHUNK, mark, **facts)


def delete(sk: str) -> Step:
    return lambda story: story.delete(sk)


def meta(*statuses: str, **facts: Any) -> tuple[Step, ...]:
    return tuple(write("META", status=status, **facts) for status in statuses)


def effect(state: str) -> Step:
    row = {"effect_key": "one", "gen": 1, "state": state}
    return write(keys.effect_sk(0, "one"), **row)


def execute(*identity: str, intended: bool = True) -> Step:
    return lambda story: story.execute_effect(*identity, intended=intended)


def cut_the_lease(story: Story) -> None:
    story.world.sent_at -= 0.001
    story.write(CHUNK, renewals=1, claim_expires_at=iso(story.world.now()))


def delete_the_message(story: Story) -> None:
    body = Message.about(REF.chunk(0), 1).model_dump_json()
    url = story.world.urls[story.world.settings.work_queue]
    story.invariants.check_deleted_message(url, body, story.world.now())


def delete_from_another_queue(story: Story) -> None:
    body = Message.about(REF.chunk(0), 1).model_dump_json()
    url = story.world.urls[story.world.settings.queue_name("slow")]
    story.invariants.check_deleted_message(url, body, story.world.now())


def write_as_another_tenant(story: Story) -> None:
    story.world.sender = Process("w", tenant="another")
    story.show_change(REF.pk, "NOTE", None, {"job": REF.job})


def claim_early(story: Story) -> None:
    story.write(CHUNK, status="WAITING", retry_at=iso(story.world.now() + 3_600.0))
    story.claim(CHUNK)


def harm_again(story: Story) -> None:
    story.lose_claim()
    story.claim(CHUNK, "t2", by="v", fence=2, attempts=2)
    story.provider.check_harm((REF.tenant, REF.job, 0), "v")


def undo_twice(story: Story) -> None:
    """Repeat a call of a compensation that runs again, under another key."""
    story.provider.continues = story.invariants.continues
    for gen in (1, 2):
        stage = keys.compensation_stage("book", gen)
        scope = CallScope(REF.tenant, REF.job, 0, stage, "trip")
        story.provider.check_compensation(scope, undo_twice, (1,))


def start_calls(
    requests: int | None = None, tokens: int | None = None, second: int | None = None
) -> Step:
    limits = Limits(requests, tokens, requests_per_second=second)
    shop = Dependency("shop", limits=limits, estimate=lambda: 101)

    def start(story: Story) -> None:
        for _ in range(3):
            story.invariants.check_start(OutgoingCall("one", shop), ())

    return start


def call_late(story: Story) -> None:
    story.world.loop.moment += 31.0
    scope = CallScope(REF.tenant, REF.job, 0, "first", "trip")
    story.invariants.check_start(OutgoingCall("one", Dependency("shop"), scope), ())


def leave_a_lane_early(story: Story) -> None:
    scope = CallScope(REF.tenant, REF.job, 0, "first", "trip")
    asked = OutgoingCall("one", Dependency("mini", lane=Lane.flex()), scope)
    story.invariants.lanes.note_full(asked)
    story.world.loop.moment += 200.0
    with taking(Lane.direct()):
        story.invariants.check_start(asked, ())


STREAM = keys.idempotency_pk(REF.tenant, "s")


def call_a_number(story: Story) -> None:
    story.write(keys.HEAD_SK, pk=STREAM, due_number=2)
    scope = CallScope(REF.tenant, REF.job, 0, "first", "trip")
    asked = OutgoingCall(
        "one", Dependency("shop"), scope, operation=OperationRef("s", "", 1)
    )
    story.invariants.check_start(asked, ())
    story.provider.check_key(asked, "a key of its own")


def replace_an_answer(story: Story) -> None:
    done = {"state": "DONE", "valid_until": iso(story.world.now() + 9)}
    story.write(keys.RECORD_SK, pk=STREAM, **done)
    story.write(keys.RECORD_SK, pk=STREAM, state="BEGUN")


def call_for_two_chunks(story: Story) -> None:
    entry = CallRecord(Effect.PURE)
    for chunk in range(2):
        scope = CallScope(REF.tenant, REF.job, chunk, "first", "trip")
        asked = OutgoingCall("one", Dependency("shop"), scope)
        story.provider.check_scope(entry, asked)


def read_a_foreign_value(story: Story) -> None:
    story.provider.record_value(("another", REF.job, 0), "1")
    story.provider.check_value((REF.tenant, REF.job, 0), "1")


def budget(seq: int | None, **slices: int) -> Step:
    """Write a budget with the slices of some workers; None: delete it."""
    held = {w: {"tokens": n, "nano_usd": 0, "until": 0} for w, n in slices.items()}

    def write_budget(story: Story) -> None:
        last = (seq or 3) - 1
        old = {"seq": last, "slices": {"w": held["w"]} if "w" in held else {}}
        new = None if seq is None else {"seq": seq, "slices": held}
        story.show_budget(old if last else None, new)

    return write_budget


def spend_twice(story: Story) -> None:
    scope = CallScope(REF.tenant, REF.job, 0, "first", "trip")
    model = Dependency("model", usage=lambda _: Usage(CALL_TOKENS))
    for call in ("one", "two"):
        story.invariants.check_answer(
            OutgoingCall(call, model, scope, estimate=CALL_TOKENS), 0
        )


def question(state: str, at: float = 0.0, **facts: Any) -> Step:
    """Write a question, `at` seconds before or after its end."""

    def write_question(story: Story) -> None:
        until = iso(story.world.now() - at)
        sk = keys.question_sk(0, "first", "approval")
        story.write(sk, state=state, gen=1, until=until, **facts)

    return write_question


def told(story: Story) -> None:
    """Tell a reminder of a question."""
    facts = {"chunk": 0, "stage": "first", "question": "approval", "gen": 1}
    row = {"event": "reminded", "step": 1, **facts}
    story.show_change(REF.pk, keys.EVENT_PREFIX + str(id(row)), None, row)


#: A job whose budget pays for one call.
BUDGETED = write(
    "META", status="SUBMITTING", gen=1, chunks=1, budget_tokens=CALL_TOKENS
)
SUBMIT: Step = Story.submit_job
UNOPENED = meta("SUBMITTING", gen=1, chunks=2)
CLAIMED: tuple[Step, ...] = (SUBMIT, claim())
SECOND = keys.chunk_sk(1)
#: Two chunks of one order key.
KEYED: tuple[Step, ...] = (
    *meta("SUBMITTING", gen=1, chunks=2),
    create(order_key="k"),
    lambda story: story.create(SECOND, order_key="k"),
)
ENDED = (*CLAIMED, write(status="SUCCEEDED", claimed_by=None))
CANCELLED = (SUBMIT, write(status="CANCELLED"))
CLOSED = write("model", pk=keys.BREAKERS_PK, breaker_state="closed", gen=1)

#: The message of a checker, and the writes that must cause it.
WRITES: dict[str, tuple[Step, ...]] = {
    "I1: {change.pk} {change.sk} was deleted": (SUBMIT, delete(CHUNK)),
    "I1: job {change.pk} was deleted": (SUBMIT, delete("META")),
    "I1: job {new['job']} runs with {written} chunks": (
        *(*UNOPENED, create(), *meta("RUNNING")),
    ),
    "I2: {self.name} lost a gen or fence": (*CLAIMED, write(fence=0)),
    "I2: {self.name} skipped a fence": (SUBMIT, claim(fence=2)),
    "I2: {self.name} has two owners at fence {new['fence']}": (
        *(*CLAIMED, write(fence=0, status="PENDING"), claim("t2")),
    ),
    "I2: {self.name} was claimed twice by one token": (
        *(*CLAIMED, write(status="WAITING", claimed_by=None), claim(fence=2)),
    ),
    "I3: {sender.name} wrote to {self.name}, owned by {owner}": (
        *(*CLAIMED, write(by="thief", status="SUCCEEDED")),
    ),
    "I3: {self.name} returned to {new['stage']}": (
        *(*CLAIMED, write(stage="second"), write(stage="first")),
    ),
    "I3: {self.name} lost the value of {stage}": (
        *(*CLAIMED, write(stages={"first": {"fence": 1}}), write(stages={})),
    ),
    "I4: {checker.name} moved {old} -> {new}": (SUBMIT, write(status="DEAD")),
    "I4: {self.name} was created as {new['status']}": (
        *(*UNOPENED, create(status="RUNNING")),
    ),
    "I4: {self.name} began a generation before its end": (SUBMIT, create(gen=2)),
    "I4: {self.name} left {old['status']} for {new['status']}": (
        *(*ENDED, write(status="WAITING")),
    ),
    "I4: {self.name} was claimed after its end": (*ENDED, claim("t2", fence=2)),
    "I4: {self.name} was written to after its end": (
        *(*ENDED, write(result_sha256="another")),
    ),
    "I4: job {new['job']} moved {was} -> {new['status']}": (
        *(SUBMIT, *meta("SUCCEEDED")),
    ),
    "I6: {outgoing.dependency.name} {name} executed twice": (execute(), execute()),
    "I6: {outgoing.dependency.name} {name} also ran in a fallback": (
        *(execute(), execute("other")),
    ),
    "I23: {name} repeated a call of {stage}": (
        *(SUBMIT, claim(), write(status="DEAD")),
        write(status="PENDING", gen=2, attempts=0, direction="compensating"),
        undo_twice,
    ),
    "I7: {outgoing.dependency.name} {name} without an intent": (
        execute(intended=False),
    ),
    "I7: {key[:12]} is DONE without an execution": (SUBMIT, effect("DONE")),
    "I9: a message of {checker.name} was lost": (*CLAIMED, delete_the_message),
    "I27: {checker.name} had a message in {queue!r}": (
        *(*CLAIMED, delete_from_another_queue),
    ),
    "I10: {self.name} used {new['attempts']} of {limit} attempts": (
        *(SUBMIT, claim(attempts=4)),
    ),
    "I10: {self.name} changed its counts without a reason": (
        *(*CLAIMED, write(status="WAITING", attempts=0, releases=0)),
    ),
    "I10: {self.name} was recovered too often": (*CLAIMED, write(recoveries=100)),
    "I10: {self.name} was taken over too often": (*CLAIMED, write(takeovers=100)),
    "I11: {self.name} was claimed after its cancel": (
        *(SUBMIT, write(cancel_requested_at=True), claim()),
    ),
    "I8: {key[:12]} was refused, and is COMPENSATED": (
        *(*CLAIMED, effect("REFUSED"), effect("COMPENSATED")),
    ),
    "I11: {key[:12]} began after its job was cancelled": (
        *(*CANCELLED, *meta("CANCELLING", "CANCELLED"), effect("INTENT")),
    ),
    "I12: job {new['job']} is {status}, and {open_} are open": (
        *(*CLAIMED, *meta("FINALIZING")),
    ),
    "I12: job {new['job']} succeeded without all chunks": (
        *(*CANCELLED, *meta("FINALIZING", "SUCCEEDED")),
    ),
    "I5: {change.pk} {change.sk} holds a large value": (
        write("NOTE", value="x" * (INLINE_LIMIT + 1)),
    ),
    "I13: {place} names tenant {named}": (write("NOTE", tenant="another"),),
    "I13: a command of {tenant} wrote {place}": (write_as_another_tenant,),
    "I13: the value of {place} is at {stored_at}": (
        write("NOTE", value_at="tenants/another/jobs/trip/values/1.json"),
    ),
    "I13: {outgoing.identity[:12]} is of two chunks": (call_for_two_chunks,),
    "I13: {tenant}/{job}/{number} has a foreign value": (read_a_foreign_value,),
    "I14: {checker.name} has no job": (create(),),
    "I16: {new['job']}/{new['chunk']} died of {cause}": (
        *(*CLAIMED, write(status="DEAD", error_code="aws.access.denied")),
    ),
    "I16: suspect {tenant}/{job}/{number} did harm": (*CLAIMED, harm_again),
    "I17: the limits of {name} were deleted": (
        lambda story: story.show_limits({"seq": 1}, None),
    ),
    "I17: {name} moved from {old.seq} to {new.seq}": (
        lambda story: story.show_limits({"seq": 3}, {"seq": 1}),
    ),
    "I17: {name} started {len(starts)} of {requests}": (start_calls(requests=2),),
    "I17: {name} started {last} of {a_second} a second": (start_calls(second=2),),
    "I17: {name} used {used} of {limited_tokens} tokens": (start_calls(tokens=200),),
    "I32: {name} went direct after {waited:.0f} s": (leave_a_lane_early,),
    "I26: {name} moved to number {due}": (
        lambda story: story.write(keys.HEAD_SK, pk=STREAM, due_number=3),
    ),
    "I26: the stored answer of {name} was replaced": (replace_an_answer,),
    "I26: {ref.number} was called when {due} was due": (call_a_number,),
    "I26: {outgoing.dependency.name} got another key": (call_a_number,),
    "I19: {job_pk} started a call {seconds:.0f} s after its pause": (
        *(*CLAIMED, *meta("PAUSED"), call_late),
    ),
    "{text}, which waits for the sample": (
        *(*CLAIMED, *meta("RUNNING", rest_held="now", sample=[1]), call_late),
    ),
    "I20: {name} ended as stopped, and no dead letter stops it": (
        *(*KEYED, write(status="CANCELLED", error_code=STOPPED_CODE)),
    ),
    "I20: {name} moved to another order key": (*KEYED, write(order_key="l")),
    "I20: {name} was reopened after it was skipped": (
        *(*KEYED, write(status="DEAD", skipped_at="now")),
        write(status="PENDING", gen=2),
    ),
    "I20: {name} was claimed while {number} before it is {status}": (
        *(*KEYED, lambda story: story.claim(SECOND)),
    ),
    "I20: {name} was claimed after {number} behind it": (
        *(*KEYED, write(status="SUCCEEDED"), lambda story: story.claim(SECOND)),
        claim(status="RUNNING"),
    ),
    "I21: the budget of {change.pk} was deleted": (BUDGETED, budget(1), budget(None)),
    "I21: {change.pk} moved to {new.seq}": (
        *(BUDGETED, lambda story: story.show_budget({"seq": 1}, {"seq": 3})),
    ),
    "I21: {job_pk} reserved {after} of the cap": (
        *(BUDGETED, budget(1, w=20), budget(2, w=20, v=1)),
    ),
    "I21: {job_pk} used {used} of {self.caps[job_pk]} tokens": (BUDGETED, spend_twice),
    "I24: {name} was deleted": (
        *(question("OPEN"), delete(keys.question_sk(0, "first", "approval"))),
    ),
    "I24: {name} was created as {new['state']}": (question("ANSWERED"),),
    "I24: {name} was decided twice": (
        *(question("OPEN"), question("ANSWERED", answer="1", decided_by="ada")),
        question("ANSWERED", answer="2", decided_by="bob"),
    ),
    "I24: {name} changed after its end": (
        *(question("OPEN"), question("EXPIRED"), question("OPEN")),
    ),
    "I24: {name} was answered after its end": (
        *(question("OPEN"), question("ANSWERED", at=60.0)),
    ),
    "I24: {name} ended {left:.0f} s early": (
        *(question("OPEN"), question("DEFAULTED", at=-60.0)),
    ),
    "I25: {step} was delivered twice": (told, told),
    "L3: {self.name} was claimed before it was due": (SUBMIT, claim_early),
    "L3: {self.name} was claimed while it had an owner": (
        *(*CLAIMED, claim("t2", fence=2)),
    ),
    "L3: the lease of {self.name} was shortened": (*CLAIMED, cut_the_lease),
    "breaker {change.sk} {text}": (CLOSED, CLOSED),
}
