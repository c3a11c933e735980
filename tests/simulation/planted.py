"""Bugs to plant in the real code: each a guard that is taken away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from piecework.aws import endpoint, objects, work_queues
from piecework.calls import attempts, call, caller, fallback, in_flight
from piecework.domain import keys
from piecework.domain.claim import Busy, Claim, explain_refusal
from piecework.domain.outcome import Retry
from piecework.errors import StoreError
from piecework.jobs import order
from piecework.reconciler import chunks, liveness
from piecework.resilience.limits import Start
from piecework.resilience.retry import Answered
from piecework.saga.stage import describe_failure
from piecework.store import (
    batches,
    budgets,
    checkpoints,
    claims,
    completion,
    dead_letters,
    effects,
    limits,
    questions,
    settlements,
    takeovers,
)
from piecework.store.table import Table, Written
from piecework_simulation.driver import simulated_pipeline
from piecework_worker import executor
from piecework_worker.batches import collecting
from piecework_worker.work_item import MessageAction

Patch = pytest.MonkeyPatch
ANY_OF_THEM = "(gen = :gen OR fence = :fence OR claim_token = :token)"
OF_NOBODY = f"#status = :running AND {ANY_OF_THEM}"


def without(patch: Patch, module: Any, name: str, part: str, by: str = "") -> None:
    """Remove a part of a condition."""
    whole = getattr(module, name)
    assert part in whole
    patch.setattr(module, name, whole.replace(part, by))


def cancelled_chunks_are_claimed(patch: Patch) -> None:
    def heedless(ref: Any, item: Any, **facts: Any) -> Any:
        asked = {"cancel_requested_at", "compensate_requested"}
        left = {name: item[name] for name in (item or {}) if name not in asked}
        return explain_refusal(ref, left or None, **facts)

    without(patch, claims, "CLAIM", f" AND {claims.NOT_CANCELLED}")
    patch.setattr(claims, "explain_refusal", heedless)


def attempts_are_not_limited(patch: Patch) -> None:
    without(patch, claims, "CLAIM", claims.ATTEMPTS_LEFT, ":max_attempts > :zero")


def ended_chunks_are_claimed(patch: Patch) -> None:
    anything = "(#status IN (:pending, :waiting) OR ended_at < :now)"
    without(patch, claims, "CLAIM", claims.OPEN, anything)


def writes_are_not_fenced(patch: Patch) -> None:
    for module in (claims, settlements, effects, checkpoints):
        patch.setattr(module, "OWNED", OF_NOBODY)


def losers_delete_their_message(patch: Patch) -> None:
    refused = executor.handle_refusal

    async def impatient(answer: Any, *more: Any) -> Any:
        held = isinstance(answer, Busy)
        return MessageAction.DELETE if held else await refused(answer, *more)

    patch.setattr(executor, "handle_refusal", impatient)


def nothing_is_sent_again(patch: Patch) -> None:
    patch.setattr(chunks, "due", lambda *_: False)


def living_leases_are_given_back(patch: Patch) -> None:
    patch.setattr(liveness.LeaseObserver, "unchanged_for", lambda *_: 1_000.0)
    patch.setattr(takeovers, "NOT_RENEWED_SINCE", "renewals >= :renewals")


def a_full_tally_is_believed(patch: Patch) -> None:
    patch.setattr(completion, "has_ended", lambda _: True)


def an_effect_is_not_looked_up(patch: Patch) -> None:
    async def blind(*_: Any) -> Answered[None]:
        return Answered(None)

    patch.setattr(attempts.Attempts, "look_up", blind)


def nobody_waits_for_what_may_land(patch: Patch) -> None:
    async def at_once(_: Any) -> None:
        return None

    patch.setattr(in_flight.InFlight, "wait", at_once)


def wrong_clocks_are_believed(patch: Patch) -> None:
    patch.setattr(endpoint.ServiceClock, "observe", lambda *_: None)


def a_redrive_leaves_its_letter_open(patch: Patch) -> None:
    patch.setattr(dead_letters.DeadLetters, "redrive_writes", lambda *_: [])


def whoever_refused_is_asked_again(patch: Patch) -> None:
    patch.setattr(fallback, "first_position", lambda *_: 0)


def any_failure_is_a_refusal(patch: Patch) -> None:
    patch.setattr(fallback, "is_refused", lambda *_: True)


def a_late_request_claims_again(patch: Patch) -> None:
    without(patch, claims, "CLAIM", claims.NO_CLAIM_SINCE, "fence >= :last")


def a_late_renewal_cuts_the_lease(patch: Patch) -> None:
    patch.setattr(claims, "NEXT_RENEWAL", "renewals >= :seen")


def a_lost_claim_is_charged(patch: Patch) -> None:
    release = takeovers.Takeovers.release_expired

    async def strict(self: takeovers.Takeovers, chunk: Any) -> bool:
        settings = replace(self.settings, max_takeovers=0)
        return await release(replace(self, settings=settings), chunk)

    patch.setattr(takeovers.Takeovers, "release_expired", strict)


def suspects_run_beside_others(patch: Patch) -> None:
    patch.setattr(Claim, "is_suspect", False)


def a_refusal_by_aws_spends_an_attempt(patch: Patch) -> None:
    def impatient(run: Any, error: StoreError) -> Retry:
        return Retry(describe_failure(error, run.ctx, run.limits), 1.0)

    patch.setattr(executor, "outcome_of_store_error", impatient)


def tenants_share_their_rows(patch: Patch) -> None:
    patch.setattr(keys, "job_pk", lambda _, job: f"T#tenant#J#{job}")


def tenants_share_their_objects(patch: Patch) -> None:
    patch.setattr(keys, "object_prefix", lambda _, job: f"tenants/tenant/jobs/{job}")


def tenants_share_their_calls(patch: Patch) -> None:
    call_key = call.call_key

    def shared(scope: call.CallScope, *more: Any) -> str:
        return call_key(replace(scope, tenant="tenant"), *more)

    for module in (call, caller, fallback, simulated_pipeline):
        patch.setattr(module, "call_key", shared)


def large_values_stay_in_the_row(patch: Patch) -> None:
    patch.setattr(objects, "INLINE_LIMIT", 1024 * 1024)


def rows_of_values_are_not_written(patch: Patch) -> None:
    put = Table.put

    async def forgetful(self: Any, write: Any) -> Any:
        return Written({}) if "STAGE#" in write.sk else await put(self, write)

    patch.setattr(checkpoints, "UNIT_BYTES", 0)
    patch.setattr(Table, "put", forgetful)


def later_stages_replace_earlier_ones(patch: Patch) -> None:
    with_stage = checkpoints.ChunkCheckpoints.with_stage

    async def forgetful(self: Any, index: int, value: str) -> Any:
        self._entries = {}
        return await with_stage(self, index, value)

    patch.setattr(checkpoints.ChunkCheckpoints, "with_stage", forgetful)


def large_values_are_not_stored(patch: Patch) -> None:
    put = objects.Objects.put

    async def forgetful(self: Any, key: str, *more: Any) -> str:
        return key if "/values/" in key else await put(self, key, *more)

    patch.setattr(objects.Objects, "put", forgetful)


def long_waits_are_forgotten(patch: Patch) -> None:
    due = chunks.due

    def forgetful(chunk: Any, *more: Any) -> bool:
        return not chunk.retry_at and due(chunk, *more)

    patch.setattr(chunks, "due", forgetful)


def waits_are_not_waited_for(patch: Patch) -> None:
    def heedless(ref: Any, item: Any, **facts: Any) -> Any:
        left = {name: item[name] for name in (item or {}) if name != "retry_at"}
        return explain_refusal(ref, left or None, **facts)

    patch.setattr(claims, "explain_refusal", heedless)
    without(patch, claims, "CLAIM", claims.DUE, "fence >= :zero")


def messages_go_to_the_default_queue(patch: Patch) -> None:
    send = work_queues.WorkQueues.send

    async def heedless(self: Any, messages: Any, *, to: str, **more: Any) -> int:
        return await send(self, messages, to="" if to else to, **more)

    patch.setattr(work_queues.WorkQueues, "send", heedless)


#: The guard to remove, and the invariants of which one must be violated.
def workers_share_their_starts(patch: Patch) -> None:
    seen = limits.FIRST_OR_SEEN
    without(patch, limits, "FIRST_OR_SEEN", "seq = :seen", f"{seen} OR seq > :seen")


def workers_share_their_slices(patch: Patch) -> None:
    without(patch, budgets, "SEEN", "seq = :seen", "seq >= :seen")


def late_starts_are_used(patch: Patch) -> None:
    patch.setattr(Start, "is_late", lambda *_: False)


def blocked_chunks_are_claimed(patch: Patch) -> None:
    without(patch, claims, "CLAIM", f" AND {claims.NOT_BLOCKED}")
    patch.setattr(order.BlockedChunks, "note", lambda *_: False)


def keys_go_on_after_a_dead_letter(patch: Patch) -> None:
    patch.setattr(order, "allows_next", lambda chunk: chunk.status.ended)


def two_answers_count(patch: Patch) -> None:
    for name, part in (
        ("IN_TIME", "#state = :open"),
        ("WAITS_FOR_IT", "question = :question"),
        ("WAITS_FOR_IT", "due_at = :due"),
    ):
        without(patch, questions, name, part, f"({part} OR gen = :gen)")


def a_request_is_closed_again(patch: Patch) -> None:
    anything = "(#state = :open OR attribute_exists(pk))"
    without(patch, batches, "IS_OPEN", "#state = :open", anything)


def a_lost_creation_is_not_looked_for(patch: Patch) -> None:
    async def blind(*_: Any) -> tuple[str, bool]:
        return "", False

    patch.setattr(collecting.Collecting, "_mine", blind)


PLANTED: dict[str, tuple[Callable[[Patch], None], set[str]]] = {
    plant.__name__: (plant, invariants)
    for plant, invariants in (
        (cancelled_chunks_are_claimed, {"I11"}),
        (blocked_chunks_are_claimed, {"I20"}),
        (keys_go_on_after_a_dead_letter, {"I20"}),
        (attempts_are_not_limited, {"I10"}),
        (ended_chunks_are_claimed, {"I4"}),
        (writes_are_not_fenced, {"I2", "I3", "I4"}),
        (losers_delete_their_message, {"I9"}),
        (nothing_is_sent_again, {"L2"}),
        (living_leases_are_given_back, {"I3"}),
        (a_full_tally_is_believed, {"I12", "I1"}),
        (an_effect_is_not_looked_up, {"I6"}),
        (nobody_waits_for_what_may_land, {"I6", "I8"}),
        (wrong_clocks_are_believed, {"I3"}),
        (a_redrive_leaves_its_letter_open, {"I15"}),
        (whoever_refused_is_asked_again, {"I6"}),
        (any_failure_is_a_refusal, {"I6"}),
        (a_late_request_claims_again, {"I2"}),
        (a_late_renewal_cuts_the_lease, {"L3"}),
        (a_lost_claim_is_charged, {"I16"}),
        (suspects_run_beside_others, {"I16"}),
        (a_refusal_by_aws_spends_an_attempt, {"I16"}),
        (tenants_share_their_rows, {"I13"}),
        (tenants_share_their_objects, {"I13"}),
        (tenants_share_their_calls, {"I13"}),
        (large_values_stay_in_the_row, {"I5"}),
        (large_values_are_not_stored, {"I5"}),
        (rows_of_values_are_not_written, {"I5"}),
        (later_stages_replace_earlier_ones, {"I3"}),
        (long_waits_are_forgotten, {"L2"}),
        (waits_are_not_waited_for, {"L3"}),
        (workers_share_their_starts, {"I17"}),
        (workers_share_their_slices, {"I21"}),
        (late_starts_are_used, {"I17"}),
        (messages_go_to_the_default_queue, {"I27"}),
        (two_answers_count, {"I24"}),
        (a_request_is_closed_again, {"I34"}),
        (a_lost_creation_is_not_looked_for, {"I34"}),
    )
}
#: The guards that only jobs with batches need: their schedules have no others.
OF_BATCHES = {
    "a_request_is_closed_again",
    "a_lost_creation_is_not_looked_for",
}
#: These take hundreds of schedules, or thousands. A second guard prevents the harm, or
#: the harm needs a rare moment.
SLOW_TO_SHOW = {
    "a_late_renewal_cuts_the_lease",
    "a_late_request_claims_again",
    "writes_are_not_fenced",
    "nobody_waits_for_what_may_land",
    "any_failure_is_a_refusal",
    "late_starts_are_used",
}
#: The faults without which a removed guard does no harm, or too rarely, at their rates:
#: each schedule has them.
NEEDED = {
    "attempts_are_not_limited": {"input.kill": 0.5},
    "large_values_are_not_stored": {"value.large": 0.5},
    "large_values_stay_in_the_row": {"value.large": 0.5},
    "tenants_share_their_calls": {"tenant.second": 0.5},
    "tenants_share_their_objects": {"tenant.second": 0.5, "value.large": 0.5},
    "tenants_share_their_rows": {"tenant.second": 0.5},
    "a_request_is_closed_again": {"batch.unreachable": 0.2, "process.kill": 0.01},
    "a_lost_creation_is_not_looked_for": {"batch.create_lost": 0.5},
    "two_answers_count": {"request.slow": 0.2},
    "wrong_clocks_are_believed": {"clock.offset": 0.5, "process.stop": 0.5},
}
