"""Ends that no sound code comes to, planted in one that is as it should be."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from piecework import keys
from piecework.dependency import Effect
from piecework.store.wire import to_item
from simulation import acts, schedule
from simulation.acts import Work
from simulation.ending import check_the_end
from simulation.outside import Entry
from simulation.pipelines import Item, counting
from simulation.promises import Promises
from simulation.schedule import run_schedule
from simulation.watched import watched
from simulation.world import BUCKET, World

Tamper = Callable[[World, Promises], object]


def two_chunks(_: Random) -> list[Item]:
    return [Item(n=n, calls=1) for n in range(2)]


WORKS = (Work(watched(counting), two_chunks),)


def ended(patch: pytest.MonkeyPatch, tamper: Tamper) -> Sequence[str]:
    """Run a job on a good day; say what is broken when its end is tampered with."""

    def tampered(world: World, promises: Promises) -> None:
        world.dynamodb.on_write = lambda _: None
        tamper(world, promises)
        check_the_end(world, promises)

    patch.setattr(schedule, "swarm", lambda _: {})
    patch.setattr(acts, "check_the_end", tampered)
    return run_schedule(1, WORKS).broken


def forged(promises: Promises, chunk: int = 0, **facts: Any) -> None:
    """Let a chunk be otherwise than it is."""
    (pk,) = promises.jobs
    book = promises.chunks[pk][chunk]
    book.item = {**book.item, **facts}


def certified(world: World, promises: Promises, act: Callable[[Any], object]) -> None:
    """Let the certificate say something else."""
    (meta,) = promises.jobs.values()
    objects = world.s3._buckets[BUCKET]
    where = meta["certificate"]
    told = json.loads(objects[where].content)
    act(told)
    del objects[where]
    put = {"Bucket": BUCKET, "Key": where, "Body": json.dumps(told).encode()}
    world.s3.call("put_object", put)


def put(world: World, promises: Promises, sk: str, **facts: Any) -> None:
    """Put a row beside a chunk."""
    (pk,) = promises.jobs
    table = world.settings.checkpoints_table
    item = to_item({"pk": pk, "sk": sk, **facts})
    world.dynamodb.call("put_item", {"TableName": table, "Item": item})


def a_chunk_is_left_open(_: World, promises: Promises) -> None:
    forged(promises, status="WAITING")


def a_cancel_has_no_place(_: World, promises: Promises) -> None:
    forged(promises, status="CANCELLED")


def a_death_has_no_letter(_: World, promises: Promises) -> None:
    forged(promises, status="DEAD", error_code="tool.stock.none")


def a_certificate_knows_a_chunk_too_many(world: World, promises: Promises) -> None:
    certified(world, promises, lambda told: told["results"].update({"7": "x"}))


def a_certificate_cannot_count(world: World, promises: Promises) -> None:
    certified(world, promises, lambda told: told["outcomes"].update(SUCCEEDED=7))


def a_certificate_has_another_result(world: World, promises: Promises) -> None:
    certified(world, promises, lambda told: told["results"].update({"0": "x"}))


def a_result_is_not_the_one_that_was_told(_: World, promises: Promises) -> None:
    forged(promises, value='"another"')


def a_chunk_has_two_results(world: World, promises: Promises) -> None:
    put(world, promises, keys.result_sk(0), value="1")


def an_effect_is_on_no_record(_: World, promises: Promises) -> None:
    assert promises.outside is not None
    entry = Entry(Effect.PROVIDER_IDEMPOTENT, landed=1, stands=1)
    promises.outside.books["somewhere"] = entry


def what_is_undone_stands(world: World, promises: Promises) -> None:
    an_effect_is_on_no_record(world, promises)
    row = {"effect_key": "somewhere", "effect_state": "UNDONE"}
    put(world, promises, keys.effect_sk(0, "somewhere"), **row)


#: What a checker has to say, in its own words, and what makes it say so.
ENDS: dict[str, Tamper] = {
    "L1: {name}/{number} is {item['status']}": a_chunk_is_left_open,
    "I5: {item['job']}/{chunk} has two results": a_chunk_has_two_results,
    "I5: {item['job']}/{chunk} has another result than it says": (
        a_result_is_not_the_one_that_was_told
    ),
    "I5: {item['job']}/{chunk} was certified with another result": (
        a_certificate_has_another_result
    ),
    "I7: {identity[:12]} happened and is on no record": an_effect_is_on_no_record,
    "I8: {identity[:12]} is {state} and stands": what_is_undone_stands,
    "I12: the certificate of {name} leaves chunks out": (
        a_certificate_knows_a_chunk_too_many
    ),
    "I15: {name}/{number} does not say where it was cancelled": a_cancel_has_no_place,
    "I15: the outcomes of {name} do not add up": a_certificate_cannot_count,
    "I15: {item['job']}/{item['chunk']} has no dead letter: {row}": (
        a_death_has_no_letter
    ),
}
