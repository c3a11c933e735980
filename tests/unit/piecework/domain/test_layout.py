from __future__ import annotations

import pytest

from piecework.domain import keys


@pytest.mark.parametrize(
    ("chunks", "groups", "last"),
    [(1, 1, 1), (255, 1, 255), (256, 1, 256), (257, 2, 1), (512, 2, 256), (513, 3, 1)],
)
def test_partitions_hold_all_chunks_and_no_more(
    chunks: int, groups: int, last: int
) -> None:
    assert groups == keys.partition_count(chunks)
    assert last == keys.partition_size(groups - 1, chunks)
    sizes = [keys.partition_size(group, chunks) for group in range(groups)]
    assert chunks == sum(sizes)


@pytest.mark.parametrize(
    ("chunks", "blocks", "last"),
    [(1, 1, 1), (65_536, 1, 256), (65_537, 2, 1), (10_000_000, 153, 151)],
)
def test_blocks_hold_all_partitions_and_no_more(
    chunks: int, blocks: int, last: int
) -> None:
    assert blocks == keys.block_count(chunks)
    assert last == keys.block_size(blocks - 1, chunks)
    sizes = [keys.block_size(block, chunks) for block in range(blocks)]
    assert keys.partition_count(chunks) == sum(sizes)


def test_a_job_without_chunks_has_the_partition_of_its_join() -> None:
    assert keys.partition_count(0) == 1
