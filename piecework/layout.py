"""Map the chunks of a job to partitions, and the partitions to blocks.

A partition holds 256 chunks. The first one also holds the job's own items, so that one
query reads a small job. Each further one has its own partition key, so that a large job
has no hot partition. A block counts the full ones among 256 partitions.
Both sizes are part of the stored format: they must not change while there are jobs.
"""

from __future__ import annotations

PARTITION_SIZE = 256
#: Partitions that one item counts. DynamoDB charges each write by the size of the item,
#: so a larger set would cost more.
BLOCK_SIZE = 256


def partition_of(chunk: int) -> int:
    """Return the partition of a chunk; the join is in the first."""
    return max(chunk, 0) // PARTITION_SIZE


def partition_count(chunks: int) -> int:
    """Return how many partitions a job of so many chunks has."""
    return max(1, -(-chunks // PARTITION_SIZE))


def partition_size(partition: int, chunks: int) -> int:
    """Return how many chunks a partition of the job has."""
    return min(PARTITION_SIZE, chunks - partition * PARTITION_SIZE)


def block_of(partition: int) -> int:
    """Return the block of a partition."""
    return partition // BLOCK_SIZE


def block_count(chunks: int) -> int:
    """Return how many blocks a job of so many chunks has."""
    return -(-partition_count(chunks) // BLOCK_SIZE)


def block_size(block: int, chunks: int) -> int:
    """Return how many partitions a block of the job has."""
    return min(BLOCK_SIZE, partition_count(chunks) - block * BLOCK_SIZE)
