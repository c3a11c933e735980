"""Plant invalid writes in the history of a small job."""

from __future__ import annotations

from collections.abc import Callable

from piecework.aws.queue import Message
from piecework.domain import keys
from piecework.domain.model import iso
from tests.simulation.story import CHUNK, REF, Story


def ended_chunk(story: Story) -> None:
    story.submit_job()
    story.claim(CHUNK)
    story.write(CHUNK, status="SUCCEEDED", claimed_by=None)


def claimed_chunk(story: Story) -> None:
    story.submit_job()
    story.claim(CHUNK)


def a_chunk_is_deleted(story: Story) -> None:
    story.submit_job()
    story.delete(CHUNK)


def a_job_is_deleted(story: Story) -> None:
    story.submit_job()
    story.delete("META")


def a_job_opens_with_a_chunk_missing(story: Story) -> None:
    story.write("META", status="SUBMITTING", gen=1, chunks=2)
    story.create(CHUNK)
    story.write("META", status="RUNNING")


def a_fence_falls_back(story: Story) -> None:
    claimed_chunk(story)
    story.write(CHUNK, fence=0)


def a_fence_is_left_out(story: Story) -> None:
    story.submit_job()
    story.claim(CHUNK, fence=2)


def a_fence_is_given_to_two(story: Story) -> None:
    claimed_chunk(story)
    story.write(CHUNK, fence=0, status="PENDING")
    story.claim(CHUNK, "t2")


def a_request_claims_twice(story: Story) -> None:
    claimed_chunk(story)
    story.write(CHUNK, status="WAITING", claimed_by=None)
    story.claim(CHUNK, fence=2)


def another_writes_to_a_held_chunk(story: Story) -> None:
    claimed_chunk(story)
    story.write(CHUNK, by="thief", status="SUCCEEDED")


def a_stage_is_begun_again(story: Story) -> None:
    claimed_chunk(story)
    for stage in ("second", "first"):
        story.write(CHUNK, stage=stage)


def a_waiting_chunk_dies_unclaimed(story: Story) -> None:
    story.submit_job()
    story.write(CHUNK, status="DEAD")


def a_chunk_is_born_at_work(story: Story) -> None:
    story.write("META", status="SUBMITTING", gen=1, chunks=1)
    story.create(CHUNK, status="RUNNING")


def a_life_begins_before_the_last_is_over(story: Story) -> None:
    story.submit_job()
    story.create(CHUNK, gen=2)


def an_end_is_left(story: Story) -> None:
    ended_chunk(story)
    story.write(CHUNK, status="WAITING")


def an_ended_chunk_is_claimed(story: Story) -> None:
    ended_chunk(story)
    story.claim(CHUNK, "t2", fence=2)


def a_job_leaps(story: Story) -> None:
    story.submit_job()
    story.write("META", status="SUCCEEDED")


def a_fourth_attempt_is_begun(story: Story) -> None:
    story.submit_job()
    story.claim(CHUNK, attempts=4)


def an_attempt_is_given_back_for_nothing(story: Story) -> None:
    claimed_chunk(story)
    story.write(CHUNK, status="WAITING", attempts=0, releases=0)


def a_chunk_is_wound_up_for_ever(story: Story) -> None:
    claimed_chunk(story)
    story.write(CHUNK, recoveries=100)


def a_cancelled_chunk_is_claimed(story: Story) -> None:
    story.submit_job()
    story.write(CHUNK, cancel_requested_at=True)
    story.claim(CHUNK)


def an_effect_begins_after_the_cancel(story: Story) -> None:
    story.submit_job()
    story.write(CHUNK, status="CANCELLED")
    story.write("META", status="CANCELLING")
    story.write("META", status="CANCELLED")
    an_intent(story)


def an_intent(story: Story, state: str = "INTENT") -> None:
    row = {"effect_key": "one", "gen": 1, "state": state}
    story.write(keys.effect_sk(0, "one"), **row)


def an_effect_is_done_that_never_was(story: Story) -> None:
    story.submit_job()
    an_intent(story, "DONE")


def a_job_finishes_over_an_open_chunk(story: Story) -> None:
    claimed_chunk(story)
    story.write("META", status="FINALIZING")


def a_job_succeeds_without_a_chunk(story: Story) -> None:
    story.submit_job()
    story.write(CHUNK, status="CANCELLED")
    story.write("META", status="FINALIZING")
    story.write("META", status="SUCCEEDED")


def a_chunk_has_no_job(story: Story) -> None:
    story.create(CHUNK)


def a_living_lease_is_taken(story: Story) -> None:
    claimed_chunk(story)
    story.claim(CHUNK, "t2", fence=2)


def a_lease_is_cut(story: Story) -> None:
    claimed_chunk(story)
    story.world.sent_at -= 0.001
    story.write(CHUNK, renewals=1, claim_expires_at=iso(story.world.now()))


def the_message_of_a_chunk_at_work_is_deleted(story: Story) -> None:
    claimed_chunk(story)
    body = Message.about(REF.chunk(0), 1).model_dump_json()
    url = story.world.urls[story.world.settings.work_queue]
    story.invariants.check_deleted_message(url, body, story.world.now())


def a_closed_breaker_is_closed(story: Story) -> None:
    for _ in range(2):
        story.write("model", pk=keys.BREAKERS_PK, breaker_state="closed", gen=1)


def an_effect_happens_twice(story: Story) -> None:
    story.execute_effect()
    story.execute_effect()


def an_effect_happens_elsewhere_too(story: Story) -> None:
    story.execute_effect()
    story.execute_effect("other")


def an_effect_happens_without_an_intent(story: Story) -> None:
    story.execute_effect(intended=False)


#: The message of a checker, and the writes that must cause it.
WRITES: dict[str, Callable[[Story], None]] = {
    "I1: {change.pk} {change.sk} was deleted": a_chunk_is_deleted,
    "I1: job {change.pk} was deleted": a_job_is_deleted,
    "I1: job {new['job']} runs with {written} chunks": (
        a_job_opens_with_a_chunk_missing
    ),
    "I2: {self.name} lost a gen or fence": a_fence_falls_back,
    "I2: {self.name} skipped a fence": a_fence_is_left_out,
    "I2: {self.name} has two owners at fence {new['fence']}": a_fence_is_given_to_two,
    "I2: {self.name} was claimed twice by one token": a_request_claims_twice,
    "I3: {sender.name} wrote to {self.name}, owned by {owner}": (
        another_writes_to_a_held_chunk
    ),
    "I3: {self.name} returned to {new['stage']}": a_stage_is_begun_again,
    "I4: {checker.name} moved {old} -> {new}": a_waiting_chunk_dies_unclaimed,
    "I4: {self.name} was created as {new['status']}": a_chunk_is_born_at_work,
    "I4: {self.name} began a generation before its end": (
        a_life_begins_before_the_last_is_over
    ),
    "I4: {self.name} left {old['status']} for {new['status']}": an_end_is_left,
    "I4: {self.name} was claimed after its end": an_ended_chunk_is_claimed,
    "I4: job {new['job']} moved {was} -> {new['status']}": a_job_leaps,
    "I6: {outgoing.dependency.name} {name} executed twice": an_effect_happens_twice,
    "I6: {outgoing.dependency.name} {name} also ran in a fallback": (
        an_effect_happens_elsewhere_too
    ),
    "I7: {outgoing.dependency.name} {name} without an intent": (
        an_effect_happens_without_an_intent
    ),
    "I7: {key[:12]} is DONE without an execution": an_effect_is_done_that_never_was,
    "I9: a message of {checker.name} was lost": (
        the_message_of_a_chunk_at_work_is_deleted
    ),
    "I10: {self.name} used {new['attempts']} of {limit} attempts": (
        a_fourth_attempt_is_begun
    ),
    "I10: {self.name} lost an attempt without a reason": (
        an_attempt_is_given_back_for_nothing
    ),
    "I10: {self.name} was recovered too often": a_chunk_is_wound_up_for_ever,
    "I11: {self.name} was claimed after its cancel": a_cancelled_chunk_is_claimed,
    "I11: {key[:12]} began after its job was cancelled": (
        an_effect_begins_after_the_cancel
    ),
    "I12: job {new['job']} is {status}, and {open_} are open": (
        a_job_finishes_over_an_open_chunk
    ),
    "I12: job {new['job']} succeeded without all chunks": (
        a_job_succeeds_without_a_chunk
    ),
    "I14: {checker.name} has no job": a_chunk_has_no_job,
    "L3: {self.name} was taken over {left:.1f} s early": a_living_lease_is_taken,
    "L3: the lease of {self.name} was shortened": a_lease_is_cut,
    "breaker {change.sk} {text}": a_closed_breaker_is_closed,
}
