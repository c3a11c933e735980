"""How the chunks of a job lie: in groups, and the groups in blocks.

A job's chunks lie in groups of 256. The first group shares the partition of the
job, so that a small job reads in one query; each further group has its own, so that
a large job has no hot partition. Its full groups are counted by the 256, too.
Both numbers are part of what is stored: they do not change while there are jobs.
"""

from __future__ import annotations

PARTITION_SIZE = 256
#: Groups whose fullness one item counts: a set of more of them would be an item that
#: costs more with each write.
BLOCK_SIZE = 256


def partition_of(chunk: int) -> int:
    """Return the group of a chunk; the join belongs to the first."""
    return max(chunk, 0) // PARTITION_SIZE


def partition_count(chunks: int) -> int:
    """Return how many groups a job of so many chunks has."""
    return max(1, -(-chunks // PARTITION_SIZE))


def partition_size(group: int, chunks: int) -> int:
    """Return how many chunks a group of the job has."""
    return min(PARTITION_SIZE, chunks - group * PARTITION_SIZE)


def block_of(group: int) -> int:
    """Return the block of a group."""
    return group // BLOCK_SIZE


def block_count(chunks: int) -> int:
    """Return how many blocks of groups a job of so many chunks has."""
    return -(-partition_count(chunks) // BLOCK_SIZE)


def block_size(block: int, chunks: int) -> int:
    """Return how many groups a block of the job has."""
    return min(BLOCK_SIZE, partition_count(chunks) - block * BLOCK_SIZE)
