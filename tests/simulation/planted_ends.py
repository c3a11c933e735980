"""Plant invalid final states in a correct run."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from piecework.domain import keys
from piecework.domain.effect import Effect
from piecework.domain.refs import JobRef
from piecework.store.serialization import to_item
from piecework_simulation.driver import actions, schedule
from piecework_simulation.driver.actions import ScheduleDriver, Workload
from piecework_simulation.driver.pipelines import Item, counting
from piecework_simulation.driver.schedule import run_schedule
from piecework_simulation.driver.simulated_pipeline import instrument_pipeline
from piecework_simulation.engine.world import BUCKET, World
from piecework_simulation.invariants.checker import Invariants
from piecework_simulation.invariants.end_state import check_deleted, check_final_state
from piecework_simulation.provider import CallRecord

Tamper = Callable[[World, Invariants], object]


def two_chunks(_: Random) -> list[Item]:
    return [Item(n=n, calls=1) for n in range(2)]


WORKLOADS = (Workload(instrument_pipeline(counting), two_chunks),)


def violations_of_run(patch: pytest.MonkeyPatch, tamper: Tamper) -> Sequence[str]:
    """Run a job without faults; return the violations after tampering with its end."""

    def tampered(world: World, invariants: Invariants) -> None:
        world.dynamodb.on_write = lambda _: None
        tamper(world, invariants)
        check_final_state(world, invariants)

    patch.setattr(schedule, "swarm", lambda _: {})

    async def keep(_: ScheduleDriver) -> None:
        """Delete no job: the tampering hides its writes."""

    patch.setattr(actions, "check_final_state", tampered)
    patch.setattr(ScheduleDriver, "delete_jobs", keep)
    return run_schedule(1, WORKLOADS).violations


def alter_chunk(invariants: Invariants, chunk: int = 0, **facts: Any) -> None:
    """Change a recorded chunk."""
    (pk,) = invariants.jobs
    book = invariants.chunks[pk][chunk]
    book.item = {**book.item, **facts}


def alter_certificate(
    world: World, invariants: Invariants, act: Callable[[Any], object]
) -> None:
    """Change the certificate."""
    (meta,) = invariants.jobs.values()
    objects = world.s3._buckets[BUCKET]
    where = meta["certificate"]
    content = json.loads(objects[where].content)
    act(content)
    del objects[where]
    put = {"Bucket": BUCKET, "Key": where, "Body": json.dumps(content).encode()}
    world.s3.call("put_object", put)


def put(world: World, invariants: Invariants, sk: str, **facts: Any) -> None:
    """Write a row next to a chunk's."""
    (pk,) = invariants.jobs
    table = world.settings.checkpoints_table
    item = to_item({"pk": pk, "sk": sk, **facts})
    world.dynamodb.call("put_item", {"TableName": table, "Item": item})


def a_chunk_is_left_open(_: World, invariants: Invariants) -> None:
    alter_chunk(invariants, status="WAITING")


def a_cancel_has_no_place(_: World, invariants: Invariants) -> None:
    alter_chunk(invariants, status="CANCELLED")


def a_death_has_no_letter(_: World, invariants: Invariants) -> None:
    alter_chunk(invariants, status="DEAD", error_code="tool.stock.none")


def a_certificate_knows_a_chunk_too_many(world: World, invariants: Invariants) -> None:
    alter_certificate(
        world, invariants, lambda content: content["results"].update({"7": "x"})
    )


def a_certificate_cannot_count(world: World, invariants: Invariants) -> None:
    alter_certificate(
        world, invariants, lambda content: content["outcomes"].update(SUCCEEDED=7)
    )


def a_certificate_has_another_result(world: World, invariants: Invariants) -> None:
    alter_certificate(
        world, invariants, lambda content: content["results"].update({"0": "x"})
    )


def a_result_is_not_the_one_that_was_told(_: World, invariants: Invariants) -> None:
    alter_chunk(invariants, value='"another"')


def a_deleted_job_is_still_there(world: World, invariants: Invariants) -> None:
    ((tenant, job, _),) = [invariants.chunk_name(pk, 0) for pk in invariants.jobs]
    check_deleted(world, invariants, JobRef(tenant, job))


def a_chunk_has_two_results(world: World, invariants: Invariants) -> None:
    put(world, invariants, keys.result_sk(0), value="1")


def an_effect_is_on_no_record(_: World, invariants: Invariants) -> None:
    assert invariants.provider is not None
    entry = CallRecord(Effect.PROVIDER_IDEMPOTENT, executions=1, active=1)
    invariants.provider.records["somewhere"] = entry


def what_is_undone_stands(world: World, invariants: Invariants) -> None:
    an_effect_is_on_no_record(world, invariants)
    row = {"effect_key": "somewhere", "state": "COMPENSATED"}
    put(world, invariants, keys.effect_sk(0, "somewhere"), **row)


def an_object_belongs_to_no_job(world: World, _: Invariants) -> None:
    asked = {"Bucket": BUCKET, "Key": "tenants/another/jobs/job-0/x", "Body": b"1"}
    world.s3.call("put_object", asked)


def a_large_result_is_gone(world: World, invariants: Invariants) -> None:
    ((tenant, job, _),) = [invariants.chunk_name(pk, 0) for pk in invariants.jobs]
    at = f"{keys.object_prefix(tenant, job)}/values/gone.json"
    put(world, invariants, keys.result_sk(0), value_at=at, value_sha256="x")


def a_named_value_is_gone(_: World, invariants: Invariants) -> None:
    alter_chunk(invariants, stages={"first": {"fence": 1}})


def a_call_is_billed_too_often(_: World, invariants: Invariants) -> None:
    alter_chunk(invariants, call_usage={"paid": {"model": [99]}})


def a_call_is_not_billed(_: World, invariants: Invariants) -> None:
    alter_chunk(invariants, call_usage={})


def a_cheap_call_is_billed_in_full(_: World, invariants: Invariants) -> None:
    alter_chunk(invariants, call_usage={"paid": {"scale flex": [0, 0, 0, 10**9]}})


def a_call_of_another_tier_is_billed_too_low(_: World, invariants: Invariants) -> None:
    provider = invariants.provider
    assert provider is not None
    (name,) = {invariants.chunk_name(pk, 0) for pk in invariants.jobs}
    provider.charged_nano[name] += 1


#: The message of a checker, and the change that must cause it.
ENDS: dict[str, Tamper] = {
    "L1: {name}/{number} is {item['status']}": a_chunk_is_left_open,
    "I5: {item['job']}/{chunk} has two results": a_chunk_has_two_results,
    "I5: {item['job']}/{chunk} stores an unexpected result": (
        a_result_is_not_the_one_that_was_told
    ),
    "I5: {item['job']}/{chunk} has a different certified result": (
        a_certificate_has_another_result
    ),
    "I7: {identity[:12]} was executed without an effect row": an_effect_is_on_no_record,
    "I8: {identity[:12]} is {state} and still in effect": what_is_undone_stands,
    "I12: the certificate of {name} omits chunks": (
        a_certificate_knows_a_chunk_too_many
    ),
    "I5: the result of {item['job']}/{chunk} is gone": a_large_result_is_gone,
    "I5: stage {stage} of {job}/{chunk} is gone": a_named_value_is_gone,
    "I13: object {name} belongs to no job": an_object_belongs_to_no_job,
    "I15: {name}/{number} has no cancel position": a_cancel_has_no_place,
    "I15: the outcome counts of {name} are wrong": a_certificate_cannot_count,
    "I15: {item['job']}/{item['chunk']} has no dead letter: {row}": (
        a_death_has_no_letter
    ),
    "I22: {ref.job} left the row {row['sk']}": a_deleted_job_is_still_there,
    "I22: {ref.job} left the object {name}": a_deleted_job_is_still_there,
    "I28: {job}/{number} bills {calls} calls": a_call_is_billed_too_often,
    "I28: {job}/{number} bills {known} calls of {charged}": a_call_is_not_billed,
    "I28: {job}/{number} bills {nano} nano-dollars": a_cheap_call_is_billed_in_full,
    "I28: {job}/{number} bills {known_nano} nano-dollars of {charged_nano}": (
        a_call_of_another_tier_is_billed_too_low
    ),
}
