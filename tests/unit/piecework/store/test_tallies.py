from __future__ import annotations

from typing import Any

import pytest

from piecework.cost.units import item_size
from piecework.domain import keys
from piecework.domain.job import Job
from piecework.domain.refs import JobRef
from piecework.store.completion import Tallies
from piecework.store.table import Refused, Written
from tests.unit.piecework.store.tables import Paper, paper

REF = JobRef("acme", "job")


def settled(count: int) -> Written:
    return Written({"ended_chunks": set(range(count))})


async def added(
    table: Paper, chunks: int, group: int = 0, ended: Any = (1, 2, 2)
) -> bool:
    return await Tallies(table).add(REF, group, ended, chunks)


async def test_chunks_are_counted_as_a_set() -> None:
    table = paper(settled(2))
    assert await added(table, 10) is False
    ((action,),) = table.written
    assert (action.pk, action.sk) == (REF.pk, "TALLY")
    assert action.update == "ADD ended_chunks :ended"
    assert action.values == {"ended": {1, 2}}


async def test_nothing_to_count_is_no_request() -> None:
    table = paper()
    assert await added(table, 10, ended=[]) is False
    assert table.written == []


@pytest.mark.parametrize(("count", "full"), [(9, False), (10, True)])
async def test_a_small_job_is_full_with_its_only_group(
    count: int,
    full: bool,  # noqa: FBT001
) -> None:
    table = paper(settled(count))
    assert await added(table, 10) is full
    assert len(table.written) == 1


async def test_a_full_group_of_a_large_job_is_tallied_on_the_job() -> None:
    table = paper(settled(256), Written({"full_groups": {0}}))
    assert await added(table, 300) is False
    _, (action,) = table.written
    assert (action.pk, action.sk) == (REF.pk, "META")
    assert action.update == "ADD full_groups :full"
    assert action.values == {"full": {0}}
    assert action.condition == "attribute_exists(pk)"


async def test_the_last_group_fills_the_job() -> None:
    table = paper(settled(44), Written({"full_groups": {0, 1}}))
    assert await added(table, 300, group=1) is True
    assert table.written[0][0].pk == f"{REF.pk}#G#0001"


async def test_a_group_that_is_not_full_is_not_tallied() -> None:
    table = paper(settled(43))
    assert await added(table, 300, group=1) is False
    assert len(table.written) == 1


async def test_a_job_that_is_gone_is_not_full() -> None:
    table = paper(settled(256), Refused(None))
    assert await added(table, 300) is False


async def test_reopened_chunks_leave_the_tally_and_their_group_the_jobs() -> None:
    table = paper()
    await Tallies(table).remove(REF, 1, [257, 258])
    (tally,), (full,) = table.written
    assert (tally.update, tally.values["removed"]) == (
        "DELETE ended_chunks :removed",
        {257, 258},
    )
    assert tally.pk == f"{REF.pk}#G#0001"
    assert full.update == "DELETE full_groups :group, full_blocks :block"
    assert full.values == {"group": {1}, "block": {0}}
    assert full.condition == "attribute_exists(pk)"


#: One group more than a block has.
VERY_LARGE = 256 * 256 + 1


async def test_a_full_group_of_a_very_large_job_is_tallied_in_its_block() -> None:
    table = paper(settled(256), Written({"full_groups": {0, 1}}))
    assert await added(table, VERY_LARGE, group=1) is False
    _, (action,) = table.written
    assert (action.pk, action.sk) == (REF.pk, "TALLY#GROUPS")
    assert action.update == "ADD full_groups :full"
    assert action.values == {"full": {1}}


@pytest.mark.parametrize(("blocks", "full"), [({0}, False), ({0, 1}, True)])
async def test_the_last_block_fills_a_very_large_job(
    blocks: set[int],
    full: bool,  # noqa: FBT001
) -> None:
    table = paper(
        settled(1), Written({"full_groups": {256}}), Written({"full_blocks": blocks})
    )
    assert await added(table, VERY_LARGE, group=256) is full
    _, (block,), (job,) = table.written
    assert f"{REF.pk}#G#0256" == block.pk
    assert (job.pk, job.sk) == (REF.pk, "META")
    assert (job.update, job.values) == ("ADD full_blocks :full", {"full": {1}})
    assert job.condition == "attribute_exists(pk)"


async def test_a_reopened_group_of_a_very_large_job_leaves_its_block_too() -> None:
    table = paper(Written({}), Written({"chunks": VERY_LARGE}))
    await Tallies(table).remove(REF, 256, [65_536])
    _, _, (block,) = table.written
    assert (block.pk, block.sk) == (f"{REF.pk}#G#0256", "TALLY#GROUPS")
    assert (block.update, block.values) == (
        "DELETE full_groups :full",
        {"full": {256}},
    )


@pytest.mark.parametrize(
    ("job", "ended"),
    [
        ({"chunks": 300}, 0),
        ({"chunks": 300, "full_groups": {0}}, 256),
        ({"chunks": 300, "full_groups": {0, 1}}, 300),
        ({"chunks": VERY_LARGE, "full_blocks": {0}}, 65_536),
    ],
)
def test_a_job_counts_ended_chunks_by_its_full_groups(job: Any, ended: int) -> None:
    item = {"status": "RUNNING", "gen": 1, "pipeline": "p", **job}
    assert ended == Job.read(REF, item).ended_at_least


def test_the_item_that_all_workers_read_stays_small_however_large_the_job() -> None:
    blocks = {str(block) for block in range(keys.block_count(keys.MAX_CHUNK_NUMBER))}
    assert item_size({"full_blocks": {"NS": sorted(blocks)}}) < 5_000
