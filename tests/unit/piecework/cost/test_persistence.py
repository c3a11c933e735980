from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from piecework.cost.meter import Actor, CostMeter
from piecework.cost.persistence import (
    ENOUGH,
    LAST_S,
    OLDEST_S,
    POLL_S,
    QUIET_S,
    Keeper,
    keeping,
)
from piecework.domain.refs import JobRef
from piecework.telemetry.emit import listening
from tests.unit.virtual import run_virtually

A = JobRef("acme", "a")
WRITE: Any = {"Key": {"pk": {"S": A.pk}, "sk": {"S": "META"}}}
READ: Any = {**WRITE, "ConsistentRead": True}
ITEM: Any = {"Item": WRITE["Key"]}


class Kept:
    """Keeps what it was told, or refuses."""

    def __init__(self, *, refuses: bool = False, hangs: bool = False) -> None:
        self.refuses, self.hangs = refuses, hangs
        self.told: list[tuple[JobRef, str, Mapping[str, int]]] = []

    async def add(self, job: JobRef, actor: str, counts: Mapping[str, int]) -> None:
        if self.hangs:
            await asyncio.sleep(1000)
        if self.refuses:
            raise OSError
        self.told.append((job, actor, counts))

    def recover(self) -> None:
        self.hangs = False

    def requests(self) -> int:
        return sum(
            n
            for _, _, counts in self.told
            for name, n in counts.items()
            if name.endswith("__requests")
        )


def write(meter: CostMeter, times: int = 1) -> None:
    for _ in range(times):
        meter.saw("dynamodb", "UpdateItem", WRITE, {"x": 1}, again=False)


def end(meter: CostMeter) -> None:
    with meter.working(A, ends=True):
        pass


def read(meter: CostMeter) -> None:
    meter.saw("dynamodb", "GetItem", READ, ITEM, again=False)


async def write_at(keeper: Keeper, *moments: float) -> None:
    for moment in moments:
        await keeper.write_due(moment)


async def test_counts_wait_until_they_are_worth_a_request() -> None:
    meter, kept = CostMeter("worker"), Kept()
    keeper = Keeper(meter, kept)
    write(meter, ENOUGH - 1)
    await write_at(keeper, 0, 5)
    assert [] == kept.told
    write(meter)
    await write_at(keeper, 10)

    [(job, actor, counts)] = kept.told
    assert (A, "worker") == (job, actor)
    # The write that carries the counts is among them.
    assert 1000 * (ENOUGH + 1) == counts["op__UpdateItem__requests"]
    assert 1000 * (ENOUGH + 1) == counts["op__UpdateItem__units"]


async def test_a_job_that_is_left_alone_is_written_down() -> None:
    meter, kept = CostMeter("worker"), Kept()
    keeper = Keeper(meter, kept)
    write(meter)
    await write_at(keeper, 0)
    write(meter)
    await write_at(keeper, 20, 20 + QUIET_S - 1)
    assert [] == kept.told
    await write_at(keeper, 20 + QUIET_S)
    assert 1 == len(kept.told)


async def test_a_count_does_not_wait_for_ever() -> None:
    meter, kept = CostMeter("worker"), Kept()
    keeper = Keeper(meter, kept)
    for moment in range(0, int(OLDEST_S) + 1, 10):
        write(meter)
        await keeper.write_due(moment)
    assert 1 == len(kept.told)


async def test_the_end_of_a_job_is_not_waited_after() -> None:
    meter, kept = CostMeter("worker"), Kept()
    write(meter)
    end(meter)
    await Keeper(meter, kept).write_due(0)
    assert 1 == len(kept.told)


@pytest.mark.parametrize(
    ("actor", "writes"), [("operator", 0), ("reconciler", 1), ("worker", 1)]
)
async def test_a_command_that_only_reads_writes_nothing(
    actor: Actor, writes: int
) -> None:
    meter, kept = CostMeter(actor), Kept()
    read(meter)
    await Keeper(meter, kept).write_rest()

    assert writes == len(kept.told)
    unowned = meter.unowned.get("op__GetItem__requests", 0)
    assert 1000 * (1 - writes) == unowned


async def test_a_job_that_is_not_there_gets_no_item() -> None:
    meter, kept = CostMeter("worker"), Kept()
    meter.saw("dynamodb", "GetItem", READ, {}, again=False)
    refused = {"Error": {"Code": "ConditionalCheckFailedException"}}
    meter.saw("dynamodb", "UpdateItem", WRITE, refused, again=False)
    await Keeper(meter, kept).write_rest()

    assert [] == kept.told


async def test_what_cannot_be_written_is_dropped_and_the_next_one_says_so() -> None:
    meter, kept = CostMeter("worker"), Kept(refuses=True)
    keeper = Keeper(meter, kept)
    write(meter)
    await keeper.write_rest()
    kept.refuses = False
    write(meter)
    await keeper.write_rest()

    [(_, _, counts)] = kept.told
    assert 1 == keeper.dropped
    assert 1 == counts["lost_writes"]
    assert 2000 == counts["op__UpdateItem__requests"]


async def test_what_was_written_down_is_not_written_twice() -> None:
    meter, kept = CostMeter("worker"), Kept()
    keeper = Keeper(meter, kept)
    write(meter, 3)
    await keeper.write_rest()
    await keeper.write_rest()

    assert 1 == len(kept.told)


async def test_an_ended_job_is_forgotten() -> None:
    meter, kept = CostMeter("worker"), Kept()
    keeper = Keeper(meter, kept)
    write(meter)
    end(meter)
    await write_at(keeper, 0, 5, 5 + QUIET_S)

    assert {None} >= {owner for _, owner in meter.accounts}


def test_a_stopping_process_writes_down_the_rest() -> None:
    meter, kept = CostMeter("worker"), Kept()

    async def work() -> None:
        async with keeping(Keeper(meter, kept)):
            write(meter)
            await asyncio.sleep(POLL_S * 2)
            write(meter)

    run_virtually(work())
    assert 3000 == kept.requests()


def test_a_table_that_hangs_does_not_keep_a_process_from_ending() -> None:
    meter, kept = CostMeter("worker"), Kept(hangs=True)

    async def work() -> float:
        began = asyncio.get_running_loop().time()
        async with keeping(Keeper(meter, kept)):
            write(meter)
        return asyncio.get_running_loop().time() - began

    assert run_virtually(work()) < 5


def test_a_process_that_ends_says_how_many_writes_it_did_not_make() -> None:
    meter, kept = CostMeter("worker"), Kept(hangs=True)
    said: list[tuple[str, Mapping[str, Any]]] = []

    async def work() -> None:
        async with keeping(Keeper(meter, kept)):
            for job in "abc":
                pk = {"S": JobRef("acme", job).pk}
                meter.saw("dynamodb", "UpdateItem", {"Key": {"pk": pk}}, {}, again=True)
                meter.saw("dynamodb", "GetItem", {"Key": {"pk": pk}}, ITEM, again=True)

    with listening(lambda event, fields: said.append((event, fields))):
        run_virtually(work())
        assert [("cost.lost", {"count": 3})] == said
        kept.hangs = False
        write(meter)
        run_virtually(work())
    assert 1 == len(said)


def test_a_write_that_is_cut_off_at_the_end_is_dropped_and_the_last_one_says_so() -> (
    None
):
    meter, kept = CostMeter("worker"), Kept(hangs=True)

    async def work() -> None:
        async with keeping(Keeper(meter, kept)):
            write(meter, ENOUGH)
            await asyncio.sleep(POLL_S + 1)
            asyncio.get_running_loop().call_later(LAST_S / 2, kept.recover)

    run_virtually(work())
    [(_, _, counts)] = kept.told
    assert 1 == counts["lost_writes"]


@pytest.mark.parametrize("chunk_s", [0.001, 0.1, 2.0])
def test_a_bill_costs_less_than_a_hundredth_of_what_it_is_about(
    chunk_s: float,
) -> None:
    """10,000 chunks of three requests, and what a worker asks for as time goes by."""
    meter, kept = CostMeter("worker"), Kept()

    async def work() -> None:
        async with keeping(Keeper(meter, kept)):
            for _ in range(10_000):
                write(meter, 3)
                await asyncio.sleep(chunk_s)
            end(meter)
            await asyncio.sleep(POLL_S)

    run_virtually(work())
    writes = len(kept.told)
    assert 1000 * (30_000 + writes) == kept.requests()
    assert 1 <= writes <= 0.01 * 30_000
